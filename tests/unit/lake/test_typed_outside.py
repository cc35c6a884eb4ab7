"""Promise: others see the typed columns of the newest schema, whatever version a file is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import strandline
from strandline.lake.files.record_columns import SCHEMA
from strandline.store import Store
from tests.unit.lake.small_lake import BATCH, open_small

FIRST = {"price": "i64", "cur": ["EUR", "USD"], "code": "string"}
SECOND = {"price": "f64", "cur": ["EUR", "USD", "GBP"], "code": "u64", "at": "datetime"}


def sale(seq: int) -> bytes:
    if seq % 10 == 0:
        return b"no JSON"
    fields = {"price": seq if seq % 2 else -seq, "cur": "EUR" if seq <= 200 else "GBP"}
    return json.dumps(fields | {"code": f"c{seq}" if seq <= 200 else seq, "at": seq}).encode()


def fill(store: Store, batches: int, **options: Any) -> None:
    topic = store.topic("sales", **options)
    for _ in range(batches):
        first = topic.head_seq + 1
        topic.append([sale(seq) for seq in range(first, first + BATCH)])
        store.checkpoint()
    store.relocate()


@pytest.fixture
def lake(data_dir: str) -> str:
    """Seqs 1 to 200 by the first schema, 201 to 400 by the second, a file for each hundred."""
    with open_small(data_dir) as store:
        fill(store, 3, schema=FIRST)
        store.topic("sales").alter(schema=SECOND)
        fill(store, 2)
    return f"{data_dir}/lake"


def price_of(seq: int) -> float | None:
    return None if seq % 10 == 0 else float(seq if seq % 2 else -seq)


def test_a_dataset_has_the_columns_of_the_newest_schema(lake: str):
    rows = strandline.lake.dataset(lake, "sales").to_table().sort_by("seq")

    assert rows.schema.names == [*SCHEMA.names, "price", "cur", "code", "at"]
    assert rows["price"].to_pylist() == [price_of(seq) for seq in range(1, 401)]
    assert rows["cur"].to_pylist()[:2] == ["EUR", "EUR"]
    assert rows["cur"].to_pylist()[-2:] == ["GBP", None]
    assert rows["code"].to_pylist()[198:202] == [None, None, 201, 202]
    assert rows["at"].cast(pa.int64()).to_pylist()[198:201] == [None, None, 201_000_000]


def test_an_older_version_has_the_columns_of_its_time(data_dir: str, lake: str):
    newest = strandline.lake.files(lake, "sales").version
    old = next(
        version
        for version in range(newest, 0, -1)
        if strandline.lake.files(lake, "sales", version=version).schema_version == 1
    )

    rows = strandline.lake.dataset(lake, "sales", version=old).to_table()

    assert rows["price"].type == pa.int64()
    assert rows["code"].to_pylist()[:2] == ["c1", "c2"]
    assert len(rows) == 200


def test_files_tell_their_schema(lake: str):
    facts = strandline.lake.files(lake, "sales")

    assert facts.schema == SECOND | {"cur": '["EUR","USD","GBP"]'}
    assert facts.schema_version == 2
    assert [file.schema_version for file in facts.files] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("condition", "kept", "rows"),
    [
        (pc.field("price") > 300, [3], 50),
        (pc.field("price") <= -398, [3], 1),
        (pc.field("price") == 7, [0, 1, 2, 3], 1),
        (pc.field("cur") == "GBP", [2, 3], 180),
        (pc.field("code") >= 395, [3], 5),
        (pc.field("at").is_valid(), [2, 3], 180),
        ((pc.field("price") > 5000) | (pc.field("seq") < 3), [0], 2),
        (pc.field("code").is_null() & (pc.field("seq") > 200), [2, 3], 20),
    ],
)
def test_files_that_a_filter_on_typed_columns_rules_out_are_not_opened(lake, condition, kept, rows):
    for place, file in enumerate(strandline.lake.files(lake, "sales").files):
        if place not in kept:
            Path(file.url).unlink()

    found = strandline.lake.dataset(lake, "sales").to_table(filter=condition)

    assert len(found) == rows


def test_rows_that_are_gone_stay_hidden_beside_typed_columns(data_dir: str, lake: str):
    with open_small(data_dir) as store:
        store.topic("sales").delete(before=200)
        store.relocate()

    rows = strandline.lake.dataset(lake, "sales")

    assert rows.count_rows(filter=pc.field("price") > 0) == 100
    assert min(rows.to_table(columns=["seq"])["seq"].to_pylist()) == 200


def test_a_field_that_is_gone_from_the_schema_is_not_shown(data_dir: str, lake: str):
    with open_small(data_dir) as store:
        store.topic("sales").alter(schema={"price": "f64"})
        store.relocate()
        names = strandline.lake.dataset(lake, "sales").schema.names
        store.topic("sales").alter(schema={})
        store.relocate()

    assert names == [*SCHEMA.names, "price"]
    assert strandline.lake.dataset(lake, "sales").to_table().schema.names == SCHEMA.names


def test_parquet_has_a_dictionary_and_statistics_for_typed_columns(lake: str):
    metadata = pq.read_metadata(strandline.lake.files(lake, "sales").files[-1].url)

    for place, name in enumerate(["price", "cur", "code", "at"], len(SCHEMA)):
        column = metadata.row_group(0).column(place)
        assert metadata.schema.column(place).name == name
        assert column.statistics.has_min_max
        assert column.has_dictionary_page
        assert column.has_column_index


def test_duckdb_reads_the_dataset_and_the_files_themselves(lake: str):
    rows = strandline.lake.dataset(lake, "sales")
    paths = [file.url for file in strandline.lake.files(lake, "sales").files]

    by_dataset = duckdb.sql("SELECT count(*), sum(price) FROM rows WHERE price > 300").fetchall()
    by_files = duckdb.sql(
        'SELECT count(*), sum(price), max("at") FROM '
        f"read_parquet({paths!r}, union_by_name=true) WHERE price > 300 AND cur = 'GBP'"
    ).fetchall()

    assert rows.schema.names[0] == "seq"
    expected = [price for seq in range(1, 401) if (price := price_of(seq) or 0) > 300]
    assert by_dataset == [(len(expected), sum(expected))]
    assert by_files[0][:2] == (len(expected), sum(expected))
    assert by_files[0][2].timestamp() == 399


def test_polars_reads_the_dataset_and_the_files_themselves(lake: str):
    paths = [file.url for file in strandline.lake.files(lake, "sales").files]

    by_files = pl.scan_parquet(paths[2:]).filter(pl.col("price") > 300)
    by_dataset = pl.scan_pyarrow_dataset(strandline.lake.dataset(lake, "sales"))

    assert by_files.select(pl.len()).collect().item() == 50
    assert by_files.select("at").collect().schema["at"] == pl.Datetime("us", "UTC")
    assert by_dataset.filter(pl.col("price") > 0).select(pl.len()).collect().item() == 200
