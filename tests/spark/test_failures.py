"""Promise: the bad days of Spark are told in one line, with the remedy."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.errors import Corrupt, NotInstalled, ObjectStoreDenied, RecordsLost, Unavailable
from strandline.spark.errors import explain, plain_errors, short_errors
from strandline.spark.sessions import check_java, check_master


def fake_java(folder: Path, version: str) -> Path:
    """A java command that tells a version."""
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    return java


def test_no_java_is_told_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NotInstalled, match="no java command: apt-get install -y openjdk-17"):
        check_java()


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "Java 11: apt-get"),
        ('java version "1.8.0_301"', "Java 8: apt-get"),
        ("Segmentation fault", "not a Java that starts: apt-get"),
    ],
)
def test_a_java_that_is_too_old_is_told(tmp_path, monkeypatch, version, told):
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(NotInstalled, match=told):
        check_java()


def test_a_java_that_is_new_enough_is_taken(tmp_path, monkeypatch):
    java = fake_java(tmp_path, 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert check_java() == str(java)


def test_a_session_asks_for_java_first_and_ends_with_one_line(tmp_path):
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    program = """
import strandline.spark
try:
    strandline.spark.session()
except strandline.StrandlineError as error:
    print(type(error).__name__, error)
"""

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    (line,) = done.stdout.splitlines()
    assert line.startswith("NotInstalled Spark needs Java 17 or 21, and ")
    assert "is Java 11: apt-get install" in line


def test_a_master_that_does_not_answer_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")

    with pytest.raises(Unavailable, match=rf"no Spark master responds at .*:{port} .*: start it"):
        check_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(Unavailable, match="check host and port"):
        check_master("spark://127.0.0.1")
    check_master("local[2]")


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            NotInstalled,
            "the workers run Python 3.9 and the driver 3.11: set PYSPARK_PYTHON",
        ),
        (
            "Traceback …\nModuleNotFoundError: No module named 'strandline'\n\tat java.base",
            NotInstalled,
            "the workers' Python has no strandline: pip install",
        ),
        (
            'java.io.IOException: Cannot run program "/none/python": error=2',
            Unavailable,
            "could not start a Python worker: set PYSPARK_PYTHON",
        ),
        (
            "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat org",
            Unavailable,
            "did not start in time: the machine is too busy, try again",
        ),
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat",
            Unavailable,
            "removed this application: see the logs of master and workers",
        ),
        (
            "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat",
            NotInstalled,
            r"no file system for s3a://.*hadoop-aws.*read\.format",
        ),
        (
            "Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found",
            NotInstalled,
            "no file system for gs://.*gcs-connector",
        ),
        (
            "Class org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found",
            NotInstalled,
            "no file system for abfss://.*hadoop-azure",
        ),
        (
            'UnsupportedFileSystemException: No FileSystem for scheme "az"',
            NotInstalled,
            "no file system for az://",
        ),
        (
            "x\nstrandline.errors.ObjectStoreDenied: no rights\n\tat org.apache",
            ObjectStoreDenied,
            "^no rights$",
        ),
        (
            "strandline.errors.Corrupt: a zone fails its checksum in /lake/a.parquet at byte 4",
            Corrupt,
            "a zone fails its checksum in /lake/a.parquet",
        ),
    ],
)
def test_what_spark_says_becomes_what_it_means(text, kind, told):
    with pytest.raises(kind, match=told), plain_errors():
        raise RuntimeError(text)


def test_a_loss_keeps_its_numbers_on_the_way():
    lost = RecordsLost("eu-1", 5, 9, "cap")

    plain = explain(RuntimeError(f"Job aborted …: strandline.errors.RecordsLost: {lost}\n\tat"))

    assert isinstance(plain, RecordsLost)
    assert (plain.gap_from, plain.gap_to, plain.reason) == (5, 9, "cap")


def test_an_error_that_is_not_ours_stays_as_it_is():
    with pytest.raises(ZeroDivisionError), plain_errors():
        raise ZeroDivisionError("x")


def test_only_a_worker_hides_the_trace(monkeypatch):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET", raising=False)

    with pytest.raises(ObjectStoreDenied), short_errors():
        raise ObjectStoreDenied("no rights")

    assert "SPARK_HIDE_TRACEBACK" not in os.environ


def test_importing_strandline_does_not_import_pyspark():
    program = (
        "from strandline import *; import strandline.cli.program, sys; "
        "sys.exit('pyspark' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == 0
