"""Promise: a table read by Spark's own reader has exactly the records of the topic."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.pipelines.splits.record_schema import RECORD
from strandline.spark import explain, position, table
from strandline.spark.tables import parquet, topic_table
from tests.spark.stores import cold_store, fill, open_store, random_store, records

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def collected(frame: DataFrame) -> list[tuple]:
    """Rows in order, times in microseconds."""
    micros = frame.withColumn("ts", f.unix_micros("ts")) if "ts" in frame.columns else frame
    return sorted(
        tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
        for row in micros.collect()
    )


@pytest.mark.parametrize("seed", [1, 4])
def test_a_random_life_reads_row_by_row_as_the_topic_does(spark: SparkSession, data_dir, seed):
    with random_store(data_dir, seed) as store:
        store.relocate()
        expected = records(data_dir)

        frame = table(spark, store, "t")

        assert frame.columns == list(RECORD)
        assert collected(frame) == expected


def test_hidden_rows_of_files_stay_hidden_by_comparison_and_by_join(
    spark: SparkSession, data_dir, monkeypatch
):
    with cold_store(data_dir) as store:
        topic = store.topic("t")
        topic.delete(before=31)
        topic.delete(match="t002")
        topic.delete(match="t004")
        expected = records(data_dir)

        by_comparison = table(spark, data_dir, "t")
        monkeypatch.setattr(parquet, "RANGES_MAX", 1)
        monkeypatch.setattr(topic_table, "PATHS_MAX", 1)
        by_join = table(spark, data_dir, "t")

        assert collected(by_comparison) == expected
        assert collected(by_join) == expected


def test_a_table_is_pinned_while_the_store_goes_on(spark: SparkSession, data_dir, monkeypatch):
    with cold_store(data_dir) as store:
        before = records(data_dir)
        carried = table(spark, data_dir, "t")
        monkeypatch.setattr(topic_table, "_HOT_BYTES_MAX", -1)
        by_executors = table(spark, data_dir, "t")
        fill(store, store.topic("t"), 2)
        store.relocate()

        assert collected(carried) == before
        assert collected(by_executors) == before


def test_conditions_ranges_and_columns_choose_rows(spark: SparkSession, data_dir):
    with cold_store(data_dir) as store:
        expected = [(row[0], row[3]) for row in records(data_dir)]
        token = position(data_dir, "t")
        store.topic("t").append(b"later", tag="t999")

        frame = table(
            spark,
            data_dir,
            "t",
            columns=["seq", "tag"],
            from_=30,
            to=205,
            as_of=token,
            where=[("tag", ">=", "t002"), ("seq", "<", 203)],
        )

        assert collected(frame) == [
            (seq, tag) for seq, tag in expected if 30 <= seq < 203 and tag >= "t002"
        ]


def test_all_conditions_of_a_table_are_one_step_for_spark(spark: SparkSession, data_dir):
    with cold_store(data_dir) as store:
        store.topic("t").delete(match="t003")
        where = [("tag", ">=", "t002"), ("tag", "<", "t009"), ("key", ">", b"k")]

        frame = table(spark, data_dir, "t", from_=30, to=150, where=where)

        steps = frame._jdf.queryExecution().logical().toString().splitlines()
        assert len(steps) == 2, "a filter and the files"
        assert collected(frame) == [
            row for row in records(data_dir) if 30 <= row[0] < 150 and "t002" <= row[3] < "t009"
        ]


def test_a_table_without_lake_or_records_has_its_columns(spark: SparkSession, data_dir):
    with open_store(data_dir) as store:
        store.topic("t")

        frame = table(spark, data_dir, "t")

        assert frame.columns == list(RECORD)
        assert frame.collect() == []


def test_what_a_table_cannot_do_is_told_before_spark_is_asked(spark: SparkSession, data_dir):
    with cold_store(data_dir, batches=1):
        with pytest.raises(UnknownTopic, match="it has t"):
            table(spark, data_dir, "ordres")
        with pytest.raises(Invalid, match="one topic"):
            table(spark, data_dir, "t,u")
        with pytest.raises(Invalid, match="where supports"):
            table(spark, data_dir, "t", where=[("data", "=", b"x")])


def test_a_file_that_left_under_a_table_is_told_by_its_records(
    spark: SparkSession, data_dir, tmp_path
):
    with cold_store(data_dir):
        frame = table(spark, data_dir, "t")
        for file in sorted(tmp_path.rglob("*.parquet"))[1:2]:
            file.unlink()

        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound") as told:
            frame.collect()

    plain = explain(told.value)
    assert isinstance(plain, NotFound)
    assert re.search(
        r"records 41 to 80 is gone \(\S+\), which manifest \d+ of topic 't' lists", str(plain)
    )


@pytest.mark.parametrize(
    ("lake", "url"),
    [
        ("/data/lake", "file:///data/lake"),
        ("file:///data/lake/", "file:///data/lake"),
        ("s3://bucket/prefix", "s3a://bucket/prefix"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
    ],
)
def test_spark_is_told_the_lake_by_its_own_name(lake, url):
    assert topic_table.spark_url(lake) == url


def test_a_lake_that_spark_cannot_read_is_told():
    with pytest.raises(Invalid, match=r"use spark\.read\.format"):
        topic_table.spark_url("az://container/prefix")
