"""Promise: the simulated object store fails exactly when and how it is told to."""

from __future__ import annotations

import random

import pytest

from strandline.errors import NotFound, ObjectStoreDenied, ObjectStoreUnreachable
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects


def test_a_call_fails_before_or_after_it_happened():
    objects = SimObjects()
    before = objects.fail("put", 1, how="before")
    after = objects.fail("put", 2, how="after")

    for key in ("a", "b"):
        with pytest.raises(ObjectStoreUnreachable):
            objects.put(key, b"x")
    objects.put("c", b"x")

    assert (before.fired, after.fired) == (1, 1)
    assert sorted(objects.snapshot()) == ["b", "c"]


def test_a_fault_strikes_the_nth_match_once_or_from_then_on():
    objects = SimObjects()
    once = objects.fail("get", 2, key_contains="a")
    for_good = objects.fail("head", 2, once=False)
    for key in ("a", "b"):
        objects.put(key, b"x")

    got = [answers(lambda key=key: objects.get(key)) for key in ("b", "a", "b", "a", "a")]
    asked = [answers(lambda: objects.head("b")) for _ in range(4)]

    assert got == [True, True, True, False, True]
    assert asked == [True, False, False, False]
    assert (once.fired, for_good.fired) == (1, 3)


def test_bytes_come_back_flipped_or_truncated_once():
    objects = SimObjects()
    objects.put("a", b"0123456789")
    objects.fail("get", 1, how="flipped")
    objects.fail("get", 2, how="truncated")
    objects.fail("get_ranges", 1, how="truncated")

    flipped, truncated, whole = (objects.get("a") for _ in range(3))
    part = objects.get_range("a", 2, 3)

    assert sum(bin(a ^ b).count("1") for a, b in zip(flipped, whole, strict=True)) == 1
    assert truncated == whole[:-1]
    assert part == b"23"


@pytest.mark.parametrize(("lands", "there"), [(Oldest(), False), (Newest(), True)])
def test_a_call_in_flight_at_a_cut_may_have_happened_and_later_ones_have_not(lands, there):
    objects = SimObjects()

    def cut(operation: str, key: str) -> None:
        objects.on_call = None
        objects.cut(lands)

    objects.on_call = cut
    for key in ("in-flight", "later"):
        with pytest.raises(ObjectStoreUnreachable):
            objects.create(key, b"x")
    objects.heal()

    assert sorted(objects.snapshot()) == (["in-flight"] if there else [])
    objects.put("after", b"x")


def test_calls_and_bytes_are_counted():
    objects = SimObjects(page_size=2)
    for key in ("a", "b", "c"):
        objects.put(key, b"123")
    objects.get("a")
    objects.get_ranges("b", [(0, 1), (1, 1)])
    list(objects.list())

    assert objects.calls == {"put": 3, "get": 1, "get_ranges": 1, "list": 2}
    assert objects.calls_total == 7
    assert objects.bytes_in == {"put": 9}
    assert objects.bytes_out == {"get": 3, "get_ranges": 2}


def test_a_snapshot_is_what_was_there_and_can_be_gone_back_to():
    objects = SimObjects()
    objects.put("a", b"1")
    moment = objects.snapshot()
    twin = objects.fork()
    objects.delete(["a"])
    objects.put("b", b"2")

    objects.restore(moment)

    assert [info.key for info in objects.list()] == ["a"]
    assert [info.key for info in twin.list()] == ["a"]
    assert twin.calls == {"list": 1}


def test_refused_credentials_and_a_lagging_list_are_told_as_such():
    objects = SimObjects(clock=SimClock())
    objects.put("a", b"1")
    objects.put("b", b"2")
    objects.lagging_list = 1

    listed = [info.key for info in objects.list()]
    objects.denied = True

    assert listed == ["a"]
    with pytest.raises(ObjectStoreDenied):
        objects.get("b")
    objects.heal()
    assert objects.get("b") == b"2"


def test_the_same_seed_cuts_the_same_way():
    def landed(seed: int) -> list[bool]:
        result = []
        rng = random.Random(seed)
        for _ in range(20):
            objects = SimObjects()
            objects.on_call = lambda operation, key, objects=objects: objects.cut(rng)
            with pytest.raises(ObjectStoreUnreachable):
                objects.put("a", b"x")
            result.append("a" in objects.snapshot())
        return result

    assert landed(7) == landed(7)
    assert set(landed(7)) == {True, False}


def test_only_operations_that_exist_can_fail():
    with pytest.raises(ValueError, match="sync"):
        SimObjects().fail("sync")


def answers(ask) -> bool:
    try:
        ask()
    except (ObjectStoreUnreachable, NotFound):
        return False
    return True
