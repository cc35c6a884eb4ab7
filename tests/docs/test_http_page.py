"""Promise: the page about HTTP is right. Its commands run and answer what stands below them, and
its tables have every route and field."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from strandline.api import topics as wire
from strandline.api.error_codes import CODES
from strandline.server.routes import records, topics
from tests.house.tree import read_document
from tests.server.running import running

PAGE = "docs/guide/http.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n(.*)$", re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_answer_what_the_page_shows(tmp_path):
    found = COMMAND.findall("".join(CONSOLE.findall(read_document(PAGE))))
    assert len(found) >= 10

    with running(tmp_path) as server:
        for command, shown in found:
            here = command.replace("localhost:4000", f"{server.host}:{server.port}")
            answer = subprocess.run(
                here.replace("curl ", "curl -sS ", 1) if here.startswith("curl") else here,
                shell=True,
                capture_output=True,
                check=True,
            )
            _check_shown(json.loads(shown), json.loads(answer.stdout), command)


def test_every_route_of_topics_is_in_the_table():
    told = set(re.findall(r"^\| `([A-Z]+ /v0/topics\S*)` \|", read_document(PAGE), re.MULTILINE))

    served = {f"{route.method} {route.path}" for route in (*topics.ROUTES, *records.ROUTES)}
    assert told == served - {"GET /v0/topics/{topic}/producers/{producer}"}


@pytest.mark.parametrize(
    "kind", [wire.AppendBody, wire.DiffRequest], ids=lambda kind: kind.__name__
)
def test_every_field_is_in_a_table(kind):
    page = read_document(PAGE)

    missing = [name for name in kind.__struct_fields__ if f"`{name}`" not in page]

    assert missing in ([], ["idempotency_key_base64"])


def test_every_code_is_listed_with_its_status():
    rows = re.findall(r"^\| (\d{3}) \| `([a-z_]+)` \|", read_document("docs/guide/errors.md"), re.M)

    assert {name: int(status) for status, name in rows} == {
        name: code.status for name, code in CODES.items()
    }


def _check_shown(shown: Any, answer: Any, command: str) -> None:
    """What is shown is in the answer; objects may have more."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in answer, (command, name, answer)
            _check_shown(value, answer[name], command)
    elif isinstance(shown, list):
        assert len(shown) == len(answer), (command, answer)
        for one, other in zip(shown, answer, strict=True):
            _check_shown(one, other, command)
    else:
        assert shown == answer, (command, shown, answer)
