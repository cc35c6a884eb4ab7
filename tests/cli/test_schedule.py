"""Promise: declared pipelines run from the real command, once each, whoever has the store open."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline
from strandline.assembly import RUNS_TOPIC
from tests.cli.conftest import SECONDS_MAX, Command, Program, read_until
from tests.unit.lake.small_lake import fill, open_small


def declare(folder: Path, *tables: str) -> str:
    path = folder / "strandline.toml"
    path.write_text("".join(f"[[store.pipelines.declared]]\n{table}\n" for table in tables))
    return str(path)


@pytest.fixture
def often(tmp_path: Path, data_dir: str) -> str:
    """A store with history, and a file that declares a compaction of it."""
    with open_small(data_dir) as store:
        fill(store)
    return declare(tmp_path, 'name = "often"\npipeline = "compact"\nevery = "1s"')


@pytest.fixture(autouse=True)
def _no_runs_left(data_dir: str) -> Iterator[None]:
    """A run outlives its scheduler on purpose, but not its test."""
    yield
    for process in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]:
        line = _command_line(process)
        if _is_run(line) and data_dir.encode() in line:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def runs(program: Program, config: str) -> list[dict[str, object]]:
    return program.run("pipeline", "runs", "--config", config, "--output", "jsonl").json_lines


def test_what_is_due_runs_once_beside_a_process_that_has_the_store_open(
    program: Program, often: str, data_dir: str
):
    with strandline.open(data_dir):
        first = program.run("pipeline", "schedule", "--once", "--config", often)
        time.sleep(1.1)  # the period itself
        second = program.run(
            "pipeline", "schedule", "--once", "--config", often, "--output", "json"
        )

    assert (first.code, first.out) == (0, "")
    (run,) = second.json
    assert (second.code, run["outcome"], run["rows"], run["number"]) == (0, "done", 400, 1)
    assert [(each["name"], each["outcome"]) for each in runs(program, often)] == [("often", "done")]


def test_it_runs_on_until_it_is_told_to_stop(program: Program, often: str):
    process = program.start("pipeline", "schedule", "--config", often)
    read_until(process.stderr, b"run 2 is done")

    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS_MAX) == 0

    ended = runs(program, often)
    assert [run["number"] for run in reversed(ended)][:2] == [1, 2]
    assert {run["outcome"] for run in ended} <= {"done", "stopped"}


def test_ls_shows_what_is_declared_with_last_and_next_run(program: Program, often: str):
    program.run("pipeline", "schedule", "--now", "often", "--config", often)

    listed = program.run("pipeline", "ls", "--config", often, "--output", "jsonl").json_lines

    told = listed[-1]
    assert (told["name"], told["when"], told["last"]["outcome"]) == ("often", "every 1s", "done")
    assert told["next_us"] > told["last"]["begun_us"]
    shown = program.run("pipeline", "ls", "--config", often).out
    assert "OUTCOME" in shown


def test_a_scheduler_that_is_killed_leaves_a_run_that_the_next_one_does_not_overlap(
    tmp_path: Path, data_dir: str, program: Program
):
    """The source is a pipe that nobody writes to: the run lasts until it is ended."""
    with strandline.open(data_dir):
        pass
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    arguments = f'arguments = {{ topic = "rows", sources = ["{pipe}"], create = true }}'
    config = declare(tmp_path, f'name = "slow"\npipeline = "import"\nevery = "1s"\n{arguments}')
    process = program.start("pipeline", "schedule", "--config", config)
    read_until(process.stderr, b"run 1 started")
    child = _child_of(process.pid)

    process.kill()
    process.wait(SECONDS_MAX)
    beside = program.run("pipeline", "schedule", "--now", "slow", "--config", config)
    os.killpg(child, signal.SIGKILL)
    _wait_gone(child)
    pipe.unlink()
    pipe.write_text("id\n1\n")
    after = program.run("pipeline", "schedule", "--once", "--config", config)

    assert (beside.code, "is running" in beside.err) == (1, True)
    assert after.code == 0, after
    told = [(run["number"], run["outcome"]) for run in runs(program, config)]
    assert told == [(2, "done"), (1, "lost")]
    with strandline.open(data_dir, readonly=True) as store:
        assert store.topic("rows").head_seq == 1


def test_a_run_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, data_dir: str, program: Program
):
    with strandline.open(data_dir):
        pass
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    arguments = f'arguments = {{ topic = "rows", sources = ["{pipe}"], create = true }}'
    config = declare(
        tmp_path, f'name = "slow"\npipeline = "import"\nevery = "1d"\ntimeout = "3s"\n{arguments}'
    )

    done = program.run("pipeline", "schedule", "--now", "slow", "--config", config)

    assert done.code == 1
    (run,) = runs(program, config)
    assert (run["outcome"], run["failure"]) == ("timeout", "it took longer than 3s")


def test_the_command_line_of_a_run_has_no_secrets(tmp_path: Path, data_dir: str, program: Program):
    with strandline.open(data_dir):
        pass
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    arguments = f'arguments = {{ topic = "rows", sources = ["{pipe}"], create = true }}'
    config = declare(tmp_path, f'name = "slow"\npipeline = "import"\nevery = "1s"\n{arguments}')
    lake = tmp_path / "hidden-lake"
    program.environment |= {"STRANDLINE_LAKE_URL": str(lake), "AWS_SECRET_ACCESS_KEY": "hush-hush"}
    process = program.start("pipeline", "schedule", "--config", config)
    read_until(process.stderr, b"run 1 started")

    told = _command_line(_child_of(process.pid))
    process.send_signal(signal.SIGINT)

    assert process.wait(SECONDS_MAX) == 0
    assert b"rows.csv" in told
    assert b"hush-hush" not in told
    assert b"hidden-lake" not in told


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('name = "a"', "missing required field `pipeline`"),
        ('name = "a"\npipeline = "compact"\nwhen = "1h"', "unknown field `when`"),
        ('name = "a"\npipeline = "compact"', "'a': set either every or at"),
        ('name = "a"\npipeline = "zip"\nevery = "1h"', "there is no pipeline 'zip'"),
    ],
)
def test_a_bad_declaration_is_told_with_its_place(command: Command, tmp_path, table, told):
    answer = command("pipeline", "ls", "--config", declare(tmp_path, table))

    assert answer.code == 2
    assert told in answer.err


def test_nothing_declared_is_told(command: Command, data_dir: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command("append", "orders", "tea")

    answer = command("pipeline", "schedule", "--once")

    assert answer.code == 2
    assert "no pipeline is declared" in answer.err
    assert command("pipeline", "runs").out == ""


def test_the_history_can_be_read_like_any_topic(program: Program, often: str):
    program.run("pipeline", "schedule", "--now", "often", "--config", often)

    (record,) = program.run("read", RUNS_TOPIC, "--output", "jsonl").json_lines

    assert (record["key"], record["tag"]) == ("often", "done")


def _child_of(parent: int) -> int:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False
        ).stdout.split()
        for child in map(int, found):
            if _is_run(_command_line(child)):  # before that it is a copy of its parent
                return child
        time.sleep(0.02)
    raise AssertionError("the run has no process")


def _is_run(command_line: bytes) -> bool:
    return b"strandline.pipelines.schedule.worker_main" in command_line


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


def _wait_gone(process: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            return
        time.sleep(0.02)
