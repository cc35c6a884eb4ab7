"""Promise: pages are well filled, small ones are merged, and a save costs what has changed."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.split_points import (
    even_parts,
    full_parts,
    full_parts_backwards,
    separator,
)
from tests.unit.reservoir.map_pages import MemoryPages

COUNT = 5_000


def keys(order: str, count: int = COUNT) -> list[bytes]:
    made = [b"key %08d" % n for n in range(count)]
    if order == "descending":
        made.reverse()
    if order == "any":
        random.Random(2).shuffle(made)
    return made


@pytest.mark.parametrize(
    ("order", "fill_min"), [("ascending", 0.95), ("descending", 0.95), ("any", 0.6)]
)
@pytest.mark.parametrize("page_bytes", [1024, 4096])
def test_inserts_one_by_one_fill_the_pages(order: str, fill_min: float, page_bytes: int):
    made = PagedMap(MemoryPages(), page_bytes=page_bytes)

    for key in keys(order):
        made.put(key, b"a value of some bytes")

    assert made.statistics().fill > fill_min
    made.check()


def test_ascending_inserts_fill_branches_as_well():
    made = PagedMap(MemoryPages(), page_bytes=256)

    for key in keys("ascending"):
        made.put(key, b"a value of some bytes")

    found = made.statistics()
    children = (found.leaves + found.branches) / found.branches
    assert children > 11, "of 13 that have room"


@pytest.mark.parametrize("order", ["ascending", "any"])
def test_put_many_fills_the_pages(order: str):
    made = PagedMap(MemoryPages(), page_bytes=1024)

    made.put_many((key, b"a value of some bytes") for key in keys(order))

    assert made.statistics().fill > 0.75
    made.check()


def test_pages_are_no_larger_than_asked_for():
    pages = MemoryPages()
    made = PagedMap(pages, page_bytes=1024)
    chance = random.Random(3)
    for key in keys("any"):
        made.put(key + b"k" * chance.randrange(40), b"v" * chance.randrange(256))

    made.save()

    # A few bytes more: lengths over 255 take one byte more than is reckoned with.
    assert max(map(len, pages.pages.values())) <= 1024 + 16


def test_deleting_most_entries_merges_leaves_and_lowers_the_tree():
    made = PagedMap(MemoryPages(), page_bytes=256)
    for key in keys("any"):
        made.put(key, b"value")
    before = made.statistics()

    for key in keys("any")[: COUNT - 50]:
        made.delete(key)

    after = made.statistics()
    assert before.height >= 4
    assert after.height < before.height
    assert after.leaves < 50
    made.check()


@pytest.mark.parametrize("order", ["ascending", "descending", "any"])
def test_deleting_everything_leaves_one_empty_leaf(order: str):
    pages = MemoryPages()
    made = PagedMap(pages, page_bytes=256)
    made.put_many((key, b"value") for key in keys("any", 2000))
    made.save()

    for key in keys(order, 2000):
        assert made.delete(key)
    made.check()
    made.save()

    assert len(made) == 0
    assert len(pages.pages) == 2
    assert made.statistics().height == 1


def test_a_save_writes_what_has_changed_and_the_root():
    pages = MemoryPages()
    made = PagedMap(pages, page_bytes=1024)
    made.put_many((key, b"value") for key in keys("ascending"))
    made.save()
    pages.calls.clear()

    for n in range(7):
        made.put(b"key %08d" % (n * 700), b"VALUE")
    made.save()

    assert len(pages.pages) > 100
    assert pages.calls["write"] == 7 + 1


def test_a_save_without_changes_writes_nothing():
    pages = MemoryPages()
    made = PagedMap(pages)
    made.put(b"key", b"value")
    made.save()
    pages.calls.clear()

    made.save()
    made.get(b"key")
    made.delete(b"other")
    made.save()

    assert not pages.calls["write"]


def test_opening_reads_one_page_and_a_look_up_one_for_each_level():
    pages = MemoryPages()
    made = PagedMap(pages, page_bytes=512)
    made.put_many((key, b"value") for key in keys("ascending", 20_000))
    made.save()
    pages.calls.clear()

    found = PagedMap(pages, page_bytes=512)
    opened = pages.calls["read"]
    found.get(b"key 00004711")

    assert opened == 1
    assert found.statistics().height >= 3
    assert pages.calls["read"] == 1 + found.statistics().height


def test_many_sorted_look_ups_read_every_leaf_once_with_little_memory():
    pages = MemoryPages()
    made = PagedMap(pages, page_bytes=512)
    made.put_many((key, b"value") for key in keys("ascending"))
    made.save()
    found = PagedMap(pages, page_bytes=512, ram_bytes=20_000)
    pages.calls.clear()

    values = found.get_many(keys("any"))

    assert values == [b"value"] * COUNT
    stats = found.statistics()
    assert pages.calls["read"] < 1.2 * (stats.leaves + stats.branches)


@pytest.mark.parametrize("shape", [(16, 32), (8, 4), (30, 900)])
def test_memory_is_counted_as_it_is(shape: tuple[int, int]):
    key_bytes, value_bytes = shape
    pages = MemoryPages()
    chance = random.Random(4)
    count = 3_000_000 // (key_bytes + value_bytes + 50)
    made = PagedMap(pages)
    made.put_many((chance.randbytes(key_bytes), bytes(value_bytes)) for _ in range(count))
    made.save()

    found = PagedMap(pages)
    tracemalloc.start()
    for _ in found.range():
        pass
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(found) == count
    assert 0.8 < found.statistics().ram_bytes / taken < 1.25


def test_cuts_fill_every_part_but_the_last():
    ends = list(range(10, 1010, 10))

    assert full_parts(ends, 300, 1) == [30, 60, 90]
    assert full_parts_backwards(ends, 300, 1) == [10, 40, 70]
    assert even_parts(ends, 900, 1) == [50]
    assert full_parts([1000, 1010], 100, 1) == [1]
    assert full_parts([5, 400, 800, 1200], 100, 2) == [2]
    assert even_parts([1, 2, 3, 1000], 500, 2) == [2]


def test_a_separator_is_short_and_between():
    for left, right in [(b"", b"a"), (b"abc", b"abd"), (b"ab", b"abcdef"), (b"a", b"zzz")]:
        found = separator(left, right)

        assert left < found <= right
        assert len(found) <= len(left) + 1

    assert separator(b"apple", b"banana") == b"b"
