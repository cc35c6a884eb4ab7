"""Promise: the page about live delivery is right. Its commands answer what stands below them, its
example runs, and its tables have every field."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from strandline.api import live
from tests.house.tree import read_document
from tests.server.live.watching import Reader, watch
from tests.server.running import running

PAGE = "docs/guide/live.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n(.*)$", re.MULTILINE)
EXAMPLE = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_answer_what_the_page_shows(tmp_path):
    found = COMMAND.findall("".join(CONSOLE.findall(read_document(PAGE))))
    assert len(found) == 4

    with running(tmp_path) as server:
        for command, shown in found:
            here = command.replace("localhost:4000", f"{server.host}:{server.port}")
            answer = subprocess.run(
                here.replace("curl ", "curl -sS ", 1), shell=True, capture_output=True, check=True
            )
            _check_shown(json.loads(shown), json.loads(answer.stdout))


def test_the_example_runs_as_it_is_written(tmp_path, capsys):
    (example,) = EXAMPLE.findall(read_document(PAGE))

    with running(tmp_path) as server:
        server.store.topic("orders").append(b"1")
        here = example.replace("localhost:4000", f"{server.host}:{server.port}")
        exec(compile(here, PAGE, "exec"), {"__name__": "example"})

    assert capsys.readouterr().out.split() == ["ack", "subscribed", "record", "caught_up"]


def test_events_have_the_fields_that_the_page_names(tmp_path):
    page = read_document(PAGE).partition("### Session options")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `([a-z_, ]+)` \|", page, re.M))

    with running(tmp_path) as server:
        server.store.topic("orders", cap_records=1).append_many([b"1", b"2"])
        session = watch(server, {"orders": {}})
        with Reader(server, session["stream_url"]) as reader:
            events = reader.until("caught-up")
            server.store.delete_topic("orders")
            events += reader.until("topic-deleted")
            server.stop()
            events += reader.until("error")

    for event in events:
        assert ", ".join(event.data) == rows[event.name]
    assert {event.name for event in events} == set(rows)


def test_every_field_of_a_request_is_on_the_page():
    page = read_document(PAGE)
    fields = [*live.WatchRequest.__struct_fields__, *live.LiveFilter.__struct_fields__]

    missing = [name for name in fields if f"`{name}`" not in page]

    assert missing == []


def _check_shown(shown: dict[str, Any], answered: dict[str, Any]) -> None:
    for name, value in shown.items():
        assert answered[name] == value
