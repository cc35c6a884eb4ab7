"""Promise: prompts of ``run`` and ``sql`` answer line by line, remember, and keep no secrets."""

from __future__ import annotations

import os
import stat

import pytest

from strandline.cli.input.repl import Prompt
from tests.cli.conftest import SECONDS_MAX, Program, Terminal


@pytest.fixture
def remembering(program: Program, tmp_path) -> Program:
    program.environment |= {"STRANDLINE_HISTORY": str(tmp_path / "state"), "TERM": "dumb"}
    return program


def test_commands_are_answered_and_remembered_without_secrets(
    remembering: Program, terminal: Terminal, tmp_path
):
    process = remembering.start("run", stdin=terminal.theirs, stdout=terminal.theirs)
    terminal.wait_for("strandline>")

    terminal.type('DEFINE pay FIELDS {\namount: "u64"}\n')
    terminal.wait_for("pay is defined")
    terminal.type("NONSENSE\n")
    terminal.type('CREATE USER ada WITH KEY "very-secret-indeed"\n')
    terminal.type("QUERY pay COUNT\n")
    terminal.wait_for("count")
    terminal.type("exit\n")
    _, err = process.communicate(timeout=SECONDS_MAX)

    path = tmp_path / "state" / "history-strandline"
    assert process.returncode == 0
    assert err.startswith(b"error: ")
    assert "QUERY pay COUNT" in path.read_text()
    assert "secret" not in path.read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_question_of_sql_ends_with_a_semicolon(remembering: Program, terminal: Terminal):
    remembering.run("append", "t", "a", "b")
    process = remembering.start("sql", stdin=terminal.theirs, stdout=terminal.theirs)
    terminal.wait_for("sql>")

    terminal.type("select count(*) as found\nfrom t;\n")
    terminal.wait_for("2     ")
    terminal.type("selec;\nquit\n")
    _, err = process.communicate(timeout=SECONDS_MAX)

    assert process.returncode == 0
    assert err.count(b"error: ") == 1


def test_words_are_completed_in_the_case_in_which_one_writes():
    prompt = Prompt("test", ["SELECT", "SINCE", "signups"], lambda _: True)

    assert [prompt._complete("s", number) for number in range(4)] == [
        *("select", "since", "signups"),
        None,
    ]
    assert prompt._complete("SE", 0) == "SELECT"
    assert prompt._complete("zzz", 0) is None
