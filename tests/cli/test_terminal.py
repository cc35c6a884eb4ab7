"""Promise: a terminal gets drawn tables and progress, and deleting asks its user first."""

from __future__ import annotations

import time

import pytest

import strandline
from tests.cli.conftest import SECONDS_MAX, Program, Terminal


def test_a_table_is_drawn_and_the_data_cannot_command_the_terminal(
    program: Program, terminal: Terminal
):
    program.run("append", "t", "hello", "\x1b[2J")

    process = program.start("read", "t", stdout=terminal.theirs)
    code = process.wait(SECONDS_MAX)
    terminal.look()

    assert code == 0
    assert "─" in terminal.shown.decode()
    assert b"hello" in terminal.shown
    assert rb"\x1b[2J" in terminal.shown
    assert b"\x1b[2J" not in terminal.shown


def test_a_long_stdin_shows_how_far_it_is(program: Program, terminal: Terminal):
    process = program.start("append", "lines", stderr=terminal.theirs)
    deadline = time.monotonic() + SECONDS_MAX

    while b"stdin" not in terminal.shown and time.monotonic() < deadline:
        process.stdin.write(b"line\n" * 1000)
        process.stdin.flush()
        terminal.look(0.01)
    out, _ = process.communicate(timeout=SECONDS_MAX)

    assert b"stdin" in terminal.shown
    assert process.returncode == 0
    assert out.startswith(b"topic    lines\n")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_deleting_a_topic_with_records_asks_first(
    program: Program, terminal: Terminal, data_dir: str, answer: str
):
    with strandline.open(data_dir) as store:
        store.topic("orders").append(b"tea")

    process = program.start(
        "topic", "delete", "orders", stdin=terminal.theirs, stderr=terminal.theirs
    )
    terminal.wait_for("its 1 records? [y/N]")
    terminal.type(f"{answer}\n")
    code = process.wait(SECONDS_MAX)

    assert code == (0 if answer == "y" else 2)
    with strandline.open(data_dir, readonly=True) as store:
        assert store.topics() == ([] if answer == "y" else ["orders"])
