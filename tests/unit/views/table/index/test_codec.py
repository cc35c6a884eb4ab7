"""Promise: a side file tells what it holds, and damage anywhere is noticed before it is used."""

from __future__ import annotations

import struct

import pytest
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.schema import Schema
from strandline.views.table.condition import Compare, In
from strandline.views.table.index import codec
from strandline.views.table.index.codec import IndexSection
from strandline.views.table.index.index_builder import build
from strandline.views.table.index.index_reader import Indexes
from tests.unit.views.table.index.world import (
    EAGER,
    START_US,
    kept,
    opened,
    sorted_rows,
    table_of,
)

FIELDS = {"name": "string", "size": "u64"}
SCHEMA = Schema(1, FIELDS)
ROWS = sorted_rows([{"name": f"n{place % 7}", "size": place} for place in range(50)])
QUESTIONS = [
    Compare("name", "=", "n3"),
    In("size", (3, 4)),
    Compare("size", ">", 40),
    Compare("context", "=", "c"),
    Compare("ts", "<", START_US + 1),
    Compare("seq", "<", 5),
]


def _side() -> bytes:
    return build(table_of(ROWS, SCHEMA), SCHEMA, 10, EAGER)


def _ask_all(data: bytes) -> None:
    indexes = opened(data)
    for question in QUESTIONS:
        indexes.prune(question)
    for field in ("seq", "ts", "size"):
        indexes.top_k(field)


def test_the_catalogue_says_which_field_has_which_indexes():
    found = opened(_side()).catalogue()

    assert found["size"] == ["fence", "imprint", "ladder", "file-membership", "membership"]
    assert found["name"] == ["fence", "bitmap"]
    assert found["context"] == ["fence", "context", "file-membership"]
    assert found["ts"] == ["fence", "imprint", "calendar", "ladder"]
    assert found["seq"] == ["fence", "imprint", "ladder"]


def test_any_flipped_bit_is_noticed():
    good = _side()
    used = _used_bytes(good)

    for place in used:
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8

        with pytest.raises(Corrupt, match="in a side file at byte"):
            _ask_all(bytes(bad))


def _used_bytes(data: bytes) -> list[int]:
    """Every 13th place that a checksum covers: all but the padding between sections."""
    header = codec.decode_header(data, size=len(data), name="a side file")
    end = codec.HEADER_SIZE + header.catalogue_size
    entries = codec.decode_catalogue(data[codec.HEADER_SIZE : end], header, "").entries
    sections = [(entry.offset, entry.offset + entry.size) for entry in entries]
    return [place for begin, stop in [(0, end), *sections] for place in range(begin, stop, 13)]


@pytest.mark.parametrize("size", [0, 10, 55, 56, 300, 2000])
def test_a_cut_file_is_noticed(size):
    with pytest.raises(Corrupt):
        opened(_side()[:size])


def test_damage_names_the_index_and_its_place():
    data = bytearray(_side())
    header = codec.decode_header(bytes(data), size=len(data), name="")
    catalogue = codec.decode_catalogue(
        bytes(data[codec.HEADER_SIZE : codec.HEADER_SIZE + header.catalogue_size]), header, ""
    )
    entry = next(each for each in catalogue.entries if each.kind == "bitmap")
    data[entry.offset + 9] ^= 1

    with pytest.raises(Corrupt, match="the bitmap index of field 'name'") as told:
        kept(opened(bytes(data)), Compare("name", "=", "n1"))

    assert (told.value.path, told.value.offset) == ("a side file", entry.offset)


def test_damage_of_one_index_leaves_the_others_usable():
    data = bytearray(_side())
    data[-20] ^= 1  # in the filters, which come last

    found = kept(opened(bytes(data)), Compare("size", ">=", 40))

    assert found == [4]


def test_a_newer_format_is_refused():
    data = bytearray(_side())
    struct.pack_into("<I", data, 8, codec.FORMAT_VERSION + 1)
    struct.pack_into("<Q", data, 48, xxh3_64_intdigest(bytes(data[:48])))

    with pytest.raises(UnsupportedFormat, match="upgrade"):
        opened(bytes(data))


def test_kinds_of_a_newer_version_are_left_alone():
    sections = [IndexSection("size", "telepathy", b"what nobody knows yet")]
    data = codec.encode(sections, types={"size": "u64"}, rows=20, zone_rows=10)

    indexes = opened(data)

    assert indexes.catalogue() == {"size": ["telepathy"]}
    assert kept(indexes, Compare("size", "=", 3)) == [0, 1]


def test_what_is_small_comes_with_the_first_read():
    data, reads = _side(), []

    def fetch(offset: int, size: int) -> bytes:
        reads.append(offset)
        return data[offset : offset + size]

    indexes = Indexes(fetch, len(data))
    for question in QUESTIONS:
        indexes.prune(question)

    assert reads == [0]


def test_a_section_behind_the_first_read_is_fetched_once():
    rows = sorted_rows([{"name": f"{place:040}", "size": place} for place in range(9000)])
    data, reads = build(table_of(rows, SCHEMA), SCHEMA, 100), []

    def fetch(offset: int, size: int) -> bytes:
        reads.append(offset)
        return data[offset : offset + size]

    indexes = Indexes(fetch, len(data))
    before = indexes.ram
    for _ in range(3):
        found = kept(indexes, Compare("name", "=", rows[777]["name"]))

    assert found == [7]
    assert len(reads) == len(set(reads)) > 1
    assert indexes.ram > before


def test_a_table_without_rows_has_no_zones():
    indexes = opened(build(table_of([], SCHEMA), SCHEMA, 10))

    assert (indexes.zones, indexes.rows) == (0, 0)
    assert kept(indexes, Compare("size", "=", 1)) == []
