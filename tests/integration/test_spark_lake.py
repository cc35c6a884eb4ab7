"""Promise: a store whose lake is in a real S3 is to Spark and pipelines as one in a folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as pads
import pytest
from pyspark.sql import SparkSession

import strandline.spark
from strandline.errors import Invalid, NotInstalled
from strandline.lake import external_reader
from strandline.pipelines import Embedded, Engine, compact, export, import_files, scrub
from strandline.spark.engine import SparkEngine
from strandline.spark.tables.parquet import spark_url
from tests.integration.conftest import Remote
from tests.integration.spark_lake import Cloud, rows_of
from tests.spark.stores import rows
from tests.spark.writing import counted, counted_data

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


@pytest.fixture(params=["embedded", "spark"])
def engine(request: pytest.FixtureRequest, cloud: Cloud) -> Engine:
    return Embedded(threads=2) if request.param == "embedded" else SparkEngine(cloud.spark)


def test_a_batch_read_gives_the_rows_of_the_topic(cloud: Cloud):
    cloud.fill()

    found = rows_of(cloud.frame())

    assert len(found) == 4 * 40 + 10 - 20
    assert found == cloud.records()


def test_conditions_are_handed_down_to_files_in_s3(cloud: Cloud):
    cloud.fill()
    wanted = "seq >= 50 and seq < 60 and tag = 't002'"

    found = rows_of(cloud.frame().where(wanted))
    plan = strandline.spark.plan(cloud.path, "t", where=[("seq", "<", 60)], lake=cloud.url)

    assert found == [row for row in cloud.records() if 50 <= row[0] < 60 and row[3] == "t002"]
    assert found
    assert (plan.files, plan.files_skipped) == (2, 1)


def test_a_stream_reads_all_and_then_what_is_new(cloud: Cloud, tmp_path: Path):
    cloud.fill()
    sink, checkpoint = str(tmp_path / "sink"), str(tmp_path / "checkpoint")

    def run() -> None:
        writing = cloud.source().writeStream.format("parquet")
        writing = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        assert writing.start(sink).awaitTermination(120)

    run()
    cloud.fill(1)
    run()

    assert rows_of(cloud.spark.read.parquet(sink)) == cloud.records()


def test_a_write_is_staged_in_s3_and_delivered_to_the_folder(cloud: Cloud):
    cloud.fill()
    before = cloud.records()

    cloud.write(counted(cloud.spark, 50))
    cloud.write(counted(cloud.spark, 5, "again"), writeId="once")
    cloud.write(counted(cloud.spark, 5, "again"), writeId="once")

    found = cloud.records()
    assert found[: len(before)] == before
    written = sorted(row[-1] for row in found[len(before) :])
    assert written == sorted(counted_data(50) + counted_data(5, "again"))
    assert (cloud.staged(), cloud.delivered()) == ([], [])
    assert not (Path(cloud.path) / "lake").exists(), "nothing was staged beside the store"


def test_a_stream_writes_into_a_topic_and_goes_on(cloud: Cloud, tmp_path: Path):
    cloud.fill()
    with cloud.open() as store:
        store.topic("copy")

    for _ in range(2):
        cloud.stream(cloud.source().select("data", "tag"), tmp_path / "checkpoint", "copy")

    assert cloud.data("copy") == cloud.data()
    assert (cloud.staged(), cloud.delivered()) == ([], [])


def test_a_compaction_and_a_scrub_by_each_engine_keep_every_row(cloud: Cloud, engine: Engine):
    cloud.fill(6)
    before = cloud.records()

    summary = compact(cloud.url, engine=engine)
    scrubbed = scrub(cloud.url, engine=engine)

    assert (summary.engine, summary.groups, summary.skipped) == (engine.name, 1, [])
    assert len(external_reader.files(cloud.url, "t").files) == 1
    assert (scrubbed.files, scrubbed.findings) == (1, [])
    assert rows_of(cloud.frame()) == before
    assert cloud.records() == before


def test_an_export_and_an_import_by_each_engine_keep_every_row(
    cloud: Cloud, engine: Engine, tmp_path: Path
):
    cloud.fill()
    with cloud.open() as store:
        store.topic("copy")

    out = str(tmp_path / "out")
    export(cloud.path, "t", out, engine=engine, lake=cloud.url)
    found = rows(pads.dataset(out, exclude_invalid_files=True).to_table())
    imported = import_files(cloud.path, "copy", out, engine=engine, lake=cloud.url)

    assert sorted(found) == cloud.records()
    assert imported.rows == len(found)
    assert len(cloud.records("copy")) == len(found)
    assert (cloud.staged(), cloud.delivered()) == ([], [])


def test_a_table_needs_a_jar_for_s3_and_says_so_when_it_is_made(cloud: Cloud):
    cloud.fill()

    with pytest.raises(NotInstalled, match=r"s3a://.*hadoop-aws.*read\.format") as told:
        strandline.spark.table(cloud.spark, cloud.path, "t", lake=cloud.url)

    assert "\n" not in str(told.value)


def test_a_table_of_records_that_are_not_in_the_lake_needs_no_jar(cloud: Cloud):
    cloud.fill()

    table = strandline.spark.table(cloud.spark, cloud.path, "t", from_=130, lake=cloud.url)

    assert rows_of(table) == [row for row in cloud.records() if row[0] >= 130]


def test_a_store_whose_lake_was_not_named_is_refused(cloud: Cloud):
    cloud.fill()
    cloud.url = ""

    for use in (lambda: rows_of(cloud.frame()), lambda: cloud.write(counted(cloud.spark, 5))):
        with pytest.raises(Invalid, match=r'is not the lake of .*option\("lake"'):
            use()

    assert cloud.delivered() == []


def test_urls_that_only_python_reads_are_refused_with_the_remedy(cloud: Cloud):
    assert spark_url(cloud.url).startswith("s3a://")
    with pytest.raises(Invalid, match=r"az://.*read\.format"):
        spark_url("az://container/prefix")
