"""A store whose lake is in a real S3 or Azure, and a Spark whose workers know how to reach it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from strandline.pipelines.splits.record_schema import RECORD
from strandline.platform.objectstore.cloud import open_objects
from strandline.spark import plain_errors, register
from strandline.store import Store
from tests.integration.conftest import Remote
from tests.integration.services import Service
from tests.spark.stores import Row, fill, open_store, records, rows
from tests.spark.writing import begin
from tests.unit.ingest.deliveries import names_in
from tests.unit.pipelines.owners import delivered_in

WAIT_S_MAX = 240


def environment(service: Service, *, port: int | None = None, **other: str) -> dict[str, str]:
    """What docs/guide/object-stores.md says must be set."""
    options = service.options_at(port or service.port)
    if service.scheme == "az":
        return {
            "AZURE_STORAGE_ENDPOINT": options["endpoint"],
            "AZURE_STORAGE_ACCOUNT_NAME": options["account_name"],
            "AZURE_STORAGE_ACCOUNT_KEY": options["account_key"],
            **other,
        }
    return {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": options["region"],
        **other,
    }


class Cloud:
    """A store in a folder, its lake in a bucket, and Spark. Owned by one test."""

    def __init__(
        self, spark: SparkSession, remote: Remote, path: str, patch: pytest.MonkeyPatch
    ) -> None:
        self.service = remote.service
        self.path = path
        self.url = f"{self.service.scheme}://{remote.bucket}/some/prefix"
        self._spark = spark
        self._patch = patch
        self.spark = self.reach(environment(remote.service))

    def reach(self, variables: dict[str, str]) -> SparkSession:
        """From now on this is the way to the object store, for the driver and for workers."""
        for name, value in variables.items():
            self._patch.setenv(name, value)
            self._patch.setitem(self._spark.sparkContext.environment, name, value)
        self.spark = register(self._spark.newSession())  # a source keeps the variables of its day
        return self.spark

    def open(self, **lake: Any) -> Store:
        return open_store(self.path, url=self.url, **lake)

    def fill(self, batches: int = 4, topic: str = "t") -> None:
        """History in the lake, forty records in a segment, ten in the log."""
        with self.open() as store:
            made = store.topic(topic)
            fill(store, made, batches)
            store.relocate()
            made.delete(match="t001")  # hidden in a file
            made.append_many([b"hot"] * 10, tags=["hot"] * 10)

    def records(self, topic: str = "t") -> list[Row]:
        return records(self.path, topic, url=self.url)

    def data(self, topic: str = "t") -> list[bytes]:
        return [row[-1] for row in self.records(topic)]

    def frame(self, topic: str = "t", **options: str) -> DataFrame:
        reading = self.spark.read.format("strandline").option("lake", self.url)
        return reading.options(topic=topic, **options).load(self.path)

    def write(self, frame: DataFrame, topic: str = "t", **options: str) -> None:
        writing = frame.write.format("strandline").mode("append").option("lake", self.url)
        with plain_errors():
            writing.options(topic=topic, **options).save(self.path)

    def stream(self, source: DataFrame, checkpoint: Path, topic: str) -> None:
        """Run a stream into a topic until it has all there is."""
        query = begin(source, self.path, checkpoint, topic, lake=self.url)
        try:
            with plain_errors():
                assert query.awaitTermination(WAIT_S_MAX)
        finally:
            query.stop()

    def source(self, topic: str = "t") -> DataFrame:
        reading = self.spark.readStream.format("strandline").option("lake", self.url)
        return reading.option("topic", topic).load(self.path)

    def staged(self) -> list[str]:
        return names_in(open_objects(self.url), "incoming")

    def delivered(self) -> list[str]:
        return [*delivered_in(self.path), *delivered_in(self.path, "refused")]


def rows_of(frame: DataFrame, columns: Sequence[str] = RECORD) -> list[Row]:
    """All rows, by seq, with times in microseconds."""
    with plain_errors():
        found: pa.Table = frame.select(*columns).toArrow()
    return sorted(rows(found))
