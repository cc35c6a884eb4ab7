"""Promise (C1, C3, C9): nothing in the lake changes unnoticed, and no wrong record is read from it.

One bit of every byte of every object of a small lake is flipped: of store.json, terms, names,
manifests and Parquet files. ``verify`` and the scrub job name the object; a reader gets an error or
the truth.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt, StrandlineError
from strandline.log.repair.verify import VerifyReport, verify_store
from strandline.testing.sim_objects import SimObjects
from tests.corruption.lakes import (
    copy_of,
    expected,
    keys_of,
    lake_store,
    opened,
    put_in_place,
    settings,
)
from tests.corruption.stores import ROOT, content_of, flipped

KINDS = ["store.json", "terms/", "names/", "/manifest/", "/data/"]
STEPS = [41, pytest.param(1, marks=pytest.mark.crash)]


def verified(objects: SimObjects, *, lake: bool = True) -> VerifyReport:
    return verify_store(lake_store()[0].kill(), ROOT, settings(), objects=objects, lake=lake)


def flips(kind: str, step: int) -> list[tuple[str, int, SimObjects]]:
    """Every step-th byte of the objects of a kind, each with a lake where a bit of it flipped."""
    _, whole = lake_store()
    found = []
    for key in keys_of(whole):
        content = whole.get(key)
        for offset in range(0, len(content) if kind in key else 0, step):
            damaged = whole.fork()
            put_in_place(damaged, key, flipped(content, offset, offset % 8))
            found.append((key, offset, damaged))
    assert found
    return found


def test_a_whole_lake_has_no_problem_and_is_not_changed():
    disk, objects = copy_of(lake_store())
    before = objects.snapshot()

    report = verify_store(disk, ROOT, settings(), objects=objects)

    assert (report.problems, report.notes) == ([], [])
    assert report.bytes_read > sum(len(stored.data) for stored in before.values())
    assert objects.snapshot() == before


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_verify_names_the_object_of_any_flipped_bit(kind, step):
    missed = [
        (key, offset)
        for key, offset, objects in flips(kind, step)
        if not any(key in problem.path for problem in verified(objects).problems)
    ]

    assert missed == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_scrub_job_names_the_object_of_any_flipped_bit(kind, step):
    missed = []
    for key, offset, objects in flips(kind, step):
        with opened(lake_store()[0].kill(), objects) as store:
            told = store.scrub()

        if not any(key in finding.path for finding in told.findings):
            missed.append((key, offset))

    assert missed == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_makes_a_reader_see_another_record(kind, step):
    wrong = []
    for key, offset, objects in flips(kind, step):
        with opened(lake_store()[0].kill(), objects) as store:
            found = content_of(store)

        for name, content in expected().items():
            other = found[name]
            told = isinstance(other, Corrupt) and key in str(other)
            if other != content and not told:
                wrong.append((key, offset, name, other))

    assert wrong == []


def test_a_missing_object_is_found():
    disk, whole = lake_store()
    missed = []
    for key in keys_of(whole):
        objects = whole.fork()
        objects.delete([key])

        problems = verify_store(disk.kill(), ROOT, settings(), objects=objects).problems

        named = key.rpartition("/")[0] if "/manifest/" in key else key
        if not any(named in problem.path for problem in problems):
            missed.append(key)

    assert missed == []


def test_a_lake_of_yesterday_does_not_pass_for_todays():
    disk, objects = copy_of(lake_store())
    old = objects.snapshot()
    with opened(disk, objects) as store:
        for number in range(8):
            store.topic("young").append(b"young 2 %d" % number)
        store.checkpoint()
        store.relocate()

    objects.restore(old)
    report = verify_store(disk, ROOT, settings(), objects=objects)

    assert any("newer" in problem.reason for problem in report.problems)
    assert {problem.kind for problem in report.problems} == {"lake"}


def test_another_stores_lake_does_not_pass_for_ours():
    stranger = SimObjects()
    for key in keys_of(lake_store()[1]):
        stranger.put(key, lake_store()[1].get(key))
    put_in_place(stranger, "store.json", b"{}")

    report = verified(stranger)

    assert "store.json" in {problem.path for problem in report.problems}


def test_without_the_lake_only_the_store_is_verified():
    objects = SimObjects()

    assert verified(objects, lake=False).ok
    assert not verified(objects).ok
    assert not objects.snapshot()


def test_a_problem_in_a_lake_file_names_topic_and_seqs():
    _, whole = lake_store()
    key = next(key for key in keys_of(whole) if "/data/" in key)
    objects = whole.fork()
    put_in_place(objects, key, flipped(whole.get(key), 40, 0))

    (problem,) = verified(objects).problems

    assert (problem.kind, problem.topic, problem.first_seq, problem.last_seq) == (
        "lake",
        "old",
        1,
        8,
    )


def test_a_store_of_which_the_lake_is_gone_serves_what_it_has():
    disk, _ = copy_of(lake_store())
    with opened(disk, SimObjects()) as store:
        cold = store.topic("old")
        with pytest.raises(StrandlineError):
            cold.read(0)

        assert cold.read(16, 100).data[-1] == b"in the log"
