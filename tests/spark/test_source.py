"""Promise: ``format("strandline")`` reads and streams through Spark what the topic holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline.errors import Invalid, NotAStore, RecordsLost, UnknownTopic, UnsupportedFormat
from strandline.spark import explain, plain_errors, register
from tests.spark.stores import cold_store, fill, records

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]
LINES_MAX = 8


def frame(spark: SparkSession, path: str, topic: str = "t", **options: str) -> DataFrame:
    return spark.read.format("strandline").option("topic", topic).options(**options).load(path)


def test_a_batch_read_gives_the_records_and_takes_filters_over(spark: SparkSession, data_dir):
    with cold_store(data_dir):
        expected = records(data_dir)
        read = frame(spark, data_dir).withColumn("ts", f.unix_micros("ts"))
        filtered = frame(spark, data_dir).where("tag = 't005' and seq > 105 and data != X'31'")

        found = [tuple(_plain(value) for value in row) for row in read.collect()]
        seqs = [row.seq for row in filtered.collect()]

        assert sorted(found) == expected
        assert sorted(seqs) == [row[0] for row in expected if row[3] == "t005" and row[0] > 105]
        plan = filtered._jdf.queryExecution().executedPlan().toString()
        assert "tag" not in plan.partition("Filter")[2].partition("\n")[0]


def test_another_session_of_the_same_spark_learns_the_format_too(spark: SparkSession, data_dir):
    with cold_store(data_dir, batches=1):
        active = SparkSession.getActiveSession()

        other = register(spark.newSession())

        assert frame(other, data_dir).count() == frame(spark, data_dir).count() == 50
        assert SparkSession.getActiveSession() is active


def stream(spark: SparkSession, path: str, folder: Path, **options: str) -> list[int]:
    """Run a stream until it has all there is; how many rows each batch had."""
    query = (
        spark.readStream.format("strandline")
        .options(topic="t", **options)
        .load(path)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "sink"))
    )
    try:
        query.awaitTermination(120)
        return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]
    finally:
        query.stop()


def test_a_stream_goes_on_from_its_checkpoint_until_there_is_no_more(
    spark: SparkSession, data_dir, tmp_path
):
    with cold_store(data_dir) as store:
        first = stream(spark, data_dir, tmp_path, maxRecordsPerTrigger="150")
        fill(store, store.topic("t"), 1)
        store.relocate()
        second = stream(spark, data_dir, tmp_path)

        sunk = spark.read.parquet(str(tmp_path / "sink")).withColumn("ts", f.unix_micros("ts"))
        found = [tuple(_plain(value) for value in row) for row in sunk.collect()]

        assert (first, second) == ([150, 60], [40])
        assert sorted(found) == records(data_dir)


def test_a_stream_that_met_a_loss_or_another_store_ends_with_a_short_error(
    spark: SparkSession, data_dir, tmp_path
):
    with cold_store(data_dir) as store:
        stream(spark, data_dir, tmp_path)
        fill(store, store.topic("t"), 2)
        store.topic("t").alter(cap_records=20)
        store.topic("t").enforce_retention()

        with pytest.raises(StreamingQueryException) as lost:
            stream(spark, data_dir, tmp_path)
    with cold_store(str(tmp_path / "other")), pytest.raises(StreamingQueryException) as foreign:
        stream(spark, str(tmp_path / "other"), tmp_path)

    plain = explain(lost.value)
    assert isinstance(plain, RecordsLost)
    assert (plain.gap_from, plain.gap_to, plain.reason) == (211, 270, "cap")
    assert isinstance(explain(foreign.value), Invalid)
    assert "start with a new checkpoint" in str(explain(foreign.value))


def test_mistakes_are_told_in_a_few_lines(spark: SparkSession, data_dir, tmp_path):
    newer = tmp_path / "newer"
    with cold_store(str(newer), batches=1):
        _make_newer(newer / "SYSTEM")
    with cold_store(data_dir, batches=1):
        mistakes = {
            UnknownTopic: lambda: frame(spark, data_dir, "ordres").count(),
            NotAStore: lambda: frame(spark, str(tmp_path / "nowhere")).count(),
            UnsupportedFormat: lambda: frame(spark, str(newer)).count(),
            Invalid: lambda: frame(spark, data_dir, columns="payload").count(),
        }

        told = {}
        for kind, make in mistakes.items():
            with pytest.raises(Exception, match=f"strandline.errors.{kind.__name__}") as raw:
                make()
            told[kind] = raw.value

    for kind, error in told.items():
        assert len(str(error).splitlines()) <= LINES_MAX
        assert type(explain(error)) is kind


def test_an_executors_error_is_what_it_was(spark: SparkSession, data_dir, tmp_path):
    with cold_store(data_dir):
        read = frame(spark, data_dir)
        read._jdf.queryExecution().executedPlan()  # tasks are planned now
        for file in sorted(tmp_path.rglob("*.parquet")):
            file.unlink()

        with pytest.raises(Exception, match="of manifest") as told, plain_errors():
            read.collect()

    assert type(told.value).__name__ == "NotFound"
    assert len(str(told.value).splitlines()) == 1


def _make_newer(path: Path) -> None:
    import msgspec
    from xxhash import xxh3_64_hexdigest

    from strandline.log.files.system_file import System

    old = msgspec.json.decode(path.read_bytes(), type=System)
    bare = msgspec.structs.replace(old, format=99, checksum="")
    checksum = xxh3_64_hexdigest(msgspec.json.encode(bare))
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(bare, checksum=checksum)) + b"\n")


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else value
