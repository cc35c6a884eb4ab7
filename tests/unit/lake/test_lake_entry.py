"""Promise: an entry says enough of a file to skip it, never too much, and stays small."""

from __future__ import annotations

import sys
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.lake.manifest import file_entry
from strandline.lake.manifest.file_entry import BOUND_SIZE_MAX, ColumnStats, LakeFile
from tests.unit.lake.cold_files import plain_rows, write

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_the_name_tells_seqs_and_content():
    made = write(plain_rows([3, 4]), first_seq=1, last_seq=9).entry

    name = f"00000000000000000001-00000000000000000009-{made.content[:16]}.parquet"
    assert made.name() == name


def test_an_entry_survives_json():
    made = write(plain_rows(range(1, 9)), zone_rows=3).entry

    again = msgspec.json.decode(msgspec.json.encode(made), type=LakeFile)

    assert again == made
    assert again.column_stats() == made.column_stats()


def test_columns_are_described_over_all_zones():
    rows = [
        (1, 1, b"b", "x", None, None, b""),
        (2, 2, None, "z", None, None, b""),
        (3, 3, b"\xff", None, None, None, b""),
        (4, 4, b"a", "ü", None, None, b""),
    ]

    stats = write(rows, zone_rows=2).entry.column_stats()

    assert stats == {
        "key": ColumnStats("61", "ff", 1),
        "tag": ColumnStats("x", "ü", 1),
        "node": ColumnStats(None, None, 4),
    }


def test_a_value_too_long_for_statistics_leaves_its_column_open():
    rows = [(1, 1, b"k" * 100_000, "tag", None, None, b"")]

    stats = write(rows).entry.column_stats()

    assert "key" not in stats
    assert stats["tag"] == ColumnStats("tag", "tag", 0)


@given(_TEXTS, _TEXTS)
@example("", "\U0010ffff" * 20)
@example("\ud7ff" * 20, "a" * 29 + "\ud7ff" * 3)
def test_cut_bounds_of_text_still_hold_the_values(one, other):
    smallest, largest = min(one, other), max(one, other)

    stats = file_entry.text_stats(smallest, largest, 0)

    assert stats.min <= smallest
    assert stats.max is None or stats.max >= largest
    assert len(stats.min.encode()) <= BOUND_SIZE_MAX
    assert len((stats.max or "").encode()) <= BOUND_SIZE_MAX + 3
    assert stats.min == smallest or len(smallest.encode()) > BOUND_SIZE_MAX
    assert stats.max == largest or len(largest.encode()) > BOUND_SIZE_MAX
    assert msgspec.json.decode(file_entry.encode_stats({"tag": stats})) == {
        "tag": [*stats_fields(stats)]
    }


@given(st.binary(max_size=60), st.binary(max_size=60))
@example(b"", b"\xff" * 40)
@example(b"", b"a" * 31 + b"\xff\xff")
def test_cut_bounds_of_bytes_still_hold_the_values(one, other):
    smallest, largest = min(one, other), max(one, other)

    stats = file_entry.binary_stats(smallest, largest, 0)

    low, high = bytes.fromhex(stats.min), None if stats.max is None else bytes.fromhex(stats.max)
    assert low <= smallest
    assert high is None or high >= largest
    assert max(len(low), len(high or b"")) <= BOUND_SIZE_MAX
    assert low == smallest or len(smallest) > BOUND_SIZE_MAX
    assert high == largest or len(largest) > BOUND_SIZE_MAX


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="counts bytes of CPython objects")
def test_an_entry_takes_less_than_a_kilobyte_of_memory():
    key = file_entry.binary_stats(b"k" * 4000, b"k" * 4000, 12345)
    text = file_entry.text_stats("t" * 4000, "t" * 4000, 12345)
    stats = file_entry.encode_stats({"key": key, "tag": text, "node": text})
    template = write(plain_rows([1])).entry
    encoded = msgspec.json.encode(
        [
            msgspec.structs.replace(
                template, first_seq=10**12 + n, last_seq=2 * 10**12 + n, stats=stats
            )
            for n in range(1000)
        ]
    )

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        entries = msgspec.json.decode(encoded, type=list[LakeFile])
        each = (tracemalloc.get_traced_memory()[0] - before) / len(entries)
    finally:
        tracemalloc.stop()

    assert each < 1024


def stats_fields(stats: ColumnStats) -> tuple[str | None, str | None, int]:
    return stats.min, stats.max, stats.nulls
