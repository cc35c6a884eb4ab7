"""Promise: over Spark Connect, commands and SQL have the answers that the store itself gives.

Connect changes what ``pyspark.sql`` does in the whole process, so the tests that must hold there
run in another one, against a server that it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.errors import NotInstalled
from strandline.spark.sessions import check_java
from tests.spark.test_questions import COMMANDS, STATEMENTS

ROOT = Path(__file__).parents[2]
QUESTIONS = "tests/spark/test_questions.py::"
COMMAND = f"{QUESTIONS}test_a_command_has_the_answer_that_the_store_itself_gives"
STATEMENT = f"{QUESTIONS}test_a_statement_has_the_answer_that_the_store_itself_gives"
RULES = [
    "tests/spark/over_connect.py",
    f"{COMMAND}[{COMMANDS[1]}]",
    f"{STATEMENT}[{STATEMENTS[1]}]",
    f"{STATEMENT}[{STATEMENTS[3]}]",
    f"{STATEMENT}[{STATEMENTS[7]}]",
    f"{QUESTIONS}test_what_spark_cannot_do_is_told_in_one_line",
]


@pytest.mark.spark
def test_what_holds_for_a_classic_session_holds_over_spark_connect(tmp_path):
    try:
        check_java()
    except NotInstalled as error:
        pytest.skip(str(error))

    places = [f"--rootdir={ROOT}", f"--basetemp={tmp_path}/tests"]
    rules = [f"{ROOT}/{rule}" for rule in RULES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *places, *rules],
        env={
            **os.environ,
            "TEST_SPARK_REMOTE": "local[2]",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_TESTING": "yes",  # a free port: spark-pipelines may have the usual one
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout
