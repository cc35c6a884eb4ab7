"""Promise: an iterator goes on behind the last key it gave, whatever changes between its steps."""

from __future__ import annotations

import itertools

import pytest

from strandline.reservoir.btree.btree_map import PagedMap
from tests.unit.reservoir.map_pages import MemoryPages


def numbered(count: int, **options) -> PagedMap:
    made = PagedMap(MemoryPages(), **{"page_bytes": 256, **options})
    made.put_many((b"%05d" % n, b"%d" % n) for n in range(count))
    return made


@pytest.mark.parametrize("reverse", [False, True])
def test_deleting_every_key_that_was_given(reverse: bool):
    made = numbered(500)

    given = []
    for key, _ in made.range(reverse=reverse):
        given.append(key)
        assert made.delete(key)

    assert sorted(given) == [b"%05d" % n for n in range(500)]
    assert len(made) == 0
    made.check()


@pytest.mark.parametrize("reverse", [False, True])
def test_deleting_what_comes_next(reverse: bool):
    made = numbered(500)

    given = []
    for key, _ in made.range(reverse=reverse):
        given.append(int(key))
        made.delete(b"%05d" % (int(key) + (-1 if reverse else 1)))

    assert len(given) == 250
    assert {number % 2 for number in given} == {reverse}
    made.check()


@pytest.mark.parametrize("reverse", [False, True])
def test_keys_put_behind_are_given_and_keys_put_before_are_not(reverse: bool):
    made = numbered(200)
    before, behind = (b"~", b"!") if reverse else (b"!", b"~")

    given = []
    for key, _ in made.range(reverse=reverse):
        given.append(key)
        if len(given) <= 50:
            made.put(before + key, b"v" * 50)
            made.put(behind + key, b"v" * 50)

    assert not [key for key in given if key.startswith(before)]
    assert len([key for key in given if key.startswith(behind)]) == 50
    assert len(given) == len(set(given)) == 250


def test_a_key_just_put_in_front_of_the_iterator_is_given_next():
    made = numbered(100)
    scan = made.range()

    first = next(scan)
    made.put(b"00000!", b"new")
    second = next(scan)

    assert (first, second) == ((b"00000", b"0"), (b"00000!", b"new"))


def test_a_new_value_is_given_when_its_turn_comes():
    made = numbered(100)
    scan = made.range()

    next(scan)
    made.put(b"00001", b"new")

    assert next(scan) == (b"00001", b"new")


@pytest.mark.parametrize("reverse", [False, True])
def test_reading_between_steps_with_no_memory_changes_nothing(reverse: bool):
    made = numbered(300, ram_bytes=0)

    given = []
    for key, value in made.range(reverse=reverse):
        given.append((key, value))
        made.get(b"%05d" % (len(given) * 37 % 300))

    expected = [(b"%05d" % n, b"%d" % n) for n in range(300)]
    assert given == (expected[::-1] if reverse else expected)


def test_two_iterators_do_not_disturb_each_other():
    made = numbered(300)

    pairs = list(zip(made.range(), made.range(reverse=True), strict=True))

    assert all(int(one[0]) + int(other[0]) == 299 for one, other in pairs)


def test_an_iterator_that_has_ended_stays_ended():
    made = numbered(3)
    scan = made.range()

    assert len(list(itertools.islice(scan, 10))) == 3
    made.put(b"99999", b"late")

    assert list(scan) == []
