"""Promise: a pipeline starts Spark only when there is something for it to do, and what is wrong
with Spark is not blamed on the disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.cli.engine_options import parse_conf
from strandline.cli.errors import WRONG_USE, explain
from strandline.cli.output.progress import Steps
from strandline.errors import Invalid, ObjectStoreUnreachable
from tests.cli.conftest import PROGRAM, Command
from tests.unit.lake.small_lake import fill, open_small

pytest.importorskip("pyspark")

from strandline.spark import errors as spark_errors
from strandline.spark.sessions import check_master

SPARK = ("--engine", "spark")


@pytest.fixture
def cold(command: Command, data_dir: str, tmp_path: Path) -> Command:
    """A store with files to merge, and one to import."""
    with open_small(data_dir) as store:
        fill(store)
    (tmp_path / "teas.csv").write_text("id\n1\n2\n")
    return command


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether a JVM was started: the only Java here notes it, and fails."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return (tmp_path / "started").exists


@pytest.mark.parametrize(
    "words",
    [
        ("compact",),
        ("scrub",),
        ("export", "--topic", "orders", "--to", "{tmp}/out"),
        ("import", "{tmp}/teas.csv", "--topic", "teas", "--create"),
    ],
)
def test_a_dry_run_starts_no_jvm(cold: Command, java, tmp_path: Path, words):
    given = [word.format(tmp=tmp_path) for word in words]

    done = cold("pipeline", "run", *given, *SPARK, "--dry-run", "--output", "json")

    assert done.code == 0, done.err
    assert done.json["engine"] == "spark"
    assert not java()


@pytest.mark.parametrize(
    "words",
    [
        ("compact",),
        ("export", "--topic", "orders", "--to", "{tmp}/out"),
        ("import", "{tmp}/teas.csv", "--topic", "teas", "--create"),
        ("materialize",),
        ("rollup",),
    ],
)
def test_a_run_with_nothing_to_do_starts_no_jvm(cold: Command, java, tmp_path: Path, words):
    given = [word.format(tmp=tmp_path) for word in words]
    assert cold("pipeline", "run", *given).code == 0

    done = cold("pipeline", "run", *given, *SPARK)

    assert done.code == 0, done.err
    assert not java()


def test_a_run_with_something_to_do_starts_one(cold: Command, java, data_dir: str):
    words = [*PROGRAM, "pipeline", "run", "compact", *SPARK, "--store", data_dir]

    done = subprocess.run(words, env=dict(os.environ), capture_output=True, text=True, check=False)

    assert java()
    assert done.returncode == WRONG_USE
    assert "Spark needs Java" in done.stderr


def test_settings_of_spark_are_names_with_values(cold: Command):
    assert parse_conf(["spark.executor.memory=4g", "spark.x = a=b"]) == {
        "spark.executor.memory": "4g",
        "spark.x": "a=b",
    }
    for wrong in ("spark.executor.memory", "executor.memory=4g", "=4g"):
        done = cold("pipeline", "run", "compact", "--conf", "spark.a=1", "--conf", wrong)
        assert done.code == WRONG_USE
        assert "--conf is NAME=VALUE" in done.err


def test_an_unreachable_master_is_not_blamed_on_the_disk():
    with pytest.raises(ObjectStoreUnreachable, match="no Spark master responds") as caught:
        check_master("spark://127.0.0.1:1")
    errors = [caught.value]
    for text in ("Master removed our application", "Python worker failed to connect back"):
        found = spark_errors.explain(RuntimeError(text))
        assert found is not None
        errors.append(found)

    hints = [explain(error)[1] for error in errors]

    assert not [hint for hint in hints if "disk" in hint], hints
    with pytest.raises(Invalid, match="not a Spark master"):
        check_master("sparks://host")


def test_the_last_line_of_progress_says_that_it_is_done(monkeypatch, capsys):
    now_s = [0.0]
    monkeypatch.setattr("strandline.cli.output.progress.time.monotonic", lambda: now_s[0])

    with Steps() as steps:
        for now_s[0], done in ((1.0, 1), (12.0, 5), (13.0, 9), (14.0, 10), (15.0, 10)):
            steps.show("compact", done, 10)

    assert capsys.readouterr().err.splitlines() == ["compact: 50 %", "compact: 100 %"]
