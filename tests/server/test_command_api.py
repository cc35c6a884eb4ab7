"""Commands over HTTP: done as an open store does them, allowed name by name before they run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pyarrow as pa
import pytest

import strandline
from tests.server.asking import Asking, Refusal
from tests.server.running import Running, running

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
VEGA = "application/vnd.vegalite.v5+json"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        _fill(server, "pay")
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _fill(server: Running, *events: str) -> None:
    for event in events:
        server.store.run(f"DEFINE {event} FIELDS {{amount: i64, at: datetime}}")
        for day in (1, 2):
            payload = f'{{"amount": {day}, "at": "2026-03-0{day}T10:00:00Z"}}'
            server.store.run(f"STORE {event} FOR ada PAYLOAD {payload}")


def _run(http: Asking, command: str) -> Any:
    return http.post("/v0/command", {"command": command})


def _as(http: Asking, command: str, accept: str) -> httpx2.Response:
    headers = {"content-type": "application/x-strandline-command", "accept": accept}
    return http.raw("POST", "/v0/command", command.encode(), headers)


def test_an_answer_has_columns_with_types_and_rows(http: Asking) -> None:
    found = _run(http, "QUERY pay WHERE amount = 2")

    names = [column["name"] for column in found["columns"]]
    row = dict(zip(names, found["rows"][0], strict=True))
    types = {column["name"]: column["type"] for column in found["columns"]}
    assert (row["amount"], row["context"]) == (2, "ada")
    assert row["at"] == "2026-03-02T10:00:00.000000Z"
    assert (types["amount"], types["at"]) == ("int64", "timestamp[us, tz=UTC]")
    assert found["message"] == "1 row"


def test_plain_text_is_a_command_too_and_an_answer_of_none_has_its_columns(http: Asking) -> None:
    pong = _as(http, "PING", "application/json")
    none = _run(http, "QUERY pay WHERE amount = 99")

    assert msgspec.json.decode(pong.content)["message"] == "PONG"
    assert none["rows"] == []
    assert "amount" in [column["name"] for column in none["columns"]]


def test_lines_tell_the_schema_rows_and_the_end(http: Asking) -> None:
    answer = _as(http, "QUERY pay RETURN [amount]", NDJSON)

    schema, rows, end = (msgspec.json.decode(line) for line in answer.content.splitlines())
    assert schema["type"] == "schema"
    assert [column["name"] for column in schema["columns"]] == ["amount"]
    assert sorted(rows["rows"]) == [[1], [2]]
    assert (end["type"], end["row_count"], end["message"]) == ("end", 2, "2 rows")


def test_arrow_is_exact_and_has_the_message(http: Asking) -> None:
    answer = _as(http, "QUERY pay TOTAL amount", ARROW)

    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.column("total_amount").to_pylist() == [3]
    assert table.schema.metadata[b"strandline.message"] == b"1 row"


def test_a_plot_is_a_specification_a_picture_or_points(http: Asking) -> None:
    command = "PLOT TOTAL(amount) OF pay OVER day(at)"

    spec = _as(http, command, VEGA)
    png = _as(http, command, "image/png")
    points = _run(http, command)
    arrow = pa.ipc.open_stream(_as(http, command, ARROW).content).read_all()

    assert msgspec.json.decode(spec.content)["mark"]
    assert png.content.startswith(b"\x89PNG")
    assert points["chart"]["$schema"].startswith("https://vega")
    assert len(points["rows"]) == 2
    assert msgspec.json.decode(arrow.schema.metadata[b"strandline.chart"]) == points["chart"]
    with pytest.raises(Refusal) as refusal:
        _as(http, "QUERY pay", VEGA)
    assert refusal.value.status == 400


def test_every_kind_of_command_can_be_given(http: Asking) -> None:
    assert "version 1" in _run(http, "DEFINE view FIELDS {page: string}")["message"]
    assert _run(http, 'STORE view FOR ada PAYLOAD {"page": "/"}')["rows"][0][0] == "view"
    assert len(_run(http, "REPLAY FOR ada")["rows"]) == 3
    assert "rows" in _run(http, "EXPLAIN QUERY pay")["message"]
    assert _run(http, "REMEMBER QUERY pay AS all_pays")["rows"] == [["all_pays", 2]]
    assert len(_run(http, "SHOW all_pays")["rows"]) == 2
    assert _run(http, "BATCH [ PING; FLUSH ]")["message"] == "2 commands done"
    assert _run(http, "DELETE pay WHERE amount = 1")["rows"] == [[1]]
    assert "forgotten" in _run(http, "FORGET all_pays")["message"]


BATCH = "BATCH [ QUERY pay RETURN [amount]; CREATE USER dora; PING ]"


def test_a_batch_has_the_result_of_every_command_in_every_format(guarded: Running) -> None:
    with Asking(guarded, "owner") as http:
        found = _run(http, BATCH.replace("pay", "eu.pay"))
        lines = _as(http, BATCH.replace("pay", "eu.pay").replace("dora", "emil"), NDJSON)
        arrow = _as(http, BATCH.replace("pay", "eu.pay").replace("dora", "fred"), ARROW)

    query, user, pong = found["results"]
    assert [column["name"] for column in query["columns"]] == ["amount"]
    assert sorted(query["rows"]) == [[1], [2]]
    assert user["rows"][0][0] == "dora"
    assert len(user["rows"][0][1]) == 64
    assert pong == {"columns": [], "rows": [], "message": "PONG"}
    told = [msgspec.json.decode(line) for line in lines.content.splitlines()]
    kinds = [(line["type"], line.get("index")) for line in told]
    result_kinds = [("result", 0), ("result_batch", 0), ("result", 1), ("result_batch", 1)]
    head = [("schema", None), ("batch", None)]
    assert kinds == [*head, *result_kinds, ("result", 2), ("end", None)]
    messages = told[2]["message"], told[5]["rows"][0][0], told[6]["message"]
    assert messages == ("2 rows", "emil", "PONG")
    assert told[-1]["row_count"] == 3
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.column_names == ["command", "message", "result_arrow"]
    inner = pa.ipc.open_stream(table["result_arrow"][1].as_py()).read_all()
    assert inner.to_pylist()[0]["user"] == "fred"
    assert inner.schema.metadata[b"strandline.message"].startswith(b"user fred is created")


def test_a_batch_that_fails_tells_what_it_did(guarded: Running) -> None:
    command = "BATCH [ CREATE USER dora; QUERY nothing; PING ]"
    with Asking(guarded, "owner") as http, pytest.raises(Refusal) as refusal:
        _run(http, command)

    (user,) = refusal.value.detail["results"]
    assert (refusal.value.status, user["rows"][0][0]) == (400, "dora")
    with strandline.connect(guarded.url, token=guarded.tokens["owner"]) as store:
        with pytest.raises(strandline.Invalid) as refused:
            store.run(command.replace("dora", "emil"))
        assert refused.value.results[0].rows()[0]["user"] == "emil"
    records = guarded.store.topic("strandline.audit").read(0, 100).records
    noted = [record.data for record in records if b"CreateUser" in record.data]
    assert len(noted) == 2
    assert b"dora" in noted[0]
    assert b"emil" in noted[1]


def test_a_chart_of_what_has_none_is_refused_before_anything_runs(guarded: Running) -> None:
    with Asking(guarded, "owner") as http:
        with pytest.raises(Refusal) as refusal:
            _as(http, "CREATE USER dora", VEGA)
        listed = _run(http, "LIST USERS")["rows"]

    assert refusal.value.status == 400
    assert listed == []


def test_a_mistake_shows_the_place(http: Asking) -> None:
    with pytest.raises(Refusal) as refusal:
        _run(http, "QUERY pay WHERE amuont = 1")

    assert (refusal.value.status, refusal.value.kind) == (400, "invalid")
    assert "did you mean 'amount'?" in refusal.value.message


def test_changes_of_a_remembered_query_are_followed(server: Running, http: Asking) -> None:
    _run(http, "REMEMBER QUERY pay RETURN [amount] AS amounts")

    with http.events("/v0/remembered/amounts/follow") as events:
        first = next(events)
        server.store.run('STORE pay FOR bob PAYLOAD {"amount": 9, "at": "2026-03-03"}')
        second = next(events)
    with (
        Asking(server) as other,
        other.events("/v0/remembered/amounts/follow", after=first.data["cursor"]) as events,
    ):
        resumed = next(events)

    assert sorted(_added(first)) == [1, 2]
    assert _added(second) == _added(resumed) == [9]
    listed = http.get("/v0/remembered")["remembered"]
    assert [each["alias"] for each in listed] == ["amounts"]
    assert http.get("/v0/remembered/amounts")["query"] == "QUERY pay RETURN [amount]"


def _added(event: Any) -> list[int]:
    encoded = msgspec.convert(event.data["added_arrow"], bytes)
    amounts: list[int] = pa.ipc.open_stream(encoded).read_all().column("amount").to_pylist()
    return amounts


TOKENS = {
    "reader": "read:eu.*",
    "writer": "write:eu.*",
    "definer": "create,config:eu.*",
    "deleter": "delete:eu.*",
    "keeper": "read:eu.*;create,delete:remembered:*",
    "clerk": "tokens",
    "all": "read,write,delete,create,config",
    "owner": "all",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, tokens=TOKENS) as server:
        _fill(server, "eu.pay", "us.pay")
        server.store.run("REMEMBER QUERY us.pay AS us_pays")
        server.store.run("REMEMBER QUERY eu.pay AS eu_pays")
        yield server


ALLOWED = [
    ("reader", "QUERY eu.pay"),
    ("reader", "EXPLAIN QUERY eu.pay"),
    ("reader", "REPLAY eu.pay FOR ada"),
    ("reader", "PLOT COUNT OF eu.pay"),
    ("reader", "SHOW eu_pays"),
    ("reader", "PING"),
    ("writer", 'STORE eu.pay FOR ada PAYLOAD {"amount": 1, "at": "2026-03-01"}'),
    ("definer", "DEFINE eu.new FIELDS {a: i64}"),
    ("deleter", "DELETE eu.pay WHERE amount = 1"),
    ("keeper", "REMEMBER QUERY eu.pay AS mine"),
    ("keeper", "FORGET eu_pays"),
    ("clerk", "LIST USERS"),
    ("all", "REPLAY FOR ada"),
    ("all", "FLUSH"),
    ("owner", "CREATE USER eve"),
    ("owner", "GRANT READ ON eu.pay TO eve"),
    ("clerk", "SHOW PERMISSIONS FOR eve"),
]

REFUSED = [
    ("reader", "QUERY us.pay"),
    ("reader", "QUERY us.nothing"),
    ("reader", "QUERY eu.pay FOLLOWED BY us.pay"),
    ("reader", "EXPLAIN QUERY us.pay"),
    ("reader", "REPLAY us.pay FOR ada"),
    ("reader", "REPLAY FOR ada"),
    ("reader", "PLOT COUNT OF eu.pay VS COUNT OF us.pay"),
    ("reader", "PLOT COUNT OF eu.pay THEN us.pay"),
    ("reader", "SHOW us_pays"),
    ("reader", "REMEMBER QUERY eu.pay AS mine"),
    ("reader", "FORGET eu_pays"),
    ("reader", "FLUSH"),
    ("reader", 'STORE eu.pay FOR ada PAYLOAD {"amount": 1, "at": "2026-03-01"}'),
    ("reader", "DEFINE eu.new FIELDS {a: i64}"),
    ("reader", "DELETE eu.pay"),
    ("reader", "LIST USERS"),
    ("reader", "CREATE USER eve"),
    ("reader", "GRANT READ ON us.pay TO eve"),
    ("reader", "REVOKE KEY eve"),
    ("reader", "SHOW PERMISSIONS FOR eve"),
    ("reader", "BATCH [ PING; QUERY us.pay ]"),
    ("writer", "QUERY eu.pay"),
    ("writer", 'STORE us.pay FOR ada PAYLOAD {"amount": 1, "at": "2026-03-01"}'),
    ("definer", "DEFINE us.new FIELDS {a: i64}"),
    ("deleter", "DELETE us.pay"),
    ("keeper", "REMEMBER QUERY us.pay AS mine"),
    ("keeper", "FORGET us_pays"),
    ("all", "LIST USERS"),
    ("all", "CREATE USER eve"),
    ("clerk", "CREATE USER eve"),
    ("clerk", "GRANT READ ON us.pay TO eve"),
    ("clerk", "REVOKE KEY eve"),
]


def test_what_is_allowed_is_done(guarded: Running) -> None:
    for token, command in ALLOWED:
        with Asking(guarded, token) as http:
            assert _run(http, command)["message"], command


def test_what_is_not_allowed_is_refused_before_it_runs(guarded: Running) -> None:
    store = guarded.store
    before = {name: store.topic(name).head_seq for name in ("eu.pay", "us.pay")}

    for token, command in REFUSED:
        with Asking(guarded, token) as http, pytest.raises(Refusal) as refusal:
            _run(http, command)
        assert refusal.value.status == 403, command

    assert {name: store.topic(name).head_seq for name in before} == before
    assert "us.new" not in store.topics()


def test_no_error_or_list_tells_a_name_that_may_not_be_read(guarded: Running) -> None:
    guarded.store.run("DEFINE eu.secret_x FIELDS {a: i64}")
    asked = ["QUERY eu.pya", "QUERY eu.secret", "SHOW us_pay", "SHOW nothing"]
    told = []
    with Asking(guarded, "reader") as http:
        for command in asked:
            with pytest.raises(Refusal) as refusal:
                _run(http, command)
            told.append(refusal.value)
        listed = http.get("/v0/remembered")["remembered"]
        with pytest.raises(Refusal) as described:
            http.get("/v0/remembered/us_pays")
        with pytest.raises(Refusal) as followed, http.events("/v0/remembered/us_pays/follow"):
            pass

    assert [each.status for each in told] == [400, 400, 404, 404]
    assert "eu.pay" in told[0].message
    assert not any("us.pay" in each.message or "us_pays" in each.message for each in told)
    assert [each["alias"] for each in listed] == ["eu_pays"]
    assert (described.value.status, followed.value.status) == (403, 403)


def test_what_changes_rights_or_data_is_put_on_record_without_its_text(guarded: Running) -> None:
    with Asking(guarded, "owner") as http:
        _run(http, 'CREATE USER eve WITH KEY "a long secret"')
        _run(http, "BATCH [ DEFINE eu.new FIELDS {a: i64}; PING ]")
        _run(http, "DELETE eu.pay WHERE amount = 1")
        _run(http, "QUERY eu.pay")

    records = guarded.store.topic("strandline.audit").read(0, 100).records
    told = b"\n".join(record.data for record in records)
    assert all(name in told for name in (b"CreateUser", b"Define", b"DeleteEvents", b"eu.new"))
    assert b"Query" not in told
    assert b"secret" not in told


def test_a_hint_at_a_hidden_name_is_left_out(tmp_path: Path) -> None:
    with running(tmp_path, tokens={"reader": "read:eu.*;deny read:eu.pay"}) as server:
        _fill(server, "eu.pay")
        with Asking(server, "reader") as http, pytest.raises(Refusal) as refusal:
            _run(http, "QUERY eu.pya")

    assert refusal.value.status == 400
    assert "eu.pay" not in refusal.value.message


def test_without_a_token_nothing_is_done(guarded: Running) -> None:
    with Asking(guarded) as http:
        for path, body in (
            ("/v0/command", {"command": "PING"}),
            ("/v0/sql", {"sql": "select 1"}),
        ):
            with pytest.raises(Refusal) as refusal:
                http.post(path, body)
            assert refusal.value.status == 401
        for path in ("/v0/views", "/v0/remembered"):
            with pytest.raises(Refusal) as refusal:
                http.get(path)
            assert refusal.value.status == 401
