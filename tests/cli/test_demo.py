"""Promise: the demo shows that what was acked survives a kill (D1), and fails if it did not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import strandline
from examples.tour import crash, journal
from examples.tour.journal import Ack, Journal
from examples.tour.stage import Stage
from tests.cli.conftest import SECONDS_MAX

JAVA_SAYS = "WARNING: Using incubator modules: jdk.incubator.vector"
WORKER_SAYS = "Traceback (most recent call last):"
"""Of a Python worker of Spark that is killed while it begins to say that its driver has gone: this
line alone. A traceback of anybody else has more."""
NOISE = (JAVA_SAYS, WORKER_SAYS)


def test_the_quick_demo_ends_well_and_leaves_only_the_store_that_was_named(tmp_path):
    path = str(tmp_path / "kept")
    picture = str(tmp_path / "sales.png")

    answer = _demo(tmp_path, "--quick", "--store", path, "--picture", picture)
    again = _demo(tmp_path, "--quick", "--store", path)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "All checks passed" in answer.stdout
    assert [line for line in answer.stderr.splitlines() if line not in NOISE] == []
    assert "refreshes a materialized query (embedded)" in answer.stdout
    assert ("refreshes a materialized query (spark)" in answer.stdout) != (
        "skipped" in answer.stdout
    )
    drawn = [] if "skipped" in answer.stdout else ["sales.png"]
    assert sorted(os.listdir(tmp_path)) == ["kept", *drawn]
    for path_drawn in drawn:
        assert (tmp_path / path_drawn).read_bytes().startswith(b"\x89PNG")
    with strandline.open(path, readonly=True) as store:
        assert set(journal.TOPICS) < set(store.topics())
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_a_check_that_does_not_hold_fails_the_demo(capsys):
    stage = Stage()

    stage.check(True, "water is wet")
    stage.check(False, "the moon is cheese")
    code = stage.end()

    assert code == 1
    assert capsys.readouterr().out.count("the moon is cheese") == 2


@pytest.mark.parametrize("fault", ["missing", "another"])
def test_an_acked_record_that_is_missing_or_another_is_noticed(data_dir, capsys, fault):
    stage = Stage()
    acks = [Ack("clicks", 1, 2, journal.digest([b"one", b"two"]))]

    with strandline.open(data_dir) as store:
        topic = store.topic("clicks")
        topic.append_many([b"one"] if fault == "missing" else [b"one", b"other"])
        crash.compare(stage, topic, acks)

    assert len(stage.failures) == 1


def test_a_journal_that_was_cut_short_holds_the_whole_messages():
    reading, writing = os.pipe()
    acks = [Ack("payments", 1, 1, 7), Ack("readings", 1, 250, 2**64 - 1)]
    for ack in acks:
        journal.write_ack(writing, ack)
    os.close(writing)
    content = os.read(reading, 1000)
    os.close(reading)
    told = Journal()

    for first in range(0, len(content) - 5, 13):
        told.add(content[first : min(first + 13, len(content) - 5)])

    assert told.acks == {"payments": acks[:1]}
    assert told.records == 1


def _demo(folder, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.tour", *options],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=2 * SECONDS_MAX,
        check=False,
    )
