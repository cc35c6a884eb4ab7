"""Promise: others read a table's files directly: DuckDB, Polars, and whoever asks the lake for the
table by its name."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from strandline.lake import external_reader, object_keys
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.local import FolderObjects
from strandline.schema import Schema
from strandline.views.table.files import checksums, layout
from tests.unit.views.table.files.small_table import (
    NAME,
    SCHEMA,
    TABLE_ID,
    Table,
    make_lake,
    rows_of,
)

WIDER = Schema(2, {**SCHEMA.fields, "city": "string | null"})


@pytest.fixture
def table(tmp_path):
    found = Table(FolderObjects(str(tmp_path), OsDisk()))
    make_lake(found.objects, found.clock)
    found.add(1, 40)
    found.path = str(tmp_path / object_keys.data_key(TABLE_ID, found.segments.files[0].name()))
    found.url = str(tmp_path)
    return found


def test_duckdb_reads_a_file(table):
    found = duckdb.sql(
        f"select seq, context, plan, amount, note, ts from '{table.path}' order by seq"
    ).fetchall()

    assert [row[:5] for row in found] == [tuple(row.values()) for row in rows_of(range(1, 41))]
    assert found[0][5].astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)


def test_duckdb_skips_zones_by_what_the_file_tells(table):
    plan = duckdb.sql(
        f"select * from parquet_metadata('{table.path}') where path_in_schema = 'context'"
    ).fetchall()

    assert len(plan) == 10
    assert duckdb.sql(
        f"select count(*) from '{table.path}' where context = 'user-3'"
    ).fetchall() == [(8,)]


def test_polars_reads_a_file(table):
    found = pl.read_parquet(table.path).sort("seq")

    assert found.select("seq", "context", "plan", "amount", "note").to_dicts() == rows_of(
        range(1, 41)
    )


def test_a_file_tells_what_it_is(table):
    metadata = pq.read_metadata(table.path)

    told = {key.decode(): value.decode() for key, value in metadata.metadata.items()}
    assert told[layout.FORMAT_KEY] == "1"
    assert told[layout.TABLE_KEY] == f"{TABLE_ID:016x}"
    assert told[layout.SCHEMA_KEY] == "1"
    assert told[layout.ZONES_KEY] == "10"
    assert len(checksums.decode(told[checksums.KEY].encode(), 10, 6)) == 10
    group = metadata.row_group(0)
    assert group.num_rows == 4
    assert [order.column_index for order in group.sorting_columns] == [2, 1, 0]
    assert all(group.column(place).statistics.has_min_max for place in (0, 1, 2, 3, 4))
    assert group.column(2).compression == "ZSTD"


def test_the_lake_gives_the_rows_by_the_name_of_the_table(table):
    table.segments.hide(BitMap64([4]))

    found = external_reader.dataset(table.url, NAME).to_table().sort_by("seq")

    expected = rows_of(seq for seq in range(1, 41) if seq != 4)
    assert found.select(["seq", "context", *SCHEMA.fields]).to_pylist() == expected


def test_the_lake_gives_rows_of_all_versions_in_the_newest(table):
    table.segments.set_schema(WIDER)
    table.add(41, 45, WIDER)

    found = external_reader.dataset(table.url, NAME)

    assert found.schema.names == ["seq", "ts", "context", *WIDER.fields]
    assert found.count_rows() == 45
    assert found.to_table(filter=pa.compute.field("context") == "user-3").num_rows == 9


def test_the_lake_lists_the_files_of_a_table(table):
    facts = external_reader.files(table.url, NAME)

    assert facts.rows == 40
    assert [file.url for file in facts.files] == [table.path]
    assert facts.schema == SCHEMA.fields
