"""Promise: what the caller of a session sets wins, and options of Java are joined with ours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from strandline.cli.engine_options import TaskEngineOptions
from strandline.spark.sessions import conf_of

OPTIONS = "spark.driver.defaultJavaOptions"


def test_options_of_java_are_joined_and_those_of_the_caller_come_last():
    found = conf_of("local[2]", {OPTIONS: "-Dmine=1"})[OPTIONS]

    assert found.startswith("-Dlog4j2.configurationFile=")
    assert found.endswith(" -Dmine=1")


def test_extra_options_of_java_are_left_to_the_caller():
    mine = {"spark.driver.extraJavaOptions": "-Dmine=1"}

    found = conf_of("local[2]", mine)

    assert found["spark.driver.extraJavaOptions"] == "-Dmine=1"
    assert "log4j2" in found[OPTIONS]


def test_what_the_caller_sets_wins():
    mine = {"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Europe/Berlin"}

    assert conf_of("spark://host:7077", mine).items() >= mine.items()


@pytest.mark.spark
def test_java_gets_the_options_of_both(spark: SparkSession):
    del spark  # only to skip where there is no Java
    program = """
import time
import strandline.spark
spark = strandline.spark.session("local[1]", **{"spark.driver.extraJavaOptions": "-Dmine=1"})
print(*(spark._jvm.System.getProperty(name) for name in ("mine", "log4j2.configurationFile")))
spark._jvm.System.err.println("a line of the JVM")
time.sleep(1)
"""

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )

    mine, logging = done.stdout.split()
    assert mine == "1"
    assert logging.endswith("strandline/spark/log4j2.properties")
    assert "incubator" not in done.stderr, "it is printed at every start, and nothing can be done"
    assert "a line of the JVM" in done.stderr.splitlines()


@pytest.mark.spark
def test_settings_of_a_command_reach_the_session_and_its_tasks_are_shown(spark: SparkSession):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    where = TaskEngineOptions(
        engine="spark", master="local[2]", conf=("spark.sql.shuffle.partitions=3",)
    )
    shown: list[tuple[str, int, int]] = []
    engine = where.chooser(lambda *step: shown.append(step))(1)
    try:
        assert list(engine.run(str, [])) == []
        assert spark.conf.get("spark.sql.shuffle.partitions") == before, "nothing was started"

        found = sorted(engine.run(str, [7, 8, 9]))

        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert found == [(0, "7"), (1, "8"), (2, "9")]
    assert shown == [("tasks of Spark", done, 3) for done in range(4)]
