"""Promise: a scan gives every key of its range once, in order, and can be gone on with."""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Invalid
from strandline.views.kv.key_state import INLINE_BYTES_MAX
from strandline.views.view import ViewAppend
from tests.unit.views.kv.world import World, forgetful_kv_of, host_of, kv_of, save

COUNT = 3000


def _keys(entries) -> list[bytes]:
    return [entry.key for entry in entries]


def test_keys_come_in_order_whether_they_are_saved_or_not():
    world = World()
    kv = kv_of(world.store)
    for number in range(0, 100, 2):
        kv.put(b"%03d" % number, b"saved")
    save(world.store)
    for number in range(1, 100, 2):
        kv.put(b"%03d" % number, b"not saved")
    kv.put(b"050", b"overwritten")
    kv.delete(b"060")

    entries = list(kv.scan())

    expected = [b"%03d" % number for number in range(100) if number != 60]
    assert _keys(entries) == expected
    assert entries[50].value == b"overwritten"
    assert _keys(kv.scan(reverse=True)) == expected[::-1]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_many_keys_gives_each_once(reverse):
    kv = kv_of(World().store)
    expected = [b"%05d" % number for number in range(COUNT)]
    for first in range(0, COUNT, 500):
        kv._host.append(_many(expected[first : first + 500]))

    assert _keys(kv.scan(reverse=reverse)) == (expected[::-1] if reverse else expected)


def test_a_prefix_is_a_prefix_of_bytes():
    kv = kv_of(World().store)
    keys = [b"a", b"b", b"b\x00", b"b\xff", b"b\xff\xff", b"c", b"\xff", b"\xff\xff"]
    for key in keys:
        kv.put(key, b"")

    assert _keys(kv.scan("b")) == [b"b", b"b\x00", b"b\xff", b"b\xff\xff"]
    assert _keys(kv.scan(b"b\xff")) == [b"b\xff", b"b\xff\xff"]
    assert _keys(kv.scan(b"\xff")) == [b"\xff", b"\xff\xff"]
    assert _keys(kv.scan("")) == keys
    assert _keys(kv.scan("x")) == []


def test_a_range_includes_its_first_and_not_its_next():
    kv = kv_of(World().store)
    for key in "abcde":
        kv.put(key, b"")

    assert _keys(kv.scan(first="b", next="d")) == [b"b", b"c"]
    assert _keys(kv.scan(first="b", next="d", reverse=True)) == [b"c", b"b"]
    assert _keys(kv.scan(first="bb")) == [b"c", b"d", b"e"]
    assert _keys(kv.scan(next="c")) == [b"a", b"b"]
    assert _keys(kv.scan(first="d", next="b")) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_gone_on_with_behind_its_cursor(reverse):
    kv = kv_of(World().store)
    expected = [b"x%02d" % number for number in range(50)]
    for key in expected:
        kv.put(key, b"")
    kv.put("y", b"")

    found: list[bytes] = []
    while page := _keys(kv.scan("x", after=found[-1] if found else None, limit=7, reverse=reverse)):
        found += page

    assert found == (expected[::-1] if reverse else expected)


def test_a_limit_counts_keys_that_are_there():
    world = World()
    kv = kv_of(world.store)
    for number in range(40):
        kv.put(b"%02d" % number, b"", ttl=1 if number < 30 else None)
    world.clock.advance(1)

    assert _keys(kv.scan(limit=3)) == [b"30", b"31", b"32"]
    assert _keys(kv.scan(limit=0)) == []


@pytest.mark.parametrize("ram_bytes", [0, 10_000, 1 << 20])
def test_keys_that_are_put_and_deleted_meanwhile_are_seen_as_they_are_when_they_are_reached(
    ram_bytes,
):
    kv = forgetful_kv_of(World().store, ram_bytes)
    for number in range(100):
        kv.put(b"%03d" % number, b"old")
    scan = kv.scan()

    begun = list(itertools.islice(scan, 5))
    kv.delete(b"090")
    kv.put(b"095", b"new")
    kv.put(b"0955", b"new")
    kv.put(b"000", b"new")
    rest = list(scan)

    found = begun + rest
    expected = sorted({b"%03d" % number for number in range(100)} - {b"090"} | {b"0955"})
    assert _keys(found) == expected
    assert [entry.key for entry in found if entry.value == b"new"] == [b"095", b"0955"]


def test_a_scan_does_not_wade_through_deleted_keys():
    world = World()
    kv = kv_of(world.store)
    host = host_of(world.store)
    keys = [b"%05d" % number for number in range(COUNT)]
    host.append(_many(keys))
    kv.put("z", b"")
    for key in keys:
        kv.delete(key)
    with host.reading() as fold:
        fold.flush()

        assert len(fold._live) == 1
        assert len(fold._deleted) == COUNT
    assert _keys(kv.scan()) == [b"z"]


@pytest.mark.parametrize(
    "options",
    [{"prefix": "a", "first": "b"}, {"prefix": "a", "next": "b"}, {"limit": -1}, {"limit": "5"}],
)
def test_what_makes_no_sense_is_refused_at_once(options):
    with pytest.raises(Invalid):
        kv_of(World().store).scan(**options)


def _many(keys: list[bytes]) -> ViewAppend:
    return ViewAppend(0, [b"v"] * len(keys), keys)


def test_a_large_value_that_is_overwritten_and_compacted_meanwhile_is_seen_as_it_is_by_then():
    world = World()
    kv = kv_of(world.store, history=1, grace_ms=0)
    for key in "abc":
        kv.put(key, b"1" * (INLINE_BYTES_MAX + 1))
    scan = kv.scan()
    first = next(scan)

    kv.put("b", b"2" * (INLINE_BYTES_MAX + 1))
    kv.delete("c")
    world.clock.advance(1)
    world.store.checkpoint()
    rest = list(scan)

    assert [(entry.key, entry.value[:1]) for entry in (first, *rest)] == [
        (b"a", b"1"),
        (b"b", b"2"),
    ]
