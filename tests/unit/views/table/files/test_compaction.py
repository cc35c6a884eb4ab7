"""Promise: merging changes where rows are, not which; hidden ones are gone for good."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from strandline.errors import ObjectStoreUnreachable
from strandline.lake import object_keys
from strandline.schema import Schema
from strandline.views.table.files import file_set as segments_module
from tests.unit.views.table.files.small_table import SCHEMA, TABLE_ID, Row, Table, rows_of, table_of

WIDER = Schema(2, {**SCHEMA.fields, "amount": "f64", "city": "string | null"})


def merge_all(table: Table, schema: Schema = SCHEMA, **options: bool) -> int:
    steps = 0
    while table.segments.compact_once(schema, **options):
        steps += 1
        assert steps < 1000, "merging comes to an end"
    return steps


def filled(files: int, rows: int = 8, **options: object) -> Table:
    table = Table(**options)
    for number in range(files):
        table.add(number * rows + 1, (number + 1) * rows)
    return table


def in_files(table: Table) -> list[Row]:
    """Rows that are in live files, hidden or not."""
    found = []
    for file in table.segments.files:
        data = table.objects.get(object_keys.data_key(TABLE_ID, file.name()))
        found += pq.read_table(pa.BufferReader(data)).to_pylist()
    return found


def test_neighbours_become_one_file_with_the_same_rows():
    table = filled(4)

    merge_all(table)

    assert [(file.first_seq, file.last_seq) for file in table.segments.files] == [(1, 32)]
    assert table.rows() == rows_of(range(1, 33))


def test_merged_rows_are_sorted_by_context_time_and_seq():
    table = filled(4)

    merge_all(table)

    keys_of = [(row["context"], row["ts"], row["seq"]) for row in in_files(table)]
    assert keys_of == sorted(keys_of)
    assert len(keys_of) == 32


def test_fewer_than_enough_files_wait():
    table = filled(3)

    assert not table.segments.compact_once(SCHEMA)
    assert len(table.segments.files) == 3


def test_levels_grow():
    table = filled(16)

    merge_all(table)

    assert [file.rows for file in table.segments.files] == [128]
    assert table.rows() == rows_of(range(1, 129))


def test_a_merge_goes_on_where_the_last_step_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments_module, "STEP_ROWS", 1)
    monkeypatch.setattr("strandline.views.table.files.compaction.BUFFER_ROWS", 1)
    table = filled(4)

    steps = merge_all(table)

    assert steps > 4
    assert table.rows() == rows_of(range(1, 33))


def test_rows_that_come_during_a_merge_are_there_afterwards(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments_module, "STEP_ROWS", 1)
    table = filled(4)
    table.segments.compact_once(SCHEMA)

    table.add(33, 36)
    merge_all(table)

    assert [file.last_seq for file in table.segments.files] == [32, 36]
    assert table.rows() == rows_of(range(1, 37))


def test_hidden_rows_leave_the_files_and_are_hidden_no_longer():
    table = filled(4)
    table.segments.hide(BitMap64([3, 17, 40]))

    merge_all(table)

    assert [row["seq"] for row in sorted(in_files(table), key=lambda row: row["seq"])] == [
        seq for seq in range(1, 33) if seq not in (3, 17)
    ]
    assert list(table.segments.hidden) == [40]


def test_rows_hidden_during_a_merge_stay_hidden(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments_module, "STEP_ROWS", 1)
    table = filled(4)
    table.segments.hide(BitMap64([3]))
    table.segments.compact_once(SCHEMA)

    table.segments.hide(BitMap64([4, 30]))
    merge_all(table)

    assert list(table.segments.hidden) == [4, 30]
    assert not {3, 4, 30} & set(table.seqs())


def test_rows_below_the_floor_leave_the_files():
    table = filled(4)
    table.segments.set_floor(11)

    merge_all(table, purge=True)
    table.add(33, 40)
    merge_all(table)

    assert table.rows() == rows_of(range(11, 41))
    assert min(row["seq"] for row in in_files(table)) == 11


def test_a_file_with_many_hidden_rows_is_written_anew():
    table = filled(1)
    table.segments.hide(BitMap64([1, 2, 3]))

    merge_all(table)

    assert [file.rows for file in table.segments.files] == [5]
    assert not table.segments.hidden


def test_a_file_with_few_hidden_rows_is_written_anew_only_to_purge():
    table = filled(1)
    table.segments.hide(BitMap64([1]))

    assert merge_all(table) == 0
    assert merge_all(table, purge=True) == 1

    assert [file.rows for file in table.segments.files] == [7]


def test_a_table_of_hidden_rows_alone_ends_up_without_rows():
    table = filled(4)
    table.segments.hide(BitMap64(range(1, 33)))

    merge_all(table)

    assert table.rows() == []
    assert in_files(table) == []
    assert table.segments.flushed == 32


def test_old_versions_become_the_newest():
    table = filled(2)
    newer = [
        {**row, "amount": row["amount"] + 0.5, "city": "Kiel"} for row in rows_of(range(17, 25))
    ]
    table.segments.add(table_of(newer, WIDER), 17, 24, WIDER)
    table.add(25, 32)  # came before the definition, written after it
    before = table.rows(schema=WIDER, columns=["seq", "amount", "city"])

    merge_all(table, WIDER)

    assert len(table.segments.files) == 1
    assert table.segments.files[0].schema_version == 2
    after = table.rows(schema=WIDER, columns=["seq", "amount", "city"])
    assert after == before
    assert after[0] == {"seq": 1, "amount": 10.0, "city": None}
    assert after[16] == {"seq": 17, "amount": 170.5, "city": "Kiel"}


def test_a_merge_that_was_overtaken_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments_module, "STEP_ROWS", 1)
    table = filled(4)
    table.segments.compact_once(SCHEMA)
    other = table.reopened()
    monkeypatch.setattr(segments_module, "STEP_ROWS", 1000)
    merge_all(other)

    merge_all(table)

    assert table.segments.files == other.segments.files
    assert table.rows() == rows_of(range(1, 33))
    data = [key for key in table.objects.snapshot() if "/data/" in key or "/zones/" in key]
    assert len(data) == 2 * (4 + 1), "what was given up is not left behind"


def test_a_merge_that_fails_is_begun_anew():
    table = filled(4)
    table.objects.fail("put_file", how="before")
    with pytest.raises(ObjectStoreUnreachable):
        merge_all(table)

    merge_all(table)

    assert len(table.segments.files) == 1
    assert table.rows() == rows_of(range(1, 33))
    assert table.disk.list_dir("/spool") == []
