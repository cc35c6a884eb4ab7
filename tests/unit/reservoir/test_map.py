"""Promise: a map on pages answers as a sorted dict does, for every key and value within limits."""

from __future__ import annotations

import random

import pytest

from strandline.errors import Invalid, TooLarge
from strandline.reservoir.btree.btree_map import PagedMap
from tests.unit.reservoir.map_pages import MemoryPages

LARGE = bytes(range(256)) * 12_345  # three pieces


def small_map(pages: MemoryPages | None = None, **options) -> PagedMap:
    return PagedMap(pages or MemoryPages(), **{"page_bytes": 256, **options})


def filled(count: int, **options) -> tuple[PagedMap, dict[bytes, bytes]]:
    """Keys in any order; every second number is free."""
    entries = {b"%06d" % (2 * n): b"value %d" % n for n in range(count)}
    made = small_map(**options)
    for key in random.Random(count).sample(sorted(entries), count):
        made.put(key, entries[key])
    return made, entries


def test_a_value_that_was_put_is_got():
    made = small_map()

    made.put(b"key", b"value")

    assert made.get(b"key") == b"value"
    assert made.get(b"kez") is None
    assert b"key" in made
    assert b"ke" not in made
    assert len(made) == 1


def test_empty_keys_and_empty_values_are_like_any_other():
    made, entries = filled(100)

    made.put(b"", b"")
    made.put(b"\0", b"")

    assert made.get(b"") == b""
    assert b"" in made
    assert made.first_key() == b""
    assert list(made.range()) == [(b"", b""), (b"\0", b""), *entries.items()]
    assert made.delete(b"")
    assert b"" not in made


def test_the_last_value_counts():
    made, entries = filled(100)

    for key in entries:
        made.put(key, b"new")
        made.put(key, b"newer " * 20)

    assert [value for _, value in made.range()] == [b"newer " * 20] * 100
    assert len(made) == 100
    made.check()


