"""Promise: what guides of views say about HTTP is so: commands answer it, no route is left out."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from strandline.server.http.route import Route
from strandline.server.routes import (
    dead_letters,
    groups,
    kv,
    kv_watch,
    metrics,
    query,
    queue,
    series,
    tables,
    views,
)
from tests.docs.test_http_page import COMMAND, CONSOLE, _check_shown
from tests.house.tree import read_document
from tests.server.running import running

PAGES: dict[str, tuple[Route, ...]] = {
    "kv": (*kv.ROUTES, *kv_watch.ROUTES),
    "queues": (*queue.ROUTES, *dead_letters.ROUTES),
    "series": series.ROUTES,
    "metrics": metrics.ROUTES,
    "groups": groups.ROUTES,
    "tables": tables.ROUTES,
    "sql": query.ROUTES,
    "views": views.ROUTES,
}


def _section(page: str) -> str:
    _, _, section = read_document(f"docs/guide/{page}.md").partition("\n## Over HTTP\n")
    return section


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_answer_what_the_page_shows(page: str, tmp_path: Path) -> None:
    found = COMMAND.findall("".join(CONSOLE.findall(_section(page))))
    assert len(found) >= 3

    with running(tmp_path) as server:
        for command, shown in found:
            here = command.replace("localhost:4000", f"{server.host}:{server.port}")
            here = here.replace("curl ", "curl -sS ", 1)
            answer = subprocess.run(here, shell=True, capture_output=True, check=True)
            _check_shown(json.loads(shown), json.loads(answer.stdout), command)


@pytest.mark.parametrize("page", PAGES)
def test_every_route_is_named(page: str) -> None:
    section = _section(page)

    tails = {route.path.rpartition("}")[2].strip("/") or route.path for route in PAGES[page]}

    missing = [tail for tail in tails if tail.rpartition("/")[2] not in section]
    assert missing == []
