"""Promise: no text of SQL ends the server or takes its memory; its process may end, and its client
gets an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.server.process import Process, served
from tests.server.running import DEADLINE_S

MEMORY = 128 * 2**20
_SQUARED = "a AS (SELECT 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), b AS (FROM a, a x, a y, a z, a w)"
_WIDE = f"WITH {_SQUARED}, c AS (FROM b, b x, b y, b z, b w), d AS (FROM c, c x, c y, c z, c w)"
ATTACKS = {
    "a list of a hundred million": "SELECT range(100000000)",
    "a text of 900 megabytes": "SELECT repeat('x', 900000000)",
    "a list that is collected": "SELECT list(range) FROM range(20000000)",
    "a sort": "SELECT range FROM range(1000000000) ORDER BY hash(range)",
    "a million columns": f"{_WIDE} FROM d, d x, d y, d z, d w, d u, d v, d t",
    "columns by name": "SELECT " + ", ".join(f"{n} AS c{n}" for n in range(12_000)),
    "deep brackets": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "deep lists": "SELECT " + "[" * 20_000 + "1" + "]" * 20_000,
    "a chain of operators": "SELECT 1" + " + 1" * 50_000,
    "deep selects": "SELECT * FROM (" * 1500 + "SELECT 1" + ")" * 1500,
    "padding": "SELECT lpad('x', 2000000000, 'y'), rpad('x', 2000000000, 'y')",
    "recursion": "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t, range(1000)) "
    "SELECT count(*) FROM t",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    flags = [f"limits.sql_memory_bytes_max={MEMORY}", "limits.query_s_max=10"]
    path: Path = tmp_path_factory.mktemp("attacked")
    with served(path, *(word for flag in flags for word in ("--set", flag))) as server:
        yield server


def _ask(server: Process, sql: str, accept: str = "application/json") -> httpx2.Response:
    url = f"http://127.0.0.1:{server.port}/v0/sql"
    return httpx2.post(url, json={"sql": sql}, headers={"accept": accept}, timeout=DEADLINE_S)


def _peak_bytes(server: Process) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_text_that_takes_all_it_can_gets_an_error_and_costs_the_server_nothing(
    server: Process, name: str
) -> None:
    assert _ask(server, "SELECT 42").json()["rows"] == [[42]]
    before = _peak_bytes(server)

    answer = _ask(server, ATTACKS[name])

    assert answer.status_code in (400, 413, 429, 504), answer.text[:200]
    assert answer.json()["error"]["message"]
    assert _peak_bytes(server) - before < MEMORY
    assert _ask(server, "SELECT 42").json()["rows"] == [[42]]
    os.kill(server.pid, 0)
