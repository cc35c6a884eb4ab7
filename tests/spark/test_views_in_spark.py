"""Promise: what is said of views holds in a running Spark, and tables are read natively."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from strandline.errors import Invalid
from strandline.spark import plain_errors, position, table
from strandline.spark.tables import event_table_frame, parquet
from tests.spark.viewing import open_views, table_store
from tests.spark.writing import WAIT_S_MAX

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["seq"])


def test_a_table_is_its_files_by_sparks_own_reader_and_the_rest(
    spark: SparkSession, data_dir: str, monkeypatch: pytest.MonkeyPatch
):
    with table_store(data_dir) as store:
        then = position(data_dir, "pay")
        wanted = store.sql("select * from tables.pay order by seq").arrow().to_pylist()
        frame = table(spark, store, "pay", view="table")

        assert in_order(frame.toArrow()) == wanted
        assert len(frame.inputFiles()) > 1, "files are read natively"
        monkeypatch.setattr(parquet, "RANGES_MAX", 1)
        monkeypatch.setattr(event_table_frame, "PATHS_MAX", 1)
        store.table("pay").store("late", {"n": 1, "cur": "EUR", "day": "2026-01-04"})
        store.table("pay").flush()
        store.views.registry.save()
        before = table(spark, store, "pay", view="table", as_of=then, columns=["seq", "n", "note"])
        assert in_order(before.toArrow()) == [
            {name: row[name] for name in ("seq", "n", "note")} for row in wanted
        ]
        dear = frame.where("n > 100 and cur = 'CHF'").agg(f.count("*"), f.sum("id")).first()
        assert dear[0] == store.run("QUERY pay COUNT WHERE n > 100 AND cur = CHF").tuples()[0][0]


def test_a_view_is_read_and_written_by_batches_and_streams(
    spark: SparkSession, data_dir: str, tmp_path: Path
):
    with open_views(data_dir) as store:
        store.topic("misfits")
        events = store.table("pay")
        events.define({"n": "i64"})
        for n in range(50):
            events.store(f"user-{n % 10}", {"n": n})
        reading = spark.readStream.format("strandline").option("topic", "pay")
        rows = reading.option("view", "table").load(data_dir)
        newest = rows.selectExpr("context as key", "cast(n as string) as value").where("n >= 40")
        with plain_errors():
            writing = newest.writeStream.format("strandline").option("view", "kv")
            writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
            writing = writing.option("topic", "profiles").trigger(availableNow=True)
            assert writing.start(data_dir).awaitTermination(WAIT_S_MAX)

        profiles = table(spark, store, "profiles", view="kv").where("key like 'user-%'")

        assert {row.key: row.text for row in profiles.collect()} == {
            f"user-{n}": str(40 + n) for n in range(10)
        }
        odd = profiles.selectExpr("key as context", "if(text = '41', 'x', '{\"n\": 1}') as event")
        odd = odd.repartition(2)
        saving = odd.write.format("strandline").mode("append").option("topic", "pay")
        with pytest.raises(Invalid, match="Nothing was written"), plain_errors():
            saving.option("view", "table").save(data_dir)
        assert events.statistics().rows == 50
        with plain_errors():
            saving.option("view", "table").option("onInvalid", "misfits").save(data_dir)
        assert events.statistics().rows == 59
        (misfit,) = store.topic("misfits").read().records
        assert b'"context":"user-1"' in misfit.data
