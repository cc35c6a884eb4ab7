"""Promise: a query ends at its deadline, when its client goes, when its token is revoked, and when
the server goes down; one token runs a few at once; and nothing else waits for them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pyarrow as pa
import pytest

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.process import served
from tests.server.running import DEADLINE_S, Raw, Running, running

ENDLESS = "SELECT count(*) FROM range(100000000000000) t(i) WHERE i % 7 = 3"
LONG = "SELECT range AS i FROM range(1000000000000)"
ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
ACCEPTS = ["application/json", NDJSON, ARROW]


@contextlib.contextmanager
def limited(path: Path, **limits: Any) -> Iterator[Running]:
    settings = ServerSettings(limits=RequestLimits(**limits), drain_s=2.0)
    tokens = {"root": "all", "guest": "read", "other": "read"}
    with running(path, settings=settings, tokens=tokens) as server:
        server.store.topic("orders").append(b"1")
        server.store.metrics("usage").write("cpu", {}, {"load": 1.0}, at=1)
        yield server


def ask(
    server: Running, sql: str, token: str = "guest", accept: str = "application/json"
) -> httpx2.Response:
    return httpx2.post(
        f"{server.url}/v0/sql",
        json={"sql": sql},
        headers={"accept": accept, "authorization": f"Bearer {server.tokens[token]}"},
        timeout=DEADLINE_S,
    )


def error_of(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, msgspec.json.decode(answer.content)["error"]["code"]


def begin(server: Running, sql: str, accept: str = "application/json") -> Raw:
    """A query of the guest on a connection of its own, that runs."""
    before = len(server.parts.queries)
    body = msgspec.json.encode({"sql": sql})
    raw = server.raw()
    raw.send(
        b"POST /v0/sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\nAccept: %b\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (server.tokens["guest"].encode(), accept.encode(), len(body), body)
    )
    until(lambda: len(server.parts.queries) > before)
    return raw


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come in time"
        threading.Event().wait(0.01)


@pytest.mark.parametrize("accept", ACCEPTS)
def test_an_endless_query_ends_at_its_deadline(tmp_path: Path, accept: str) -> None:
    with limited(tmp_path, query_s_max=2.0) as server:
        until(lambda: ask(server, "SELECT 1").status_code == 200)
        answer = ask(server, ENDLESS, accept=accept)

        assert error_of(answer) == (504, "timeout")
        assert ask(server, "SELECT 1").json()["rows"] == [[1]]
        until(lambda: len(server.parts.queries) == 0)


def test_rows_that_are_being_sent_end_at_the_deadline(tmp_path: Path) -> None:
    with limited(tmp_path, query_s_max=2.0) as server:
        until(lambda: ask(server, "SELECT 1").status_code == 200)
        *_, last = ask(server, LONG, accept=NDJSON).content.splitlines()
        with pytest.raises(httpx2.RemoteProtocolError):
            ask(server, LONG, accept=ARROW)

        assert msgspec.json.decode(last)["type"] == "error"
        assert msgspec.json.decode(last)["error"]["code"] == "timeout"
        until(lambda: len(server.parts.queries) == 0)


@pytest.mark.parametrize("accept", [*ACCEPTS, "rows"])
def test_a_query_ends_when_its_client_goes(tmp_path: Path, accept: str) -> None:
    sql, accept = (LONG, ARROW) if accept == "rows" else (ENDLESS, accept)
    with limited(tmp_path, query_s_max=1000.0) as server:
        raw = begin(server, sql, accept)
        if sql == LONG:
            raw.answer(to_head=True)
        raw.socket.close()

        until(lambda: len(server.parts.queries) == 0)
        assert ask(server, "SELECT 1").json()["rows"] == [[1]]


def test_a_query_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    with limited(tmp_path, query_s_max=1000.0) as server:
        with begin(server, ENDLESS) as raw:
            id = server.tokens["guest"].split("_")[1]
            root = {"authorization": f"Bearer {server.tokens['root']}"}
            revoked = httpx2.delete(f"{server.url}/v0/tokens/{id}", headers=root)

            assert revoked.status_code == 200
            assert raw.answer().status == 401
        until(lambda: len(server.parts.queries) == 0)


def test_a_token_runs_a_few_queries_at_once_and_nobody_else_waits_for_them(tmp_path: Path) -> None:
    limits = {"query_s_max": 1000.0, "queries_per_token_max": 6}
    with limited(tmp_path, **limits) as server, contextlib.ExitStack() as open_queries:
        for _ in range(6):
            open_queries.enter_context(begin(server, ENDLESS))
        root = {"authorization": f"Bearer {server.tokens['root']}"}
        aggregate = {"query": "avg(cpu.load) by 1m"}

        refused = ask(server, "SELECT 1")
        answers = {
            "sql": ask(server, "SELECT 1", token="other"),
            "metrics": httpx2.get(f"{server.url}/v0/metrics", headers=root, timeout=DEADLINE_S),
            "command": httpx2.post(
                f"{server.url}/v0/command",
                json={"command": "PING"},
                headers=root,
                timeout=DEADLINE_S,
            ),
            "aggregates": httpx2.post(
                f"{server.url}/v0/metrics/usage/query",
                json=aggregate,
                headers=root,
                timeout=DEADLINE_S,
            ),
        }

        assert error_of(refused) == (429, "throttled")
        assert float(refused.headers["retry-after"]) > 0
        assert refused.json()["error"]["detail"]["limit"] == "queries_per_token_max"
        assert {
            name: answer.status_code < 500 for name, answer in answers.items()
        } == dict.fromkeys(answers, True)
        assert answers["sql"].json()["rows"] == [[1]]


@pytest.mark.parametrize("accept", ACCEPTS)
def test_a_process_serves_the_next_query_after_an_answer_and_after_an_error(
    tmp_path: Path, accept: str
) -> None:
    with limited(tmp_path) as server:
        used = []
        for sql in ["SELECT 1", "SELECT count(*) FROM orders", "SELECT nosuch FROM orders", LONG]:
            text = f"{sql} LIMIT 20000" if sql == LONG else sql
            ask(server, text, accept=accept)
            until(lambda: len(server.parts.queries) == 0)
            used.append([process._number for process in server.parts.processes._idle])

        assert len(used[0]) == 1
        assert used == [used[0]] * len(used)


def test_a_server_that_goes_down_ends_its_queries(tmp_path: Path) -> None:
    flags = ("--set", "drain_s=2", "--set", "limits.query_s_max=1000")
    with served(tmp_path, *flags) as server, ThreadPoolExecutor() as clients:
        asked = [clients.submit(_ask_until_taken, server.port) for _ in range(4)]
        until(lambda: _is_full(server.port))
        server.signal(signal.SIGTERM)
        code, _ = server.ended()

        assert code == 0
        assert [error_of(each.result()) for each in asked] == [(503, "shutting_down")] * 4


def _ask_until_taken(port: int) -> httpx2.Response:
    while True:  # the probe below may take the last place
        url = f"http://127.0.0.1:{port}/v0/sql"
        answer = httpx2.post(url, json={"sql": ENDLESS}, timeout=DEADLINE_S)
        if answer.status_code != 429:
            return answer


def _is_full(port: int) -> bool:
    answer = httpx2.post(f"http://127.0.0.1:{port}/v0/sql", json={"sql": "SELECT 1"})
    return answer.status_code == 429


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        ("SELECT " + ", ".join(["1"] * 3000), "sql_bytes_max"),
        ("SELECT a.*, a.*, a.* FROM (SELECT 1, 2, 3, 4) a", "query_columns_max"),
    ],
)
@pytest.mark.parametrize("accept", ACCEPTS)
def test_texts_and_answers_are_bounded_in_every_format(
    tmp_path: Path, sql: str, limit: str, accept: str
) -> None:
    with limited(tmp_path, sql_bytes_max=5000, query_columns_max=10) as server:
        answer = ask(server, sql, accept=accept)

        assert error_of(answer) == (413, "payload_too_large")
        assert answer.json()["error"]["detail"]["limit"] == limit


@pytest.mark.parametrize(
    ("limit", "sql"),
    [
        ("query_bytes_max", "SELECT repeat('x', 1000) AS a FROM range(100000)"),
        ("query_row_bytes_max", "SELECT repeat('x', 20000000) AS a"),
    ],
)
def test_rows_are_bounded_in_every_format(tmp_path: Path, limit: str, sql: str) -> None:
    with limited(tmp_path, **{limit: 19_000_000}) as server:
        json, ndjson = ask(server, sql), ask(server, sql, accept=NDJSON)
        with pytest.raises(httpx2.RemoteProtocolError):
            ask(server, sql, accept=ARROW)
    last = msgspec.json.decode(ndjson.content.splitlines()[-1])

    assert json.json()["error"]["detail"]["limit"] == limit
    assert last["error"]["detail"]["limit"] == limit
    assert len(ndjson.content) < 20_000_000


def test_json_is_bounded_by_itself_and_long_answers_stream(tmp_path: Path) -> None:
    sql = "SELECT repeat('x', 1000) AS a FROM range(5000)"
    with limited(tmp_path, query_json_bytes_max=1_000_000) as server:
        json, ndjson = ask(server, sql), ask(server, sql, accept=NDJSON)
        arrow = ask(server, sql, accept=ARROW)

    assert json.json()["error"]["detail"]["limit"] == "query_json_bytes_max"
    assert msgspec.json.decode(ndjson.content.splitlines()[-1])["row_count"] == 5000
    batches = list(pa.ipc.open_stream(arrow.content))
    assert sum(batch.num_rows for batch in batches) == 5000
    assert max(batch.nbytes for batch in batches) <= 2**20
