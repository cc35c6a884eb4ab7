"""Event tables over HTTP: defined, filled in three forms, read in Arrow, deleted from."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.server.asking import Asking, Refusal
from tests.server.running import Running, running

PAY = "/v0/tables/pay"
ARROW = "application/vnd.apache.arrow.stream"
JSON = {"content-type": "application/json"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        http.put(PAY, {"fields": {"amount": "i64", "plan": "string | null"}})
        yield http


def _rows(http: Asking, **asked: object) -> list[dict[str, object]]:
    body = msgspec.json.encode(asked)
    answer = http.raw("POST", f"{PAY}/rows", body, {**JSON, "accept": ARROW})
    return pa.ipc.open_stream(answer.content).read_all().to_pylist()


def test_a_table_is_defined_and_gets_compatible_versions(http: Asking) -> None:
    wider = {"amount": "i64", "plan": "string | null", "note": "string | null"}

    second = http.put(PAY, {"fields": wider, "version": 2})
    with pytest.raises(Refusal) as narrower:
        http.put(PAY, {"fields": {"amount": "i64"}})
    with pytest.raises(Refusal) as not_new:
        http.put(PAY, {"fields": wider, "new": True})

    assert second["version"] == 2
    assert http.get(f"{PAY}/schema")["fields"] == wider
    assert (narrower.value.status, not_new.value.status) == (400, 400)


def test_fields_may_have_the_names_of_system_columns(http: Asking) -> None:
    odd = {"seq": 7, "context": "mine", "key": "k", "größe": 1.5}
    fields = {"seq": "u64", "context": "string", "key": "string", "größe": "f64"}
    http.put(f"{PAY}s", {"fields": fields})
    http.post(f"{PAY}s/store", {"context": "ada", "event": odd})
    table = pa.table({"__context": ["bob"]} | {name: [value] for name, value in odd.items()})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    http.raw("POST", f"{PAY}s/store_many", sink.getvalue(), {"content-type": ARROW})

    def rows(**asked: object) -> list[dict[str, object]]:
        body = msgspec.json.encode(asked)
        answer = http.raw("POST", f"{PAY}s/rows", body, {**JSON, "accept": ARROW})
        return pa.ipc.open_stream(answer.content).read_all().to_pylist()

    found = sorted(rows(), key=lambda row: row["__seq"])
    assert [(row["__seq"], row["__context"]) for row in found] == [(2, "ada"), (3, "bob")]
    assert [{name: row[name] for name in odd} for row in found] == [odd, odd]
    own = {"type": "compare", "field": "seq", "op": "=", "value": 7}
    system = own | {"field": "__seq", "value": 3}
    assert len(rows(columns=["größe"], condition=own)) == 2
    assert http.post(f"{PAY}s/delete", {"condition": system})["deleted"] == 1
    assert [row["__seq"] for row in rows()] == [2]
    with pytest.raises(Refusal):
        http.put(f"{PAY}s", {"fields": {"__seq": "u64"}})


def test_events_come_as_json_ndjson_and_arrow(http: Asking) -> None:
    http.post(f"{PAY}/store", {"context": "ada", "event": {"amount": 1}})
    many = {"contexts": ["ada", "bob"], "events": [{"amount": 2}, {"amount": 3, "plan": "pro"}]}
    done = http.post(f"{PAY}/store_many", many)
    lines = b'{"context":"eve","event":{"amount":4}}\n\n{"context":"eve","event":{"amount":5}}\n'
    http.raw("POST", f"{PAY}/store_many", lines, {"content-type": "application/x-ndjson"})
    table = pa.table({"context": ["kim"], "amount": [6], "plan": pa.array([None], pa.string())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    http.raw("POST", f"{PAY}/store_many", sink.getvalue(), {"content-type": ARROW})

    rows = sorted(_rows(http), key=lambda row: row["amount"])

    assert done["last_seq"] == done["first_seq"] + 1
    assert [(row["context"], row["amount"], row["plan"]) for row in rows] == [
        ("ada", 1, None),
        ("ada", 2, None),
        ("bob", 3, "pro"),
        ("eve", 4, None),
        ("eve", 5, None),
        ("kim", 6, None),
    ]


def test_one_event_that_does_not_fit_refuses_all(http: Asking) -> None:
    events = {"contexts": "ada", "events": [{"amount": 1}, {"amount": "much"}]}

    with pytest.raises(Refusal) as refusal:
        http.post(f"{PAY}/store_many", events)
    with pytest.raises(Refusal):
        http.post(f"{PAY}/check", {"event": {"amount": "much"}})

    assert refusal.value.status == 400
    assert _rows(http) == []
    assert http.post(f"{PAY}/check", {"event": {"amount": 1}})["fits"] is True


def test_rows_are_read_by_columns_condition_and_seq(http: Asking) -> None:
    events = [{"amount": number} for number in range(5)]
    first = http.post(f"{PAY}/store_many", {"contexts": "ada", "events": events})["first_seq"]

    where = {"type": "compare", "field": "amount", "op": ">=", "value": 3}
    columns = _rows(http, columns=["amount"], condition=where)
    past = _rows(http, columns=["amount"], as_of=first + 1)

    assert {"amount": 4} in columns
    assert [row["amount"] for row in past] == [0, 1]
    with pytest.raises(Refusal) as refusal:
        _rows(http, columns=["nothing"])
    assert refusal.value.status == 400


def test_rows_are_deleted_by_words_by_condition_or_all(http: Asking) -> None:
    events = [{"amount": number} for number in range(6)]
    http.post(f"{PAY}/store_many", {"contexts": ["a", "b"] * 3, "events": events})

    by_words = http.post(f"{PAY}/delete", {"where": "amount >= 4", "context": "a"})
    less = {"type": "compare", "field": "amount", "op": "<", "value": 2}
    by_condition = http.post(f"{PAY}/delete", {"condition": less})

    assert (by_words["deleted"], by_condition["deleted"]) == (1, 2)
    assert sorted(row["amount"] for row in _rows(http)) == [2, 3, 5]
    for wrong in ({}, {"where": "amount >= 4; PING"}, {"where": "nothing = 1"}):
        with pytest.raises(Refusal) as refusal:
            http.post(f"{PAY}/delete", wrong)
        assert refusal.value.status == 400
    assert http.post(f"{PAY}/delete", {"all": True})["deleted"] == 3


def test_a_table_is_flushed_and_compacted_and_tells_its_numbers(http: Asking) -> None:
    http.post(f"{PAY}/store", {"context": "ada", "event": {"amount": 1}})

    http.post(f"{PAY}/flush")
    http.post(f"{PAY}/compact")

    state = http.get(PAY)
    assert (state["rows"], state["files"], state["schema_version"]) == (1, 1, 1)


def test_defining_storing_reading_and_deleting_are_rights_of_their_own(tmp_path: Path) -> None:
    tokens = {"definer": "create,config:pay", "storer": "write:pay", "reader": "read:pay"}
    fields = {"fields": {"amount": "i64"}}
    event = {"context": "ada", "event": {"amount": 1}}
    with running(tmp_path, tokens=tokens) as server:
        with Asking(server, "definer") as definer:
            definer.put(PAY, fields)
            assert _status(definer, "POST", f"{PAY}/store", event) == 403
        with Asking(server, "storer") as storer:
            storer.post(f"{PAY}/store", event)
            assert _status(storer, "PUT", PAY, fields) == 403
            assert _status(storer, "POST", f"{PAY}/delete", {"all": True}) == 403
            assert _status(storer, "GET", PAY, None) == 403
        with Asking(server, "reader") as reader:
            assert len(_rows(reader)) == 1
            assert _status(reader, "POST", f"{PAY}/store", event) == 403


def _status(http: Asking, method: str, path: str, body: object) -> int:
    with pytest.raises(Refusal) as refusal:
        http.send(method, path, body)
    return refusal.value.status
