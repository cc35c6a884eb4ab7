"""Promise: a stream writes every row to its topic exactly once, also when batches are repeated."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import strandline
from strandline.errors import Invalid, Locked, UnknownTopic
from strandline.store import Store
from tests.spark.stores import fill, open_store
from tests.spark.writing import (
    begin,
    empty_store,
    held,
    nothing_happened,
    nothing_is_left,
    stream,
    topic_stream,
)
from tests.unit.pipelines.owners import contents

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]
PER_BATCH = {"maxRecordsPerTrigger": "40"}


@pytest.fixture
def source(tmp_path: Path) -> Store:
    """A store with 120 records in topic ``t``, to be streamed from."""
    with open_store(str(tmp_path / "source")) as store:
        fill(store, store.topic("t"), 3)
        yield store


def numbers(first: int, last: int) -> list[bytes]:
    return sorted(b"%d" % seq for seq in range(first, last + 1))


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, source, data_dir, tmp_path):
    with strandline.open(data_dir) as sink:
        sink.create_topic("t")
        read = topic_stream(spark, source.path, **PER_BATCH)

        first = stream(read, data_dir, tmp_path / "checkpoint")
        fill(source, source.topic("t"), 1)
        second = stream(read, data_dir, tmp_path / "checkpoint")

        assert (first, second) == ([40, 40, 40], [40])
        assert held(sink) == numbers(1, 160)
    assert nothing_is_left(data_dir)


def _forget_last_commit(checkpoint: Path) -> None:
    """The driver died after its sink had the batch and before Spark had noted that."""
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_repeated_in_other_tasks_is_recognised(
    spark: SparkSession, source, data_dir, tmp_path
):
    """Between the two attempts records move into the lake, and the second has more tasks."""
    empty_store(data_dir)
    checkpoint = tmp_path / "checkpoint"
    read = topic_stream(spark, source.path)
    stream(read.coalesce(1), data_dir, checkpoint)
    _forget_last_commit(checkpoint)
    fill(source, source.topic("t"), 1)
    source.relocate()

    stream(read.repartition(4), data_dir, checkpoint)

    assert sorted(contents(data_dir)) == numbers(1, 160)
    assert nothing_is_left(data_dir)


def test_without_its_checkpoint_it_is_another_query_and_writes_again(
    spark: SparkSession, source, data_dir, tmp_path
):
    empty_store(data_dir)
    checkpoint = tmp_path / "checkpoint"
    read = topic_stream(spark, source.path)
    stream(read, data_dir, checkpoint)
    shutil.rmtree(checkpoint)

    stream(read, data_dir, checkpoint)

    assert sorted(contents(data_dir)) == sorted(2 * numbers(1, 120))


def test_batches_without_rows_leave_no_trace(spark: SparkSession, source, data_dir, tmp_path):
    empty_store(data_dir)
    read = topic_stream(spark, source.path, **PER_BATCH).where(
        "cast(cast(data as string) as int) > 80"
    )

    stream(read, data_dir, tmp_path / "checkpoint")

    assert sorted(contents(data_dir)) == numbers(81, 120)
    assert nothing_is_left(data_dir)


def test_a_stream_writes_while_the_store_is_opened_and_closed(
    spark: SparkSession, source, data_dir, tmp_path
):
    empty_store(data_dir)
    over = threading.Event()
    openings = []

    def open_and_close() -> None:
        while not over.is_set():
            with contextlib.suppress(Locked), strandline.open(data_dir) as store:
                openings.append(store.topic("t").head_seq)
                over.wait(0.3)
            over.wait(0.1)

    other = threading.Thread(target=open_and_close)
    other.start()
    try:
        batches = stream(
            topic_stream(spark, source.path, **PER_BATCH), data_dir, tmp_path / "checkpoint"
        )
    finally:
        over.set()
        other.join()

    assert batches == [40, 40, 40]
    assert len(openings) > 1
    assert sorted(contents(data_dir)) == numbers(1, 120)


def test_a_stream_into_the_store_that_it_reads_from(spark: SparkSession, source, tmp_path):
    source.create_topic("copy")
    taking = threading.Event()

    def take() -> None:
        while not taking.wait(0.05):
            source.ingest_pending()

    other = threading.Thread(target=take)
    other.start()
    try:
        read = topic_stream(spark, source.path)
        stream(read, source.path, tmp_path / "checkpoint", topic="copy")
    finally:
        taking.set()
        other.join()

    assert held(source, "copy") == numbers(1, 120)


def test_what_does_not_fit_ends_the_stream_before_anything_is_written(
    spark: SparkSession, source, data_dir, tmp_path
):
    empty_store(data_dir)
    whole = spark.readStream.format("strandline").option("topic", "t").load(source.path)

    with pytest.raises(Exception, match="'seq' is assigned by the store"):
        begin(whole, data_dir, tmp_path / "c1").awaitTermination(60)
    with pytest.raises(UnknownTopic):
        stream(whole.select("data"), data_dir, tmp_path / "c2", topic="ordres")
    with pytest.raises(Invalid, match="checkpoint"):
        stream(whole.select("data"), data_dir, tmp_path / "c3", writeId="x")

    assert nothing_happened(data_dir)
