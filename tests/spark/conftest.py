"""One quiet local Spark for all tests of a process, and stores on a real disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from strandline.spark import session


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
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
