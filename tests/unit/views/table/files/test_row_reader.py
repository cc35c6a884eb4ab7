"""Promise: a reading gives every row that fulfils its condition, once; zones that cannot are not
read; hidden rows and seqs that are not wanted are left out; the cache changes nothing."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from strandline.schema import Schema
from strandline.views.table.condition import Compare, In
from strandline.views.table.files import layout
from strandline.views.table.files import row_reader as reading_module
from strandline.views.table.snapshot import Top
from tests.unit.views.table.files.small_table import (
    SCHEMA,
    TABLE_ID,
    Table,
    row_of,
    rows_of,
    table_of,
    told,
)

WIDER = Schema(2, {**SCHEMA.fields, "amount": "f64", "city": "string | null"})
FREE = Compare("context", "=", "user-3")


def data_reads(table: Table) -> int:
    return table.objects.calls["get_ranges"]


def test_columns_come_in_the_order_in_which_they_were_asked_for():
    table = Table()
    table.add(1, 9)

    reading = table.read(["amount", "context"])

    assert [each.column_names for each in reading.tables()] == [["amount", "context"]]


def test_zones_without_matching_rows_are_not_read():
    table = Table()
    table.add(1, 40)

    reading = table.read(where=FREE)

    found = [row["seq"] for row in told(reading) if row["context"] == "user-3"]
    assert found == [seq for seq in range(1, 41) if row_of(seq)["context"] == "user-3"]
    assert reading.facts.zones == 10
    assert reading.facts.zones_kept < 5
    assert reading.facts.indexes
    assert reading.facts.rows == reading.rows_max < 20


def test_no_columns_are_still_so_many_rows():
    table = Table()
    table.add(1, 9)

    assert [each.num_rows for each in table.read([]).tables()] == [9]


@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [(0, 100, range(1, 31)), (7, 100, range(8, 31)), (0, 13, range(1, 14)), (9, 21, range(10, 22))],
)
def test_only_wanted_seqs_come(after: int, until: int, expected: range):
    table = Table()
    table.add(1, 10)
    table.add(11, 30)

    assert table.seqs(after=after, until=until) == list(expected)


def test_files_beyond_the_wanted_seqs_are_not_opened():
    table = Table()
    table.add(1, 10)
    table.add(11, 20)
    again = table.reopened()
    before = data_reads(again)

    reading = again.read(["amount"], after=20)

    assert reading.tables() == []
    assert data_reads(again) == before


def test_hidden_rows_are_left_out_also_when_their_seq_was_not_asked_for():
    table = Table()
    table.add(1, 20)
    table.segments.hide(BitMap64([5]))

    reading = table.read(["amount"], hidden=[7, 19])

    amounts = sorted(reading.tables()[0]["amount"].to_pylist())
    assert amounts == [row_of(seq)["amount"] for seq in range(1, 21) if seq not in (5, 7, 19)]


def test_rows_below_the_floor_are_left_out():
    table = Table()
    table.add(1, 20)

    table.segments.set_floor(8)

    assert table.seqs() == list(range(8, 21))


def test_the_first_rows_by_a_column_are_among_those_that_are_read():
    table = Table()
    table.add(1, 40)
    table.add(41, 80)

    reading = table.read(["amount"], top=Top(field="amount", descending=True, rows=3))

    amounts = [value for each in reading.tables() for value in each["amount"].to_pylist()]
    assert sorted(amounts)[-3:] == [780, 790, 800]
    assert reading.facts.zones_kept < reading.facts.zones


def test_hidden_rows_do_not_take_the_place_of_the_first():
    table = Table()
    table.add(1, 80)

    reading = table.read(
        ["amount"], hidden=range(60, 81), top=Top(field="amount", descending=True, rows=2)
    )

    amounts = [value for each in reading.tables() for value in each["amount"].to_pylist()]
    assert sorted(amounts)[-2:] == [580, 590]


@pytest.mark.parametrize("until", range(10, 80, 7))
def test_rows_beyond_the_position_do_not_take_the_place_of_the_first(until: int):
    table = Table()
    rows = [{**row, "amount": row["seq"] * 37 % 101} for row in rows_of(range(1, 81))]
    table.segments.add(table_of(rows), 1, 80, SCHEMA)

    reading = table.read(["amount"], until=until, top=Top(field="amount", descending=True, rows=2))

    amounts = [value for each in reading.tables() for value in each["amount"].to_pylist()]
    assert sorted(amounts)[-2:] == sorted(row["amount"] for row in rows[:until])[-2:]


def test_older_files_are_told_in_the_newest_schema():
    table = Table()
    table.add(1, 5)
    table.segments.set_schema(WIDER)

    rows = table.rows(schema=WIDER, columns=["city", "amount", "seq"])

    assert rows[0] == {"city": None, "amount": 10.0, "seq": 1}
    assert len(rows) == 5


def test_a_condition_on_a_field_with_another_type_finds_older_rows():
    table = Table()
    table.add(1, 40)
    table.segments.set_schema(WIDER)

    reading = table.read(["seq", "amount"], Compare("amount", "=", 70.0), schema=WIDER)

    assert 7 in [row["seq"] for row in told(reading)]


def test_a_column_that_only_newer_files_have_is_null_in_older_rows():
    table = Table()
    table.add(1, 5)
    table.segments.set_schema(WIDER)

    found = table.read(["city"], schema=WIDER).tables()

    assert [each["city"].to_pylist() for each in found] == [[None] * 5]


def test_batches_have_the_same_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading_module, "_STEP_ZONES", 2)
    table = Table()
    table.add(1, 40)

    batches = list(table.read(hidden=[6]).batches())

    found = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda r: r["seq"])
    assert found == rows_of([seq for seq in range(1, 41) if seq != 6])
    assert len(batches) > 4


def test_text_comes_in_one_shape_from_all_files():
    table = Table()
    table.segments.add(_notes(["same"] * 8, 1), 1, 8, SCHEMA)
    table.segments.add(_notes([f"text {n}" for n in range(8)], 9), 9, 16, SCHEMA)

    alone = table.read(["note"], until=8)
    together = table.read(["note"])

    assert pa.types.is_dictionary(alone.tables()[0].schema.field("note").type)
    assert {each.schema.field("note").type for each in together.tables()} == {pa.string()}
    assert together.coded == frozenset()


def _notes(notes: list[str], first_seq: int) -> pa.Table:
    rows = rows_of(range(first_seq, first_seq + len(notes)))
    return table_of([{**row, "note": note} for row, note in zip(rows, notes, strict=True)])


def test_what_was_read_once_is_not_fetched_again():
    table = Table()
    table.add(1, 40)
    table.rows()
    before = data_reads(table)

    reading = table.read(where=FREE)
    rows = told(reading)

    assert rows
    assert data_reads(table) == before
    assert reading.facts.bytes_read == 0


def test_parts_of_a_column_are_put_together_from_several_readings():
    table = Table()
    rows = [{**row, "context": f"user-{row['seq'] * 7 % 40:02}"} for row in rows_of(range(1, 401))]
    table.segments.add(table_of(rows), 1, 400, SCHEMA)
    for context in ("user-21", "user-03", "user-30"):
        told(table.read(where=Compare("context", "=", context)))
    asked = ("user-03", "user-21", "user-30", "user-31")

    found = told(table.read(where=In("context", asked)))

    assert [row for row in found if row["context"] in asked] == [
        row for row in rows if row["context"] in asked
    ]
    assert len(found) < 100


def test_a_table_without_room_for_a_cache_is_read_all_the_same():
    table = Table(cache_bytes=1)
    table.add(1, 40)

    assert table.rows() == rows_of(range(1, 41))
    assert told(table.read(where=FREE))


def test_missing_indexes_cost_time_and_no_rows(caplog: pytest.LogCaptureFixture):
    table = Table()
    table.add(1, 40)
    side = layout.index_key(TABLE_ID, table.segments.files[0].name())
    table.objects.delete([side])

    with caplog.at_level(logging.WARNING):
        reading = table.reopened().read(where=FREE)

    assert reading.facts.zones_kept == 10
    assert told(reading) == rows_of(range(1, 41))
    assert side in caplog.text


def test_damaged_indexes_cost_time_and_no_rows(caplog: pytest.LogCaptureFixture):
    table = Table()
    table.add(1, 40)
    side = layout.index_key(TABLE_ID, table.segments.files[0].name())
    whole = table.objects.get(side)
    expected = [row for row in rows_of(range(1, 41)) if row["context"] == "user-3"]

    for place in range(0, len(whole), 37):
        table.objects.put(side, whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        reading = table.reopened().read(where=FREE, hidden=[], top=None)
        found = [row for row in told(reading) if row["context"] == "user-3"]
        assert found == expected, place
