"""Promise: the guide to security names every action and every route, and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from strandline.cli.main import run
from strandline.security.scopes import ACTIONS, parse
from strandline.server.routes.tokens import ROUTES
from tests.house.tree import read_document

ROW = re.compile(r"^\| `(limits\.[a-z_]+)` \| (\S.*?) \|", re.MULTILINE)
PAGE = read_document("docs/guide/security.md")


def test_every_action_is_in_the_table_and_no_other():
    scopes = PAGE.partition("\n## Scopes\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| ([a-z]+) \|", scopes, re.MULTILINE)

    assert sorted(told[1:]) == sorted(ACTIONS)


def test_every_route_about_tokens_is_in_the_table():
    told = re.findall(r"^\| `([A-Z]+ /v0/[^`]*)` \|", PAGE, re.MULTILINE)

    assert sorted(told) == sorted(f"{route.method} {route.path}" for route in ROUTES)


def test_the_commands_run_line_by_line(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRANDLINE_STORE", raising=False)
    monkeypatch.setenv("STRANDLINE_CONFIG", str(tmp_path / "contexts.json"))
    lines = re.findall(r"^\$ strandline (.*)$", PAGE, re.MULTILINE)

    codes = {line: run(shlex.split(line)) for line in lines}

    assert len(lines) == 4
    assert {line: code for line, code in codes.items() if code} == {}


def test_limits_on_the_page_are_those_of_the_settings():
    serving = dict(ROW.findall(read_document("docs/guide/serving.md")))
    shown = dict(ROW.findall(PAGE))

    assert len(shown) >= 10
    assert {name: serving[name] for name in shown} == shown


def test_scopes_on_the_page_can_be_read():
    texts = re.findall(r'(?:--scopes |parse\(|"scopes": )"([^"]+)"', PAGE)

    assert len(texts) >= 3
    assert all(parse(text) for text in texts)
