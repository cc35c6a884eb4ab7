"""Promise: Spark reads the files of an event table directly, as DuckDB and Polars do."""

from __future__ import annotations

import pytest

import strandline

FIELDS = {
    "amount": "f64",
    "cur": ["EUR", "USD"],
    "note": "string | null",
    "at": "datetime",
    "day": "date",
    "paid": "bool",
    "n": "i64",
}

pytestmark = pytest.mark.spark


def _event(n: int) -> dict[str, object]:
    return {
        "amount": n / 4,
        "cur": "EUR" if n % 3 else "USD",
        "note": None if n % 2 else f"note {n}",
        "at": 1_767_225_600 + n,
        "day": "2026-01-02",
        "paid": n % 5 == 0,
        "n": n,
    }


def test_spark_adds_up_what_the_table_adds_up(spark, tmp_path):
    with strandline.open(str(tmp_path / "data")) as store:
        table = store.table("pay", flush_rows=64, zone_rows=256)
        table.define(FIELDS)
        for n in range(1000):
            table.store(f"user-{n % 7}", _event(n))
        table.flush()
        table.compact()
        wanted = store.run("QUERY pay COUNT, TOTAL n, MAX at BY cur").tuples()
    lake = str(tmp_path / "data" / "lake")
    files = [each.url for each in strandline.lake.files(lake, "pay:table").files]

    rows = spark.read.parquet(*files)
    found = (
        rows.groupBy("cur")
        .agg({"*": "count", "n": "sum", "at": "max"})
        .select("cur", "count(1)", "sum(n)", "max(at)")
        .orderBy("cur")
        .collect()
    )

    assert rows.where("cur = 'USD' and note is null").count() == 167
    assert [(row[0], row[1], row[2], row[3].timestamp()) for row in found] == [
        (cur, count, int(total), last.timestamp()) for cur, count, total, last in wanted
    ]
