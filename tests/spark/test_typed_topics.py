"""Promise: Spark reads the records of a topic with a schema, whatever versions its files are of."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import strandline
from strandline.pipelines.splits.record_schema import RECORD
from strandline.spark import table
from tests.spark.stores import BATCH, open_store, read, reader, records
from tests.spark.test_tables import collected

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def typed_store(path: str) -> strandline.Store:
    """Files of two versions, in which a field has two types, and records that have not moved."""
    store = open_store(path)
    topic = store.topic("t", schema={"n": "i64", "word": "string"})
    for batch in range(5):
        first = topic.head_seq + 1
        topic.append([b'{"n": %d, "word": "w"}' % seq for seq in range(first, first + BATCH)])
        store.checkpoint()
        if batch == 2:
            store.relocate()
            topic.alter(schema={"n": "string", "half": "f64"})
    store.relocate()
    topic.append(b"hot")
    return store


def test_a_table_and_a_batch_have_the_records_alone(spark: SparkSession, data_dir: str):
    with typed_store(data_dir) as store:
        expected = records(data_dir)

        frame = table(spark, store, "t")

        assert frame.columns == list(RECORD)
        assert collected(frame) == expected
        assert read(reader(data_dir)) == expected


def test_spark_reads_typed_columns_from_the_files_themselves(spark: SparkSession, data_dir: str):
    with typed_store(data_dir):
        facts = strandline.lake.files(f"{data_dir}/lake", "t")
    first = [file.url for file in facts.files if file.schema_version == 1]

    frame = spark.read.parquet(*first).where(f.col("n") > 75)

    assert sorted(row.n for row in frame.collect()) == [76, 77, 78, 79, 80]
