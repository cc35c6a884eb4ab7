"""Promise: whatever request of a store fails, and however, patience gives the same answers.

O1, O2, O3: every request of a workload fails once, before it happens or after, and nothing that the
caller sees changes; a store that stays away is told after a bounded number of tries.
"""

from __future__ import annotations

import pytest

from strandline.config.settings import ObjectSettings
from strandline.errors import (
    NotFound,
    ObjectExists,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    StrandlineError,
)
from strandline.platform.objectstore.retrying import RetryingObjects
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import How, SimObjects

PATIENCE = ObjectSettings(attempts_max=3, delay_s_first=0.0001)


@pytest.mark.parametrize("how", ["before", "after"])
def test_any_request_may_fail_once_and_nothing_that_is_seen_changes(how: How):
    calm = SimObjects(page_size=3)
    expected = workload(calm)

    fired = 0
    for nth in range(1, calm.calls_total + 1):
        shaken = SimObjects(page_size=3)
        fault = shaken.fail_at(nth, how)
        assert workload(shaken) == expected, f"request {nth} failed {how} it happened"
        fired += fault.fired

    assert fired == calm.calls_total


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_store_that_stays_away_is_told_after_a_bounded_number_of_tries(how: How):
    objects = SimObjects()
    objects.put("a", b"1")
    objects.fail(how=how, once=False)
    patient = RetryingObjects(objects, PATIENCE)
    before = objects.calls_total

    for use in (
        lambda: patient.create("b", b"1"),
        lambda: patient.put("c", b"1"),
        lambda: patient.get("a"),
        lambda: patient.get_range("a", 0, 1),
        lambda: patient.head("a"),
        lambda: patient.delete(["a"]),
    ):
        with pytest.raises(ObjectStoreUnreachable):
            use()
    with pytest.raises(ObjectStoreUnreachable):
        list(patient.list())

    assert objects.calls_total - before == 6 * PATIENCE.attempts_max + 1 + PATIENCE.attempts_max


def test_only_silence_is_tried_again():
    objects = SimObjects()
    objects.create("a", b"stranger's")
    patient = RetryingObjects(objects, PATIENCE)

    asked = {}
    for use, error in (
        (lambda: patient.create("a", b"our own 10"), ObjectExists),
        (lambda: patient.get("absent"), NotFound),
        (lambda: patient.head("absent"), NotFound),
    ):
        before = objects.calls.copy()
        with pytest.raises(error):
            use()
        asked[error] = (objects.calls - before).total()
    objects.denied = True
    before = objects.calls_total
    with pytest.raises(ObjectStoreDenied):
        patient.get("a")

    assert asked == {ObjectExists: 4, NotFound: 1}  # create, head, two different answers
    assert objects.calls_total - before == 1


def test_an_object_that_vanishes_under_a_creator_is_created_again():
    objects = SimObjects()
    objects.create("a", b"stranger's")

    def delete_before_it_is_read_back(operation: str, key: str) -> None:
        if operation == "head":
            objects.on_call = None
            objects.delete([key])

    objects.on_call = delete_before_it_is_read_back
    created = RetryingObjects(objects, PATIENCE).create("a", b"our own 10")

    assert not created.recognised
    assert objects.get("a") == b"our own 10"


def test_a_bit_that_flips_on_the_way_back_does_not_make_our_object_a_strangers():
    objects = SimObjects()
    objects.fail("create", how="after")
    flipped = objects.fail("get", how="flipped")

    created = RetryingObjects(objects, PATIENCE).create("a", b"our own")

    assert created.recognised
    assert flipped.fired == 1


def test_a_stream_is_not_read_twice():
    objects = SimObjects()
    objects.fail("put_stream", how="before")
    patient = RetryingObjects(objects, PATIENCE)

    with pytest.raises(ObjectStoreUnreachable):
        patient.put_stream("a", iter([b"once"]))

    assert objects.calls["put_stream"] == 1


def workload(objects: SimObjects) -> list[object]:
    """Some of everything; what a caller sees."""
    patient = RetryingObjects(objects, PATIENCE)
    disk = SimDisk()
    disk.durable_replace("file", b"from a file")
    file = disk.open_read("file")
    seen: list[object] = []
    for number in range(4):
        patient.create(f"m/{number}", b"attempt %d" % number)
    seen.append(outcome(lambda: patient.create("m/2", b"stranger")))
    seen.append(patient.put("d/a", b"0123456789"))
    seen.append(patient.put_file("d/b", file))
    seen += [patient.get("d/a"), patient.get_range("d/a", 3, 4), patient.head("d/b").size]
    seen.append(patient.get_ranges("d/a", [(0, 1), (9, 1)]))
    seen.append(outcome(lambda: patient.get("absent")))
    seen.append([info.key for info in patient.list("m")])
    patient.delete(["m/0", "absent"])
    seen.append([info.key for info in patient.list()])
    seen.append({key: stored.data for key, stored in objects.snapshot().items()})
    return seen


def outcome(use: object) -> str:
    try:
        use()  # type: ignore[operator] - a lambda of the workload
    except StrandlineError as error:
        return error.code
    return "done"
