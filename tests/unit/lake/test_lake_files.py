"""Promise: a lake file gives back every row as it was, zone by zone, with one fetch for each.

What a file costs to write and to read is bounded: zones are cut by rows, bytes and seqs.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.lake.files import file_writer as writing
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.files.file_writer import ZONE_SPAN, LakeFileWriter
from strandline.lake.files.record_columns import SCHEMA
from strandline.schema import Schema
from tests.unit.lake.cold_files import (
    LABEL,
    STORE_ID,
    TOPIC_ID,
    MemorySink,
    plain_rows,
    rows_of,
    table_of,
    write,
)

_NEAR = st.integers(1, 4)
_FAR = _NEAR | st.sampled_from([ZONE_SPAN - 1, ZONE_SPAN, 3 * ZONE_SPAN])
_PAYLOADS = st.binary(max_size=40) | st.just(b"x" * 5000)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


class _AtOnce(Executor):
    """Does the work when it is handed over, so that reading ahead can be counted."""

    def submit(self, work, *arguments):
        done = Future()
        done.set_result(work(*arguments))
        return done


@st.composite
def row_lists(draw, min_size=0, steps=_NEAR):
    """Rows with holes between them, stamps that never decrease, and every kind of field."""
    count = draw(st.integers(min_size, 15))
    seq, ts, rows = 0, draw(st.integers(-(10**15), 10**15)), []
    for _ in range(count):
        seq += draw(steps)
        ts += draw(st.integers(0, 10))
        key, meta = draw(st.none() | _PAYLOADS), draw(st.none() | _PAYLOADS)
        tag, node = draw(st.none() | _TEXTS), draw(st.none() | _TEXTS)
        rows.append((seq, ts, key, tag, node, meta, draw(_PAYLOADS)))
    return rows


@given(row_lists(), st.integers(1, 10), st.sampled_from([1, 200, 20_000]), st.integers(0, 9))
def test_rows_come_back_as_they_were(rows, zone_rows, zone_bytes, margin):
    last_seq = (rows[-1][0] if rows else 1) + margin

    file = write(rows, first_seq=1, last_seq=last_seq, zone_rows=zone_rows, zone_bytes=zone_bytes)
    reader = file.reader()
    zones = [reader.zone(place) for place in range(len(reader.zones))]

    assert [row for zone in zones for row in rows_of(zone.rows)] == rows
    assert file.entry.rows == len(rows)
    assert file.entry.size == len(file.content)
    assert file.entry.payload == sum(zone.payload_size for zone in zones)
    if rows:
        assert (file.entry.ts_min, file.entry.ts_max) == (rows[0][1], rows[-1][1])


@given(row_lists(steps=_FAR), st.integers(0, 3 * ZONE_SPAN))
def test_zones_answer_for_every_seq_and_stay_short(rows, margin):
    last_seq = (rows[-1][0] if rows else 1) + margin

    zones = write(rows, first_seq=1, last_seq=last_seq, zone_rows=5).reader().zones

    assert [zone.first_seq for zone in zones] == [1, *(zone.last_seq + 1 for zone in zones[:-1])]
    assert zones[-1].last_seq == last_seq
    assert all(zone.last_seq - zone.first_seq < ZONE_SPAN for zone in zones)
    stamps = [ts for zone in zones for ts in (zone.ts_min, zone.ts_max)]
    assert stamps == sorted(stamps)


@given(row_lists(min_size=1, steps=_FAR), st.integers(1, 10), st.sampled_from([1, 200, 20_000]))
def test_cuts_do_not_depend_on_how_the_rows_came_in(rows, pieces, zone_bytes):
    whole = write(rows, zone_rows=7, zone_bytes=zone_bytes)
    in_pieces = write(rows, zone_rows=7, zone_bytes=zone_bytes, pieces=pieces)

    assert [(zone.first_seq, zone.rows) for zone in in_pieces.reader().zones] == [
        (zone.first_seq, zone.rows) for zone in whole.reader().zones
    ]


def test_a_zone_ends_with_the_row_that_fills_it():
    by_count = write(plain_rows(range(1, 26)), zone_rows=10)
    by_size = write(plain_rows(range(1, 26), data=b"%0800d"), zone_bytes=2000)
    huge = write([*plain_rows([1]), (2, 2_000_000, None, None, None, None, bytes(1 << 24))])

    assert [zone.rows for zone in by_count.reader().zones] == [10, 10, 5]
    assert [zone.rows for zone in by_size.reader().zones] == [3] * 8 + [1]
    assert [zone.rows for zone in huge.reader().zones] == [2]


def test_reading_takes_one_fetch_for_the_tail_and_one_for_each_zone():
    file = write(plain_rows(range(1, 101)), zone_rows=10)
    reader = file.reader()

    zones = [reader.zone(place) for place in range(10)]

    entry, infos = file.entry, reader.zones
    tail = (entry.tail_offset, entry.size - entry.tail_offset)
    assert file.fetched == [tail, *((info.offset, info.size) for info in infos)]
    assert [zone.first_seq for zone in zones] == list(range(1, 100, 10))


def test_zones_fetched_into_their_place_are_the_same():
    file = write(plain_rows(range(1, 101)), zone_rows=10)

    def fetch_into(start: int, target: memoryview) -> None:
        target[:] = file.fetch(start, len(target))

    reader = LakeFileReader(file.fetch, file.entry, TOPIC_ID, LABEL, fetch_into)

    found = [rows_of(reader.zone(place).rows) for place in range(10)]

    assert found == [rows_of(file.reader().zone(place).rows) for place in range(10)]


def test_damage_of_a_zone_fetched_into_its_place_is_noticed():
    file = write(plain_rows(range(1, 101)), zone_rows=10)

    def fetch_into(start: int, target: memoryview) -> None:
        target[:] = file.fetch(start, len(target))
        target[len(target) // 2] ^= 1

    reader = LakeFileReader(file.fetch, file.entry, TOPIC_ID, LABEL, fetch_into)

    with pytest.raises(Corrupt, match="checksum"):
        reader.zone(3)


def test_a_thousand_records_of_a_cold_file_are_in_two_zones_at_most():
    file = write(plain_rows(range(1, 8001)), zone_rows=2000, pieces=8)
    reader = file.reader()

    for first_seq in range(1, 7001, 333):
        first, last = reader.zone_at(first_seq), reader.zone_at(first_seq + 999)
        assert last - first <= 1


def test_zones_are_found_by_seq_and_by_time():
    reader = write(plain_rows(range(11, 41)), first_seq=5, last_seq=50, zone_rows=10).reader()

    assert [reader.zone_at(seq) for seq in (5, 20, 21, 30, 31, 50)] == [0, 0, 1, 1, 2, 2]
    assert [reader.zone_at_time(ts * 1_000_000) for ts in (0, 20, 21, 40, 41)] == [0, 0, 1, 2, 3]
    for outside in (4, 51):
        with pytest.raises(LookupError):
            reader.zone_at(outside)


def test_a_choice_of_columns_comes_with_seq_and_ts():
    file = write(plain_rows([1, 2, 4]), last_seq=9)

    zone = file.reader().zone(0, columns=["tag"])

    assert zone.rows.schema.names == ["seq", "ts", "tag"]
    assert zone.rows["tag"].to_pylist() == ["tag 1", "tag 2", "tag 1"]
    assert zone.count == 9


def test_a_scan_yields_the_rows_in_order_and_reads_only_a_little_ahead():
    file = write(plain_rows(range(1, 101)), last_seq=5 * ZONE_SPAN, zone_rows=10)

    with ThreadPoolExecutor(2) as threads:
        tables = list(file.reader().tables(threads=threads))
    few = file.with_content(file.content)
    next(few.reader().tables(threads=_AtOnce(), ahead=2))

    assert rows_of(pa.concat_tables(tables)) == plain_rows(range(1, 101))
    assert len(few.fetched) == 1 + 3


def test_a_file_without_rows_answers_for_its_seqs():
    file = write([], first_seq=10, last_seq=19)
    reader = file.reader()

    zone = reader.zone(0)

    assert (file.entry.rows, file.entry.payload, file.entry.ts_min) == (0, 0, 0)
    assert (len(reader.zones), zone.first_seq, zone.last_seq, len(zone.rows)) == (1, 10, 19, 0)
    assert len(zone.holes()) == 10


def test_typed_columns_are_read_only_when_they_are_asked_for():
    schema = Schema(3, {"n": "i64"})
    rows = plain_rows(range(1, 6), b'{"n": %d}')

    file = write(rows, zone_rows=2, schema=schema)
    without_rows = write([], first_seq=1, last_seq=1, schema=schema)
    reader = file.reader()

    assert file.entry.schema_version == 3
    assert reader.zone(0).rows.schema.names == SCHEMA.names
    assert without_rows.reader().zone(0).rows.schema.names == SCHEMA.names
    assert reader.zone(2, columns=["n"]).rows["n"].to_pylist() == [5]
    assert without_rows.reader().rows(0, columns=["n"])["n"].to_pylist() == []


def test_rows_out_of_order_are_refused():
    for rows in (plain_rows([2, 1]), plain_rows([1, 1])):
        with pytest.raises(AssertionError, match="order"):
            write(rows)
    with pytest.raises(AssertionError, match="rows follow"):
        write(plain_rows([5, 6]) + plain_rows([6, 7]), pieces=2)


def test_writing_holds_no_more_than_the_zone_that_fills():
    sink = MemorySink()
    writer = LakeFileWriter(sink, topic_id=TOPIC_ID, store_id=STORE_ID, zone_rows=250)
    filler = (bytes(range(256)) * 16)[:4000]
    before, peak = pa.total_allocated_bytes(), 0

    for seq in range(1, 20_001, 100):
        batch = [(row, row, None, None, None, None, filler) for row in range(seq, seq + 100)]
        writer.add(table_of(batch))
        peak = max(peak, pa.total_allocated_bytes() - before)

    assert writer.finish(1, 20_000).payload == 80_000_000
    assert peak < 4 << 20


def test_a_failing_sink_ends_the_writer_with_its_own_error():
    sink = MemorySink()
    writer = LakeFileWriter(sink, topic_id=TOPIC_ID, store_id=STORE_ID, zone_rows=10)
    writer.add(table_of(plain_rows(range(1, 11))))
    sink.fails_at = 0
    size = len(sink.content)

    with pytest.raises(OSError, match="no space left") as caught:
        writer.add(table_of(plain_rows(range(11, 21))))
    sink.fails_at = 1 << 62
    writer.abandon()
    del writer

    assert caught.value.errno == 28
    assert len(sink.content) == size


def test_an_abandoned_writer_writes_no_more():
    sink = MemorySink()
    writer = LakeFileWriter(sink, topic_id=TOPIC_ID, store_id=STORE_ID, zone_rows=10)
    writer.add(table_of(plain_rows(range(1, 16))))
    size = writer.size

    writer.abandon()
    del writer

    assert len(sink.content) == size


def test_a_newer_format_asks_for_an_upgrade(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(writing, "FORMAT_VERSION", 2)
        file = write(plain_rows([1]))

    with pytest.raises(UnsupportedFormat, match=LABEL):
        _ = file.reader().zones
