"""Promise: SQL in a process of its own has the answers and errors of SQL in this one; what ends the
process ends one query."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.config.settings import MIB
from strandline.errors import Closed, Invalid, MemoryPressure, StrandlineError
from strandline.query.execute.interrupt import Interrupt
from strandline.query.sql.process_sandbox import ProcessSandbox, QueryProcesses
from strandline.query.sql.sql import sql, stream
from strandline.store import Store
from tests.unit.store.world import World


@pytest.fixture(scope="module")
def processes() -> Iterator[QueryProcesses]:
    processes = QueryProcesses(memory_max=128 * MIB, row_bytes_max=2 * MIB)
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def store() -> Store:
    store = World().store
    orders = store.topic("orders", schema={"price": "f64", "day": "string"})
    orders.append_many(
        [b'{"price": %d.5, "day": "d%d"}' % (n, n % 3) for n in range(30_000)],
        keys=[f"u{n % 7}" for n in range(30_000)],
    )
    store.kv("profiles").put_many({f"u{n}": f"name {n}".encode() for n in range(5)})
    store.metrics("usage").write("cpu", {"host": "a"}, {"load": 1.5}, at=1)
    return store


def ask(processes: QueryProcesses, store: Store, text: str, **options: Any) -> list[Any]:
    sandbox = processes.acquire(Interrupt())
    try:
        return sql(store, text, sandbox=sandbox, **options).tuples()
    finally:
        processes.release(sandbox)


def number_of(sandbox: ProcessSandbox) -> int:
    return sandbox._process._number


TEXTS = [
    "SELECT 1, 'ä', NULL, [1, 2], {'a': DATE '2020-01-01'}",
    "SELECT count(*), sum(price), min(ts) = max(ts) FROM orders WHERE seq > 100 AND price < 20000",
    "SELECT day, count(*) FROM orders GROUP BY day ORDER BY day",
    "SELECT p.text, count(*) n FROM orders o JOIN profiles p ON o.key = key_bytes GROUP BY 1",
    "SELECT seq FROM orders ORDER BY seq LIMIT 3",
    "SELECT (SELECT count(*) FROM orders), (SELECT max(seq) FROM log.orders WHERE key = 'u1')",
    "SELECT count(*) FROM orders a, (SELECT 1 FROM orders LIMIT 2) b WHERE a.seq BETWEEN 5 AND 9",
    'SELECT host, load FROM metrics."usage/cpu"',
    "SELECT count(*) FROM orders UNION ALL SELECT count(*) FROM profiles ORDER BY 1",
    "SELECT day::ENUM('d0', 'd1', 'd2') AS e FROM orders WHERE seq < 5 ORDER BY seq",
    "SELECT * FROM orders WHERE false",
    "DESCRIBE orders",
    "SELECT 'infinity'::DATE, '-infinity'::TIMESTAMP_S, 'infinity'::TIMESTAMPTZ",
]


@pytest.mark.parametrize("text", TEXTS)
def test_an_answer_is_the_same_as_in_this_process(processes, store, text):
    assert sorted(ask(processes, store, text), key=str) == sorted(
        sql(store, text).tuples(), key=str
    )


def test_parameters_positions_and_time_zones_cross_over(processes, store):
    options: dict[str, Any] = {
        "params": {"key": b"u1", "n": 2**60, "none": None, "list": [1.5]},
        "as_of": {"orders": 20},
        "timezone": "Europe/Berlin",
    }
    text = (
        "SELECT count(*), $n, $none IS NULL, $list, '2026-01-01 23:30:00Z'::TIMESTAMPTZ::DATE "
        "FROM orders WHERE key = $key"
    )

    assert ask(processes, store, text, **options) == sql(store, text, **options).tuples()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nosuch FROM orders",
        "SELECT summ(1)",
        "SELECT 'x'::INT FROM orders",
        "SELECT sum(tag) FROM orders",
        "SELEC 1",
        "SELECT 1; SELECT 2",
        "FROM nowhere",
        "SELECT $who",
    ],
)
def test_an_error_is_the_same_as_in_this_process(processes, store, text):
    with pytest.raises(Invalid) as here:
        sql(store, text)
    with pytest.raises(Invalid) as there:
        ask(processes, store, text)

    assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))


def test_what_fails_while_rows_are_read_here_is_raised_as_it_was(processes, store, monkeypatch):
    def broken(*_: object) -> Iterator[Any]:
        yield from ()
        raise Closed("the topic is gone")

    monkeypatch.setattr("strandline.query.sql.relations.topic.scan", broken)

    with pytest.raises(Closed, match="the topic is gone"):
        ask(processes, store, "SELECT count(key) FROM orders WHERE seq > 1")


def test_a_process_serves_one_query_after_the_other_and_keeps_nothing_of_them(processes, store):
    first = processes.acquire(Interrupt())
    sql(store, "SELECT * FROM orders LIMIT 1", sandbox=first)
    with pytest.raises(Invalid):
        sql(store, "SELECT nosuch FROM orders", sandbox=first)
    processes.release(first)
    second = processes.acquire(Interrupt())

    assert number_of(second) == number_of(first)
    with second.open_database() as room, pytest.raises(Exception, match="__relation_0"):
        room.query("FROM temp.__relation_0", None)
    with second.open_database() as room:
        assert room.query("SELECT * FROM duckdb_views() WHERE NOT internal", None).num_rows == 0
    processes.release(second)


def test_a_query_that_is_left_or_stopped_ends_its_process(processes, store):
    for leave in ("left", "stopped"):
        interrupt = Interrupt()
        sandbox = processes.acquire(interrupt)
        with stream(store, "SELECT * FROM orders, range(1000)", sandbox=sandbox) as rows:
            next(iter(rows))
            if leave == "stopped":
                interrupt.stop(Closed("enough"))
                with pytest.raises(Closed, match="enough"):
                    list(rows)
        processes.release(sandbox)
        another = processes.acquire(Interrupt())

        assert number_of(another) != number_of(sandbox)
        assert sql(store, "SELECT 1", sandbox=another).tuples() == [(1,)]
        processes.release(another)


def test_a_process_that_ends_is_an_error_of_its_query_alone(processes, store):
    sandbox = processes.acquire(Interrupt())
    os.kill(number_of(sandbox), signal.SIGKILL)

    with pytest.raises(MemoryPressure, match="at most 128 MiB"):
        sql(store, "SELECT 1", sandbox=sandbox)
    processes.release(sandbox)

    assert ask(processes, store, "SELECT 1") == [(1,)]


def test_a_template_that_ends_is_started_again(store):
    processes = QueryProcesses(memory_max=64 * MIB)
    try:
        assert ask(processes, store, "SELECT 1") == [(1,)]
        template = processes._template._process
        assert template is not None
        template.kill()
        template.wait()

        found: list[Any] = []
        while not found:  # a process that the template took with it is noticed when it is used
            try:
                found = ask(processes, store, "SELECT 2")
            except StrandlineError:
                continue
        assert found == [(2,)]
    finally:
        processes.close()


def test_rows_that_are_too_large_do_not_come_over(processes, store):
    with pytest.raises(Invalid, match="a row of the result is over"):
        ask(processes, store, "SELECT repeat('x', 5000000)")

    assert len(ask(processes, store, "SELECT repeat('x', 1000000) FROM range(20)")) == 20


def test_a_process_has_no_files_and_no_secrets_of_the_environment(processes, store):
    sandbox = processes.acquire(Interrupt())
    with sandbox.open_database() as room:
        for text in ("FROM read_text('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/x.csv'"):
            with pytest.raises(Exception, match=r"[Pp]ermission|disabled"):
                room.query(text, None)
    environment = Path(f"/proc/{number_of(sandbox)}/environ").read_text()
    processes.release(sandbox)

    assert {each.partition("=")[0] for each in environment.split("\0") if each} == {"PYTHONPATH"}
