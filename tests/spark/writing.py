"""What tests of Spark's writes share: a store to write to, writes, and a look at what they left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import strandline
from strandline.spark import plain_errors
from strandline.store import Store
from tests.unit.pipelines.owners import contents, delivered_in, staged_in
from tests.unit.store.world import payloads

WAIT_S_MAX = 120


def empty_store(path: str, topic: str = "t", **options: Any) -> None:
    with strandline.open(path) as store:
        store.create_topic(topic, **options)


def counted(spark: SparkSession, count: int, prefix: str = "row") -> DataFrame:
    """Rows in several partitions, each its own."""
    return spark.range(0, count, 1, 3).selectExpr(f"concat('{prefix} ', id) as data")


def counted_data(count: int, prefix: str = "row") -> list[bytes]:
    return sorted(f"{prefix} {number}".encode() for number in range(count))


def write(
    frame: DataFrame, path: str, topic: str = "t", *, mode: str = "append", **options: str
) -> None:
    with plain_errors():
        frame.write.format("strandline").mode(mode).options(topic=topic, **options).save(path)


def stream(
    source: DataFrame, path: str, checkpoint: Path, topic: str = "t", **options: str
) -> list[int]:
    """Run a stream into a topic until it has all there is; how many rows each batch had."""
    query = begin(source, path, checkpoint, topic, **options)
    try:
        with plain_errors():
            assert query.awaitTermination(WAIT_S_MAX)
        return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]
    finally:
        query.stop()


def begin(
    source: DataFrame, path: str, checkpoint: Path, topic: str = "t", **options: str
) -> StreamingQuery:
    return (
        source.writeStream.format("strandline")
        .options(topic=topic, **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(path)
    )


def topic_stream(spark: SparkSession, path: str, topic: str = "t", **options: str) -> DataFrame:
    """The data of a topic as a stream."""
    read = spark.readStream.format("strandline").options(topic=topic, **options)
    return read.load(path).select("data")


def held(store: Store, topic: str = "t") -> list[bytes]:
    return sorted(payloads(store.topic(topic)))


def nothing_is_left(path: str) -> bool:
    return not staged_in(path) and not delivered_in(path) and not delivered_in(path, "refused")


def nothing_happened(path: str) -> bool:
    return contents(path) == [] and nothing_is_left(path)
