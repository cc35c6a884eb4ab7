"""Promise: a batch write of Spark is in the topic whole and once, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import strandline
from strandline.errors import Invalid, NotAStore, TooLarge, Unavailable, UnknownTopic
from tests.spark.stores import records
from tests.spark.writing import (
    counted,
    counted_data,
    empty_store,
    held,
    nothing_happened,
    nothing_is_left,
    write,
)
from tests.unit.pipelines.owners import contents, delivered_in, owner

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]
ROOT = Path(__file__).parents[2]
COLUMNS = "key binary, tag string, node string, meta binary, data binary"


def test_a_write_without_an_owner_is_in_the_topic(spark: SparkSession, data_dir):
    empty_store(data_dir)

    write(counted(spark, 100), data_dir)

    assert sorted(contents(data_dir)) == counted_data(100)
    assert nothing_is_left(data_dir)


def test_a_write_beside_an_owner_is_in_the_topic(spark: SparkSession, data_dir):
    empty_store(data_dir)

    with owner(data_dir):
        write(counted(spark, 100), data_dir)
        write(counted(spark, 10, "more"), data_dir)

        assert sorted(contents(data_dir)) == counted_data(10, "more") + counted_data(100)
    assert nothing_is_left(data_dir)


def test_all_columns_arrive_as_they_were(spark: SparkSession, data_dir):
    empty_store(data_dir)
    given = [
        (b"k", "eu", "n1", b"m", b"\x00\xff"),
        (None, None, None, None, b""),
        (b"", "", "ü", b"", b"x"),
    ]
    frame = spark.createDataFrame([tuple(map(_array, row)) for row in given], COLUMNS).coalesce(1)

    write(frame, data_dir)

    assert [row[2:] for row in records(data_dir)] == given


def test_text_is_stored_as_its_bytes_and_bytes_as_text(spark: SparkSession, data_dir):
    empty_store(data_dir)
    frame = spark.createDataFrame(
        [("k", bytearray(b"eu"), "dätä")], "key string, tag binary, data string"
    )

    write(frame, data_dir)

    assert records(data_dir)[0][2:] == (b"k", "eu", None, None, "dätä".encode())


def test_a_write_that_is_repeated_with_its_id_is_written_once(spark: SparkSession, data_dir):
    empty_store(data_dir)

    write(counted(spark, 20), data_dir, writeId="2026-11-16")
    write(counted(spark, 20).repartition(5), data_dir, writeId="2026-11-16")
    write(counted(spark, 5, "next"), data_dir, writeId="2026-11-17")

    assert sorted(contents(data_dir)) == counted_data(5, "next") + counted_data(20)
    assert nothing_is_left(data_dir)


def test_writes_without_an_id_are_two_writes(spark: SparkSession, data_dir):
    empty_store(data_dir)

    for _ in range(2):
        write(counted(spark, 3), data_dir)

    assert sorted(contents(data_dir)) == sorted(2 * counted_data(3))


def test_no_rows_are_no_write(spark: SparkSession, data_dir):
    empty_store(data_dir)

    write(counted(spark, 10).where("data = 'none'"), data_dir)

    assert nothing_happened(data_dir)


def test_mistakes_are_told_by_their_kind_and_nothing_is_written(spark: SparkSession, data_dir):
    empty_store(data_dir)
    mistakes = [
        (Invalid, "'colour'", lambda: write(_select(spark, "'x' data", "1 colour"), data_dir)),
        (Invalid, "'data' is bigint", lambda: write(_select(spark, "id as data"), data_dir)),
        (UnknownTopic, "ordres", lambda: write(counted(spark, 5), data_dir, "ordres")),
        (Invalid, "not overwritten", lambda: write(counted(spark, 5), data_dir, mode="overwrite")),
        (NotAStore, "nowhere", lambda: write(counted(spark, 5), f"{data_dir}/nowhere")),
    ]

    for error, told, mistake in mistakes:
        with pytest.raises(error, match=told):
            mistake()

    assert nothing_happened(data_dir)


@pytest.mark.parametrize(
    ("column", "error", "told"),
    [
        ("if(id = 3, null, 'x') as data", Invalid, "'data' is null"),
        ("repeat('x', 2000000) as data", TooLarge, "record_bytes_max"),
    ],
)
def test_a_row_that_does_not_fit_fails_all_of_the_write(
    spark: SparkSession, data_dir, column, error, told
):
    empty_store(data_dir)

    with pytest.raises(error, match=told):
        write(_select(spark, column), data_dir)

    assert contents(data_dir) == []
    assert delivered_in(data_dir) == []


def test_a_topic_is_made_when_that_is_asked_for(spark: SparkSession, data_dir):
    empty_store(data_dir)

    write(counted(spark, 5), data_dir, "new", createTopic="true")

    assert sorted(contents(data_dir, "new")) == counted_data(5)


def test_a_task_that_fails_fails_all_of_the_write(spark: SparkSession, data_dir):
    empty_store(data_dir)
    failing = counted(spark, 3000).withColumn(
        "data", f.expr("if(data = 'row 2500', raise_error('the task died'), data)")
    )

    with pytest.raises(Exception, match="the task died"):
        write(failing, data_dir)

    assert contents(data_dir) == []
    assert delivered_in(data_dir) == []


def test_out_of_patience_the_rows_are_safe_and_appended_later(spark: SparkSession, data_dir):
    empty_store(data_dir)

    with owner(data_dir, jobs=False), pytest.raises(Unavailable, match="delivered and safe"):
        write(counted(spark, 30), data_dir, patience="0.5")
    with strandline.open(data_dir) as store:
        store.ingest_pending()

        assert held(store) == counted_data(30)
    assert nothing_is_left(data_dir)


_RETRIED = """
import sys
from pathlib import Path
from pyspark import TaskContext
from strandline.spark import session

folder, path = Path(sys.argv[1]), sys.argv[2]

def fail_once(batches):
    # After all rows have gone to the writer: its file is complete, and its task fails.
    yield from batches
    task = TaskContext.get()
    if task.attemptNumber() == 0 and task.partitionId() != 1:
        raise RuntimeError("the task died")

spark = session("local[2,4]", **{"spark.driver.memory": "1g", "spark.local.dir": str(folder)})
rows = spark.range(0, 60, 1, 3).selectExpr("concat('row ', id) as data")
rows = rows.mapInArrow(fail_once, "data string")
rows.write.format("strandline").mode("append").option("topic", "t").save(path)
spark.stop()
"""


@pytest.mark.timeout(300)
def test_tasks_that_are_tried_again_write_their_rows_once(spark: SparkSession, data_dir, tmp_path):
    del spark  # only to skip where there is no Java
    empty_store(data_dir)

    done = _driver(_RETRIED, str(tmp_path), data_dir)

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("the task died") > 0
    assert sorted(contents(data_dir)) == counted_data(60)
    assert nothing_is_left(data_dir)


def _driver(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    package = str(Path(strandline.__path__[0]).parent)
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=False,
        env=os.environ | {"PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=180,
    )


def _select(spark: SparkSession, *columns: str) -> DataFrame:
    return spark.range(0, 6, 1, 3).selectExpr(*columns)


def _array(value: object) -> object:
    return bytearray(value) if isinstance(value, bytes) else value
