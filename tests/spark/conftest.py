"""One quiet local Spark for all tests of a process, and stores on a real disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from strandline.spark import register, session


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if "TEST_SPARK_REMOTE" in os.environ:
        yield from _over_connect(os.environ["TEST_SPARK_REMOTE"])
        return
    folder = str(tmp_path_factory.mktemp("spark"))
    made = session(
        "local[2]",
        **{
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": folder,
            "spark.local.dir": folder,
        },
    )
    yield made
    made.stop()


def _over_connect(remote: str) -> Iterator[SparkSession]:
    """A session of Spark Connect: ``local[2]`` starts a server; ``test_connect.py`` says why."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = register(SparkSession.builder.remote(remote).getOrCreate())
    yield made
    made.stop()
