"""SQL over HTTP: one SELECT over what one may read, as JSON, lines or Arrow, however long."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pyarrow as pa
import pytest

from tests.server.asking import Asking, Refusal
from tests.server.running import Running, running

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.topic("orders").append_many([b"1", b"2", b"3"], keys=[b"a", b"b", b"a"])
        server.store.kv("profiles").put("ada", b"pro")
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _sql(http: Asking, sql: str, **rest: object) -> list[list[Any]]:
    rows: list[list[Any]] = http.post("/v0/sql", {"sql": sql, **rest})["rows"]
    return rows


def _as(http: Asking, sql: str, accept: str) -> httpx2.Response:
    headers = {"content-type": "application/json", "accept": accept}
    return http.raw("POST", "/v0/sql", msgspec.json.encode({"sql": sql}), headers)


def test_topics_and_views_are_asked_at_one_moment(http: Asking) -> None:
    found = http.post("/v0/sql", {"sql": "select count(*) n, max(seq) m from log.orders"})

    assert found["rows"] == [[3, 3]]
    assert found["columns"][0] == {"name": "n", "type": "int64"}
    assert _sql(http, "select count(*) from kv.profiles") == [[1]]


def test_values_that_do_not_fit_are_told_in_every_format(server: Running, http: Asking) -> None:
    topic = server.store.topic("sales", schema={"price": "f64"})
    topic.append_many([b'{"price": "free"}', b'{"price": 2}'])
    ask = "select sum(price) s from sales"
    told = ['1 value of sales.price is not f64 and is null here: "free" of seq 1']

    found = http.post("/v0/sql", {"sql": ask})
    end = msgspec.json.decode(_as(http, ask, NDJSON).content.splitlines()[-1])
    reader = pa.ipc.open_stream(_as(http, ask, ARROW).content)
    batches = list(reader.iter_batches_with_custom_metadata())

    assert (found["rows"], found["notes"]) == ([[2.0]], told)
    assert (end["row_count"], end["notes"]) == (1, told)
    assert [len(batch) for batch, _ in batches] == [1, 0]
    assert msgspec.json.decode(batches[-1][1][b"strandline.notes"]) == told
    assert "notes" not in http.post("/v0/sql", {"sql": "select count(*) from sales"})


def test_plain_text_is_sql_too(http: Asking) -> None:
    answer = http.raw("POST", "/v0/sql", b"select 1 + 1", {"content-type": "application/sql"})

    assert msgspec.json.decode(answer.content)["rows"] == [[2]]


def test_values_are_told_as_json_has_them(http: Asking) -> None:
    (row,) = _sql(
        http,
        """select 9007199254740993::bigint, 170141183460469231731687303715884105727::hugeint,
        '\\xFF'::blob, timestamp '2026-01-02 03:04:05', date '2026-01-02', 1.5::decimal(4,2),
        'nan'::double, [1, 2], {'a': null}, timestamptz '2026-01-02 03:04:05+00'""",
    )

    assert row[:2] == [9007199254740993, "170141183460469231731687303715884105727"]
    assert row[2] == base64.b64encode(b"\xff").decode()
    assert row[3:5] == ["2026-01-02T03:04:05.000000", "2026-01-02"]
    assert row[5:9] == ["1.50", None, [1, 2], {"a": None}]
    assert row[9] == "2026-01-02T03:04:05.000000Z"


def test_parameters_are_values_and_never_text_of_the_question(http: Asking) -> None:
    by_name = _sql(http, "select count(*) from log.orders where key = $k", params={"k": "a"})
    by_place = _sql(
        http,
        "select ?::blob, ?::timestamptz > '2020-01-01'",
        params=[
            {"$base64": "/w=="},
            {"$time": "2026-01-01T00:00:00Z"},
        ],
    )

    assert by_name == [[2]]
    assert by_place == [["/w==", True]]
    with pytest.raises(Refusal) as refusal:
        _sql(http, "select ?", params=[{"$time": "nonsense"}])
    assert refusal.value.status == 400


def test_the_past_can_be_asked(server: Running, http: Asking) -> None:
    ts = server.store.topic("orders").read(0, 2).records[1].ts
    server.store.topic("orders").append(b"4")

    by_seq = _sql(http, "select count(*) from log.orders", as_of={"orders": 2})
    by_time = _sql(http, "select count(*) from log.orders", as_of="2020-01-01T00:00:00Z")

    assert ts > 0
    assert (by_seq, by_time) == ([[2]], [[0]])
    with pytest.raises(Refusal) as refusal:
        _sql(http, "select count(*) from log.orders", as_of={"orders": 99})
    assert refusal.value.status == 400


def test_long_answers_come_piece_by_piece(http: Asking) -> None:
    sql = "select range i, 'row ' || range t from range(30000)"

    arrow = pa.ipc.open_stream(_as(http, sql, ARROW).content).read_all()
    lines = [msgspec.json.decode(line) for line in _as(http, sql, NDJSON).content.splitlines()]
    rows = _sql(http, sql)

    assert arrow.column("i").to_pylist() == list(range(30000))
    assert [row[0] for line in lines[1:-1] for row in line["rows"]] == list(range(30000))
    assert lines[-1]["row_count"] == 30000
    assert len(lines) > 10
    assert rows[-1] == [29999, "row 29999"]


def test_an_error_on_the_way_is_the_last_line_or_a_stream_without_end(http: Asking) -> None:
    sql = (
        "select case when range < 29000 then 1 else cast('x' || range as int) end from range(30000)"
    )

    lines = [msgspec.json.decode(line) for line in _as(http, sql, NDJSON).content.splitlines()]
    with pytest.raises(Refusal) as whole:
        _sql(http, sql)

    assert lines[-1]["type"] == "error"
    assert lines[-1]["error"]["code"] == "invalid_request"
    assert whole.value.status == 400


def test_a_client_that_goes_leaves_nothing_behind(server: Running, http: Asking) -> None:
    headers = {"content-type": "application/json", "accept": NDJSON}
    body = msgspec.json.encode({"sql": "select range from range(100000000)"})
    with http._client.stream("POST", "/v0/sql", content=body, headers=headers) as answer:
        next(answer.iter_bytes())

    with Asking(server) as other:
        for _ in range(5):  # more than there are threads for slow work
            assert _sql(other, "select 1") == [[1]]


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "selec 1",
        "select * from nothing",
        "select nothing from log.orders",
        "insert into log.orders values (1)",
        "select 1; select 2",
        "copy (select 1) to '/tmp/x'",
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "attach '/tmp/x.db'",
        "pragma database_list",
    ],
)
def test_what_is_no_question_is_refused(http: Asking, sql: str) -> None:
    with pytest.raises(Refusal) as refusal:
        _sql(http, sql)

    assert refusal.value.status == 400


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    tokens = {"reader": "read:eu.*", "writer": "write:eu.*", "admin": "read,admin"}
    with running(tmp_path, tokens=tokens) as server:
        for name in ("eu.orders", "us.orders"):
            server.store.topic(name).append(b"1")
            server.store.queue(f"{name}-jobs").put(b"1")
            server.store.metrics(f"{name}-load").write("cpu", {}, {"load": 1.0})
        server.store.run("DEFINE us.pay FIELDS {a: i64}")
        server.store.run("REMEMBER QUERY us.pay AS us_pays")
        yield server


def test_every_relation_of_a_question_must_be_allowed(guarded: Running) -> None:
    refused = [
        'select * from "us.orders"',
        'select * from "US.ORDERS"',
        'select * from "us.nothing"',
        'select * from log."us.orders"',
        'select * from "eu.orders" e join "us.orders" u using (seq)',
        'select (select count(*) from "us.orders")',
        'with x as (select * from "us.orders") select * from x',
        'select 1 where exists (from "us.orders")',
        'from "eu.orders" union all from "us.orders"',
        'select * from queue."us.orders-jobs"',
        'select * from dead."us.orders-jobs"',
        'select * from metrics."us.orders-load/cpu"',
        'describe "us.orders"',
        'select * from log."us.orders-jobs:leases"',
        'select * from log."strandline.tokens"',
        "select * from remembered.us_pays",
    ]
    with Asking(guarded, "reader") as http:
        for sql in refused:
            with pytest.raises(Refusal) as refusal:
                _sql(http, sql)
            assert refusal.value.status == 403, sql
        allowed = [
            'select * from "eu.orders"',
            'select * from "EU.ORDERS"',
            'select * from queue."eu.orders-jobs"',
            'select * from dead."eu.orders-jobs"',
            'select * from metrics."eu.orders-load/cpu"',
            'with "us.orders" as (select 1) select * from "us.orders"',
            "select 1",
        ]
        answers = [_sql(http, sql) for sql in allowed]
    with Asking(guarded, "writer") as http, pytest.raises(Refusal) as no_reader:
        _sql(http, 'select * from "eu.orders"')

    assert [len(answer) for answer in answers] == [1, 1, 1, 0, 1, 1, 1]
    assert no_reader.value.status == 403


def test_no_error_tells_of_a_relation_that_may_not_be_read(guarded: Running) -> None:
    with Asking(guarded, "reader") as http:
        told = []
        for sql in (
            'select * from "eu.ordres"',
            "select * from kv.nothing",
            "select x.y.z from w.x",
        ):
            with pytest.raises(Refusal) as refusal:
                _sql(http, sql)
            told.append(refusal.value.message)

    assert not any("us." in each for each in told)


def test_an_admin_may_look_at_the_servers_own(guarded: Running) -> None:
    with Asking(guarded, "admin") as http:
        assert _sql(http, 'select count(*) > 0 from log."strandline.tokens"') == [[True]]
