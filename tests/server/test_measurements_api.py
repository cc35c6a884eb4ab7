"""Measurements over HTTP: writes in three forms, questions, rules; answers exact in Arrow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from strandline.api.metrics import MetricsResultHeader
from tests.server.asking import Asking, Refusal
from tests.server.running import Running, running

CPU = "/v0/measurements/telemetry"
ARROW = "application/vnd.apache.arrow.stream"
JSON = {"content-type": "application/json"}
BEGIN = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.metrics("telemetry")
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _write(http: Asking, host: str, load: float, second: int) -> int:
    point = {"measurement": "cpu", "tags": {"host": host}, "fields": {"load": load}}
    return http.post(f"{CPU}/write", {**point, "at_ns": BEGIN + second * SECOND})["first_seq"]


def test_points_come_in_three_forms_and_are_read_as_one(http: Asking) -> None:
    _write(http, "a", 1.5, 0)
    lines = f"cpu,host=a load=2.5 {BEGIN + SECOND}\ncpu,host=b load=3 {BEGIN}".encode()
    http.raw("POST", f"{CPU}/lines", lines, {"content-type": "application/x-line-protocol"})
    table = pa.table({"at": [BEGIN + 2 * SECOND], "host": ["a"], "load": [4.5]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    names = {"measurement": "cpu", "tags": "host"}
    http.raw("POST", f"{CPU}/table", sink.getvalue(), {"content-type": ARROW}, **names)

    found = http.post(f"{CPU}/read", {"measurement": "cpu", "tags": {"host": "a"}})

    assert found["series"] == [
        {
            "tags": {"host": "a"},
            "at_ns": [BEGIN, BEGIN + SECOND, BEGIN + 2 * SECOND],
            "values": [1.5, 2.5, 4.5],
        }
    ]


def test_lines_have_the_precision_that_is_said(http: Asking) -> None:
    line = f"cpu load=1 {BEGIN // SECOND}".encode()

    http.raw(
        "POST", f"{CPU}/lines", line, {"content-type": "application/x-line-protocol"}, precision="s"
    )
    empty = http.raw(
        "POST", f"{CPU}/lines", b"# none", {"content-type": "application/x-line-protocol"}
    )

    assert http.post(f"{CPU}/read", {"measurement": "cpu"})["series"][0]["at_ns"] == [BEGIN]
    assert msgspec.json.decode(empty.content)["first_seq"] == 0


def test_questions_are_answered_by_group_and_window(http: Asking) -> None:
    for second in range(4):
        _write(http, "a", second, second)
        _write(http, "b", 10 * second, second)

    asked = {"measurement": "cpu", "aggregate": "avg", "by": ["host"], "window": "2s"}
    by_host = http.post(f"{CPU}/aggregate", asked)
    text = f"cpu[{BEGIN}..{BEGIN + 10 * SECOND}] | sum"
    total = http.post(f"{CPU}/query", {"query": text})
    until = {"measurement": "cpu", "first_ns": BEGIN, "next_ns": BEGIN + SECOND}
    first = http.post(f"{CPU}/read", until)

    assert [each["tags"]["host"] for each in by_host["series"]] == ["a", "b"]
    assert by_host["series"][1]["values"] == [5.0, 25.0]
    assert total["series"][0]["values"] == [66.0]
    assert [each["values"] for each in first["series"]] == [[0.0], [0.0]]


def test_in_arrow_an_answer_is_exact(http: Asking) -> None:
    for number, value in enumerate((0.1, 1e300)):
        _write(http, "a", value, number)
    body = msgspec.json.encode({"measurement": "cpu"})

    answer = http.raw("POST", f"{CPU}/read", body, {**JSON, "accept": ARROW})

    table = pa.ipc.open_stream(answer.content).read_all()
    head = msgspec.json.decode(
        table.schema.metadata[b"strandline.answer"], type=MetricsResultHeader
    )
    assert (head.name, head.groups) == ("load", [{"host": "a"}])
    assert table.column("group").to_pylist() == [0, 0]
    assert table.column("at").to_pylist() == [BEGIN, BEGIN + SECOND]
    assert table.column("value").to_pylist() == [0.1, 1e300]


def test_what_there_is_can_be_asked_for(http: Asking) -> None:
    _write(http, "a", 1, 0)
    _write(http, "b", 1, 0)

    assert http.get(f"{CPU}/names")["measurements"] == ["cpu"]
    assert http.get(f"{CPU}/fields", measurement="cpu")["fields"] == {"load": "int64"}
    series = http.post(f"{CPU}/series", {"measurement": "cpu", "tags": {"host": "b"}})
    assert series["series"] == [{"host": "b"}]
    cardinality = http.get(f"{CPU}/cardinality")
    assert cardinality["measurements"]["cpu"] == {"series": 2, "fields": 1, "tags": {"host": 2}}
    assert http.get(CPU)["points"] == 2


def test_rules_are_set_listed_applied_and_taken_away(http: Asking) -> None:
    for second in range(4):
        _write(http, "a", second, second)
    rule = {"source": "cpu", "into": "cpu_2s", "window": "2s", "aggregates": ["max"]}

    http.post(f"{CPU}/downsample", rule)
    http.post(f"{CPU}/keep", {"measurement": "mem", "keep": "30d"})
    rules = http.get(f"{CPU}/rules")["rules"]
    http.post(f"{CPU}/rules/run")
    made = http.post(f"{CPU}/read", {"measurement": "cpu_2s"})
    http.post(f"{CPU}/stop_downsampling", {"into": "cpu_2s"})
    http.post(f"{CPU}/keep", {"measurement": "mem"})

    assert [rule["type"] for rule in rules] == ["downsample", "keep"]
    assert made["series"][0]["values"] == [1.0, 3.0]
    assert http.get(f"{CPU}/rules")["rules"] == []


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("write", {"measurement": "cpu", "fields": {}}),
        ("write", {"measurement": "cpu", "fields": {"load": "text"}}),
        ("write", {"measurement": "cpu", "fields": {"load": 1}, "at_ns": "nonsense"}),
        ("query", {"query": "cpu |"}),
        ("aggregate", {"measurement": "cpu", "aggregate": "nonsense"}),
        ("downsample", {"source": "cpu", "into": "cpu", "window": "1m"}),
        ("keep", {"measurement": "cpu", "keep": "-1s"}),
    ],
)
def test_what_is_wrong_is_refused(http: Asking, verb: str, body: object) -> None:
    _write(http, "a", 1, 0)

    with pytest.raises(Refusal) as refusal:
        http.post(f"{CPU}/{verb}", body)

    assert refusal.value.status == 400


def test_a_field_keeps_its_kind_and_a_bad_line_writes_nothing(http: Asking) -> None:
    lines = b"cpu load=1\ncpu load=x"

    with pytest.raises(Refusal) as refusal:
        http.raw("POST", f"{CPU}/lines", lines, {"content-type": "application/x-line-protocol"})

    assert refusal.value.status == 400
    assert http.get(f"{CPU}/names")["measurements"] == []


def test_rules_need_more_than_writing_does(tmp_path: Path) -> None:
    with running(tmp_path, tokens={"writer": "read,write:telemetry"}) as server:
        server.store.metrics("telemetry")
        with Asking(server, "writer") as http:
            _write(http, "a", 1, 0)
            with pytest.raises(Refusal) as refusal:
                http.post(f"{CPU}/keep", {"measurement": "cpu", "keep": "1d"})

    assert refusal.value.status == 403
