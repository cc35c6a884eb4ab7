"""Promise: the guide to the command line lists every command, and its example runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cyclopts import App

from strandline.cli import errors
from strandline.cli.main import run
from strandline.cli.program import make_app
from tests.house.tree import read_document

GUIDE = "docs/guide/cli.md"


def test_every_command_is_in_the_table_and_no_other():
    told = re.findall(r"^\| `([a-z ]+)` \|", read_document(GUIDE), re.MULTILINE)

    assert sorted(told) == sorted(_commands(make_app()))


def test_the_example_session_runs_line_by_line(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRANDLINE_STORE", raising=False)
    monkeypatch.setenv("STRANDLINE_CONFIG", str(tmp_path / "contexts.json"))
    lines = re.findall(r"^\$ strandline (.*)$", read_document(GUIDE), re.MULTILINE)

    codes = {line: run(shlex.split(line)) for line in lines}

    assert lines
    assert {line: code for line, code in codes.items() if code} == {}


def test_every_exit_code_is_in_the_guide():
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", read_document(GUIDE), re.MULTILINE)}

    named = (value for name, value in vars(errors).items() if name.isupper())
    assert told == {0, *(value for value in named if isinstance(value, int))}


def _commands(app: App, *before: str) -> Iterator[str]:
    seen: list[App] = []
    for name in app:
        if name.startswith("-") or any(app[name] is each for each in seen):
            continue  # the second is another spelling of the first
        seen.append(app[name])
        inner = list(_commands(app[name], *before, name))
        yield from inner
        if not inner or app[name].default_command is not None:
            yield " ".join([*before, name])
