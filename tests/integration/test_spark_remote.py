"""Promise: a lake in a real S3 is read by Spark without the folder of its store."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from strandline.errors import Invalid, RecordsLost, UnknownTopic
from strandline.lake import external_reader
from strandline.pipelines.splits.predicates import EPOCH
from strandline.spark import table
from tests.integration.conftest import Remote
from tests.integration.spark_lake import Cloud, rows_of
from tests.spark.stores import fill, settings
from tests.spark.viewing import batch, begin, drain, step, table_store

pytestmark = [
    pytest.mark.spark,
    pytest.mark.parametrize("remote", ["moto"], indirect=True),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def cloud(
    spark: SparkSession, remote: Remote, data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    return Cloud(spark, remote, data_dir, monkeypatch)


def moved(cloud: Cloud, topic: str = "t") -> list[int]:
    """The seqs of what is in the lake, which is told of deletes before."""
    with cloud.open(dead_share=1.0) as store:  # deleted rows stay in their file, hidden
        store.relocate()
        cold = store.topic(topic).statistics().cold
    return [row[0] for row in cloud.records(topic) if row[0] <= cold.last_seq]


def test_batch_and_stream_have_what_has_moved_and_no_folder(cloud: Cloud):
    cloud.fill()
    wanted = moved(cloud)
    Path(cloud.path).rename(f"{cloud.path}-away")

    found = batch(cloud.url, "t")
    batches = drain(cloud.url, "t", ReadMaxRows(50))

    assert [row["seq"] for row in found] == wanted
    assert [row["seq"] for rows in batches for row in rows] == wanted
    assert len(wanted) == 100
    assert len(external_reader.files(cloud.url, "t").deleted) == 20, "hidden in a file"
    assert len(batches) > 1
    some = batch(cloud.url, "t", **{"from": "50", "to": "70", "columns": "seq"})
    assert [row["seq"] for row in some] == list(range(50, 70))


def test_a_stream_of_a_lake_goes_on_when_more_has_moved(cloud: Cloud):
    cloud.fill()
    late = cloud.records()[60]
    stream, start = begin(cloud.url, "t", **{"from": _iso(late[1])})
    first, end = step(stream, start)
    with cloud.open() as store:
        fill(store, store.topic("t"), 2)
        store.relocate()

    second, _ = step(stream, end)
    stream.stop()

    wanted = [seq for seq in moved(cloud) if seq >= late[0]]
    assert [row["seq"] for row in first + second] == wanted
    assert second


def test_a_checkpoint_of_the_lake_goes_on_in_the_folder(cloud: Cloud):
    cloud.fill()
    moved(cloud)
    stream, start = begin(cloud.url, "t")
    first, end = step(stream, start)
    stream.stop()
    there, _ = begin(cloud.path, "t", lake=cloud.url)

    second, _ = step(there, end)
    there.stop()

    assert [row["seq"] for row in first + second] == [row[0] for row in cloud.records()]


def test_what_left_the_lake_before_a_stream_came_is_told(cloud: Cloud):
    cloud.fill()
    stream, start = begin(cloud.url, "t")
    with cloud.open() as store:
        store.topic("t").delete(before=60)
        store.relocate()
    later, _ = begin(cloud.url, "t")

    with pytest.raises(RecordsLost, match="onLoss=report"):
        step(later, start)
    stream.stop()
    later.stop()


def test_executors_of_spark_read_a_lake_alone(cloud: Cloud):
    cloud.fill()
    wanted = moved(cloud)
    shutil.rmtree(cloud.path)

    frame = table(cloud.spark, cloud.url, "t", columns=["seq"])

    assert [row[0] for row in rows_of(frame, ["seq"])] == wanted


def test_a_table_of_a_lake_alone_has_the_rows_of_its_files(cloud: Cloud):
    with table_store(cloud.path, settings(url=cloud.url)) as store:
        wanted = [row[0] for row in store.sql("select seq from tables.pay order by seq").tuples()]
    flushed = external_reader.files(cloud.url, "pay:table").files[-1].last_seq
    shutil.rmtree(cloud.path)

    found = batch(cloud.url, "pay", view="table", columns="seq,n,note")

    assert sorted(row["seq"] for row in found) == [seq for seq in wanted if seq <= flushed]
    assert len(found) > 250
    assert {type(row["n"]) for row in found} == {float}


def test_what_a_lake_alone_does_not_have_is_told(cloud: Cloud):
    cloud.fill()

    with pytest.raises(UnknownTopic, match="nobody"):
        batch(cloud.url, "nobody")
    with pytest.raises(Invalid, match="name the location of saved views"):
        batch(cloud.url, "t", view="kv")
    with pytest.raises(UnknownTopic, match="no event table 't'"):
        batch(cloud.url, "t", view="table")
    with pytest.raises(Invalid, match="leave lake out"):
        batch(cloud.url, "t", lake=cloud.url)


def _iso(ts: int) -> str:
    return (EPOCH + timedelta(microseconds=ts)).isoformat()