def test_delete_tells_whether_the_key_was_there():
    made, _ = filled(100)

    assert made.delete(b"000010")
    assert not made.delete(b"000010")
    assert not made.delete(b"000011")

    assert made.get(b"000010") is None
    assert len(made) == 99


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_has_its_first_key_and_not_its_next(reverse: bool):
    made, entries = filled(200)
    bounds = [None, b"", b"000000", b"000001", b"000198", b"000199", b"000398", b"000399", b"1"]

    for first in bounds:
        for following in bounds:
            found = list(made.range(first, following, reverse=reverse))

            low, high = first or b"", b"2" if following is None else following
            expected = [(k, v) for k, v in entries.items() if low <= k < high]
            assert found == (expected[::-1] if reverse else expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_prefix_gives_the_keys_that_begin_so(reverse: bool):
    made = small_map()
    keys = sorted([b"", b"a", b"a\xff", b"a\xff\xff", b"a\xff\xffz", b"b", b"\xff", b"\xff\xff"])
    made.put_many((key, key) for key in keys)

    for prefix in [*keys, b"c", b"a\xfe"]:
        found = [key for key, _ in made.prefix(prefix, reverse=reverse)]

        assert sorted(found, reverse=reverse) == found
        assert sorted(found) == [key for key in keys if key.startswith(prefix)]


def test_first_and_last_key():
    made, _ = filled(300)
    empty = small_map()

    assert (made.first_key(), made.last_key()) == (b"000000", b"000598")
    assert (empty.first_key(), empty.last_key()) == (None, None)


def test_keys_and_values_may_be_any_buffer():
    made = small_map()

    made.put(bytearray(b"key"), memoryview(b"value"))
    made.put_many([(memoryview(b"other"), bytearray(b"one"))])

    assert made.get(memoryview(b"key")) == b"value"
    assert made.get_many([bytearray(b"other")]) == [b"one"]
    assert list(made.range(bytearray(b"l"))) == [(b"other", b"one")]
    assert made.delete(bytearray(b"key"))


@pytest.mark.parametrize("given", ["text", 5, None, [1]])
def test_what_is_no_buffer_is_refused(given):
    made = small_map()

    for call in (
        lambda: made.get(given),
        lambda: made.put(given, b""),
        lambda: made.put(b"", given),
        lambda: made.put_many([(b"", given)]),
        lambda: made.delete(given),
        lambda: made.get_many([given]),
        lambda: made.prefix(given),
    ):
        with pytest.raises(Invalid):
            call()

    assert len(made) == 0


def test_the_largest_keys_and_values_come_back_after_reopening():
    pages = MemoryPages()
    made = PagedMap(pages)
    keys = [bytes((n,)) * 4096 for n in range(40)]
    made.put_many((key, key[:9]) for key in keys)
    made.put(b"large", b"x" * (16 << 20))

    made.save()
    found = PagedMap(pages)

    assert found.get(b"large") == b"x" * (16 << 20)
    assert [key for key, _ in found.range()] == sorted([*keys, b"large"])
    found.check()


def test_what_is_over_a_limit_is_refused_and_changes_nothing():
    made, entries = filled(50)

    with pytest.raises(TooLarge):
        made.put(b"k" * 4097, b"")
    with pytest.raises(TooLarge):
        made.put(b"000010", b"v" * ((16 << 20) + 1))
    with pytest.raises(TooLarge):
        made.put_many([(b"000010", b""), (b"k" * 4097, b"")])

    assert dict(made.range()) == entries
    made.check()


@pytest.mark.parametrize(
    "options",
    [
        {"space": -1},
        {"space": 1 << 31},
        {"page_bytes": 127},
        {"page_bytes": 1 << 20},
        {"ram_bytes": -1},
    ],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(Invalid):
        PagedMap(MemoryPages(), **options)


def test_a_large_value_has_pages_of_its_own_and_gives_them_back():
    made, _ = filled(50)

    made.put(b"large", LARGE)
    pieces = made.statistics().pieces
    whole = made.get(b"large")
    made.put(b"large", b"small")
    made.put(b"large", LARGE)
    made.delete(b"large")

    assert pieces == 4
    assert whole == LARGE
    assert made.statistics().pieces == 0
    made.check()


def test_page_numbers_are_used_again():
    pages = MemoryPages()
    made = small_map(pages)

    for n in range(200):
        made.put(b"large", bytes((n,)) * 3_000_000)
        if n % 10 == 0:
            made.save()
    made.save()

    assert max(pages.pages) < 15
    made.check()
    assert small_map(pages).get(b"large") == bytes((199,)) * 3_000_000


def test_get_many_answers_in_the_order_of_the_keys():
    made, entries = filled(300)
    made.put(b"large", LARGE)
    keys = [b"000100", b"none", b"large", b"000100", b"", b"000598", b"000000"]

    found = made.get_many(keys)

    assert found == [entries.get(key) if key != b"large" else LARGE for key in keys]
    assert made.get_many([]) == []


@pytest.mark.parametrize("order", ["sorted", "reverse", "any"])
@pytest.mark.parametrize("size", [1, 7, 120])
def test_put_many_is_many_puts(order: str, size: int):
    made, entries = filled(150)
    new = {b"%06d" % n: b"%d" % n * (n % size + 1) for n in range(100, 400)}
    keys = sorted(new, reverse=order == "reverse")
    if order == "any":
        random.Random(1).shuffle(keys)

    made.put_many((key, new[key]) for key in keys)

    assert list(made.range()) == sorted({**entries, **new}.items())
    assert len(made) == len({**entries, **new})
    made.check()


def test_of_one_key_in_put_many_the_last_value_counts_also_when_large():
    made = small_map()
    pairs = [(b"a", b"1"), (b"a", LARGE), (b"b", LARGE), (b"b", b"2"), (b"c", b"1"), (b"c", b"2")]

    made.put_many(pairs)

    assert list(made.range()) == [(b"a", LARGE), (b"b", b"2"), (b"c", b"2")]
    made.check()


def test_put_many_over_many_batches():
    made = PagedMap(MemoryPages())
    count = 120_000

    made.put_many((b"%08d" % (n * 7919 % count), b"%d" % n) for n in range(count))

    assert len(made) == count
    assert sum(1 for _ in made.range()) == count
    assert made.get(b"%08d" % (5 * 7919 % count)) == b"5"
    made.check()


def test_put_many_gives_back_the_pages_of_large_values():
    for others in (1, 5):
        made, _ = filled(100)
        made.put(b"000051", LARGE)

        made.put_many((b"%06d" % n, b"small") for n in range(51 - others, 51 + others))

        assert made.statistics().pieces == 0
        assert made.get(b"000051") == b"small"
        made.check()


@pytest.mark.parametrize("at_once", [0, 1, 10, 1000])
def test_overwriting_with_shorter_values_merges_leaves(at_once: int):
    """With ``put_many`` of so many, or with ``put``."""
    made = small_map()
    made.put_many((b"%04d" % n, b"v" * 60) for n in range(1000))
    leaves = made.statistics().leaves

    for first in range(0, 1000, at_once or 1):
        if at_once:
            made.put_many((b"%04d" % n, b"") for n in range(first, first + at_once))
        else:
            made.put(b"%04d" % first, b"")

    assert made.statistics().leaves < leaves / 4
    made.check()


def test_two_spaces_of_one_session_do_not_meet():
    pages = MemoryPages()
    one, other = small_map(pages, space=0), small_map(pages, space=(1 << 31) - 1)

    one.put_many((b"%d" % n, b"one") for n in range(100))
    other.put_many((b"%d" % n, b"other") for n in range(100))
    one.save()
    other.save()

    assert {value for _, value in small_map(pages, space=0).range()} == {b"one"}
    assert {value for _, value in small_map(pages, space=(1 << 31) - 1).range()} == {b"other"}
    small_map(pages, space=0).check()
    small_map(pages, space=(1 << 31) - 1).check()
