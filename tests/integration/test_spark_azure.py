"""Promise: what Spark reads out of S3 without the folder of a store, it reads out of Azure, too."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from strandline.spark import table
from tests.integration.conftest import Remote
from tests.integration.spark_lake import Cloud, rows_of
from tests.integration.test_spark_remote import moved
from tests.integration.test_spark_saved_views import open_both, place_of, pushed
from tests.spark.viewing import batch, drain

pytestmark = [
    pytest.mark.spark,
    pytest.mark.parametrize("remote", ["azurite"], indirect=True),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def cloud(
    spark: SparkSession, remote: Remote, data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    return Cloud(spark, remote, data_dir, monkeypatch)


def test_a_lake_in_azure_is_read_by_executors_in_batch_and_as_a_stream(cloud: Cloud):
    cloud.fill()
    wanted = moved(cloud)
    shutil.rmtree(cloud.path)

    frame = table(cloud.spark, cloud.url, "t", columns=["seq"])

    assert cloud.url.startswith("az://")
    assert [row[0] for row in rows_of(frame, ["seq"])] == wanted
    batches = drain(cloud.url, "t", ReadMaxRows(50))
    assert [row["seq"] for rows in batches for row in rows] == wanted
    assert len(wanted) == 100


def test_a_view_in_azure_is_read_without_the_folder(cloud: Cloud):
    with open_both(cloud) as store:
        store.kv("profiles").put_many({"ada": b"pro", "bob": b"free"})
        pushed(store, "others")
    shutil.rmtree(cloud.path)

    found = batch(cloud.url, "profiles", view="kv", reservoir=place_of(cloud))

    assert {row["key"]: row["text"] for row in found} == {"ada": "pro", "bob": "free"}
