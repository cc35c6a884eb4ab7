"""Promise: an S3 that fails under Spark is told in one line, and leaves nothing half done."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from strandline.errors import (
    BucketNotFound,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    StrandlineError,
)
from strandline.pipelines import compact
from strandline.spark import plain_errors
from strandline.spark.engine import SparkEngine
from tests.integration.conftest import Remote
from tests.integration.proxy import Proxy
from tests.integration.services import Moto, free_port
from tests.integration.spark_lake import Cloud, environment, rows_of
from tests.spark.writing import counted, counted_data

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),  # each waits until a store is given up
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
WAIT_S_MAX = 200
MOTO = pytest.mark.parametrize("remote", ["moto"], indirect=True)


@pytest.fixture
def cloud(
    spark: SparkSession, remote: Remote, data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    made = Cloud(spark, remote, data_dir, monkeypatch)
    made.fill()
    return made


@pytest.fixture
def proxy(cloud: Cloud) -> Iterator[Proxy]:
    """The way to S3 leads through it."""
    made = Proxy(cloud.service.port)
    cloud.reach(environment(cloud.service, port=made.port))
    yield made
    made.close()


def cut_while(folder: Path, frame: DataFrame, proxy: Proxy, act: Callable[[DataFrame], None]):
    """Act on rows in the middle of which the connection to S3 is cut, and stays so."""
    begun, cut = str(folder / "begun"), str(folder / "cut")

    def halting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        Path(begun).touch()
        wait_for(cut)
        yield from batches

    def cutting() -> None:
        wait_for(begun)
        proxy.close()
        Path(cut).touch()

    cutter = threading.Thread(target=cutting)
    cutter.start()
    try:
        act(frame.mapInArrow(halting, frame.schema))
    finally:
        cutter.join(WAIT_S_MAX)


def wait_for(path: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_short(error: StrandlineError) -> bool:
    return "\n" not in str(error) and len(str(error)) < 500


@MOTO
def test_a_read_without_a_way_to_s3_is_told(cloud: Cloud):
    cloud.reach(environment(cloud.service, port=free_port()))

    with pytest.raises(ObjectStoreUnreachable) as told:
        rows_of(cloud.frame())

    assert is_short(told.value)


@MOTO
def test_a_write_that_s3_leaves_in_the_middle_is_not_there_and_its_retry_is(
    cloud: Cloud, proxy: Proxy, tmp_path: Path
):
    before = cloud.records()

    with pytest.raises(ObjectStoreUnreachable) as told:
        cut_while(tmp_path, counted(cloud.spark, 50), proxy, cloud.write)
    cloud.reach(environment(cloud.service))
    assert cloud.records() == before
    assert (cloud.staged(), cloud.delivered()) == ([], [])
    cloud.write(counted(cloud.spark, 50))

    assert is_short(told.value)
    found = cloud.records()
    assert found[: len(before)] == before
    assert sorted(row[-1] for row in found[len(before) :]) == counted_data(50)


@MOTO
def test_a_stream_that_s3_leaves_in_a_batch_goes_on_when_it_is_back(
    cloud: Cloud, proxy: Proxy, tmp_path: Path
):
    with cloud.open() as store:
        store.topic("copy")
    checkpoint = tmp_path / "checkpoint"

    def stream(frame: DataFrame) -> None:
        cloud.stream(frame.select("data"), checkpoint, "copy")

    with pytest.raises(ObjectStoreUnreachable) as told:
        cut_while(tmp_path, cloud.source(), proxy, stream)
    cloud.reach(environment(cloud.service))
    assert cloud.data("copy") == []
    stream(cloud.source())

    assert is_short(told.value)
    assert cloud.data("copy") == cloud.data()
    assert (cloud.staged(), cloud.delivered()) == ([], [])


@MOTO
def test_a_compaction_without_a_way_to_s3_changes_nothing_and_its_retry_does(
    cloud: Cloud, proxy: Proxy
):
    before = cloud.records()
    proxy.lose_replies("PUT", 1_000_000)

    with pytest.raises(ObjectStoreUnreachable) as told:
        compact(cloud.url, engine=SparkEngine(cloud.spark))
    proxy.lose_replies("PUT", 0)
    assert cloud.records() == before
    summary = compact(cloud.url, engine=SparkEngine(cloud.spark))

    assert is_short(told.value)
    assert summary.skipped == []
    assert cloud.records() == before


@MOTO
def test_a_bucket_that_is_not_there_is_told(cloud: Cloud):
    cloud.url = "s3://no-such-bucket-here/prefix"

    for act in uses(cloud):
        with pytest.raises(BucketNotFound, match="no-such-bucket-here") as told, plain_errors():
            act()
        assert is_short(told.value)


@pytest.fixture
def guarded(
    spark: SparkSession, tmp_path: Path, data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    """An S3 that has begun to check who asks."""
    service = Moto(tmp_path)
    service.start()
    try:
        made = Cloud(spark, Remote(service), data_dir, monkeypatch)
        made.fill()
        check_credentials(service)
        yield made
    finally:
        service.stop()


def check_credentials(service: Moto) -> None:
    """From now on moto believes nobody: it knows no users."""
    asking = urllib.request.Request(
        f"{service.options['endpoint']}/moto-api/reset-auth",
        data=b"0",
        headers={"Content-Type": "text/plain"},
    )
    urllib.request.urlopen(asking).close()


def test_wrong_credentials_are_told(guarded: Cloud):
    for act in uses(guarded):
        with pytest.raises(ObjectStoreDenied, match="credentials") as told, plain_errors():
            act()
        assert is_short(told.value)
        assert guarded.service.secret not in str(told.value)


def uses(cloud: Cloud) -> list[Callable[[], object]]:
    return [
        lambda: rows_of(cloud.frame()),
        lambda: cloud.write(counted(cloud.spark, 5)),
        lambda: compact(cloud.url, engine=SparkEngine(cloud.spark)),
    ]
