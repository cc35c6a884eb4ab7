"""One quiet local Spark for all tests of a process, and stores on a real disk."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from strandline.errors import NotInstalled
from strandline.spark import session
from strandline.spark.sessions import check_java


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        check_java()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
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
