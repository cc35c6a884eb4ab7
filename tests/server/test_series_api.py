"""Series over HTTP: every verb, sources and payloads exact to the byte, many points in Arrow."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.server.asking import Asking, Refusal
from tests.server.running import Running, running

GPS = "/v0/series/gps"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.series("gps", jitter=10)
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _append(http: Asking, *points: tuple[str | int, int, Any], version: int = 0) -> Any:
    told = [{"source": source, "at": at, "payload": payload} for source, at, payload in points]
    return http.post(f"{GPS}/append", {"points": told, "version": version})


def _ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _arrow(http: Asking, path: str, body: object) -> pa.Table:
    headers = {"content-type": "application/json", "accept": ARROW}
    answer = http.raw("POST", path, msgspec.json.encode(body), headers)
    assert answer.headers["content-type"] == ARROW
    return pa.ipc.open_stream(answer.content).read_all()


def test_points_come_back_by_source_in_order_of_their_time(http: Asking) -> None:
    done = _append(http, ("bus", 20, {"x": 2}), ("bus", 10, {"x": 1}), (17, 5, "t"), version=3)

    found = http.post(f"{GPS}/range", {"sources": [{"source": "bus"}, {"source": 17}]})["sources"]
    every = http.post(f"{GPS}/range", {"start": 10, "end": 20, "limit": 1})["sources"]

    assert (done["first_seq"], done["last_seq"]) == (1, 3)
    assert [each["source"] for each in found] == ["bus", "17"]
    assert [(p["at"], p["payload"], p["version"]) for p in found[0]["points"]] == [
        (10, {"x": 1}, 3),
        (20, {"x": 2}, 3),
    ]
    assert [(each["source"], len(each["points"])) for each in every] == [("bus", 1)]


def test_any_bytes_may_be_source_and_payload(server: Running, http: Asking) -> None:
    name = base64.b64encode(b"\xff\x00").decode()
    point = {"source_base64": name, "at": -(2**63), "payload_base64": name}

    http.post(f"{GPS}/append", {"points": [point]})
    (found,) = http.post(f"{GPS}/range", {"sources": [{"source_base64": name}]})["sources"]

    assert server.store.series("gps").range(b"\xff\x00")[0].payload == b"\xff\x00"
    assert found["source_base64"] == name
    assert found["points"][0]["payload_base64"] == name
    assert found["points"][0]["at"] == -(2**63)


def test_many_points_travel_in_arrow_both_ways(http: Asking) -> None:
    count = 20_000
    table = pa.table(
        {
            "source": pa.array([b"a", b"b"] * (count // 2), pa.binary()),
            "at": pa.array(range(count), pa.int64()),
            "payload": pa.array([b"\x00%d" % each for each in range(count)], pa.binary()),
        }
    )
    http.raw("POST", f"{GPS}/append", _ipc(table), {"content-type": ARROW}, version=7)

    found = _arrow(http, f"{GPS}/range", {})
    visited = _arrow(http, f"{GPS}/visit", {"sources": [{"source": "b"}], "limit": 9000})

    assert found.num_rows == count
    assert found.column("payload")[1].as_py() == b"\x002"
    assert set(found.column("version").to_pylist()) == {7}
    assert found.column("source").to_pylist() == [b"a"] * (count // 2) + [b"b"] * (count // 2)
    assert visited.column("at").to_pylist() == list(range(1, 18_000, 2))


def test_points_are_visited_line_by_line(http: Asking) -> None:
    _append(http, ("b", 1, 1), ("a", 2, 2))
    headers = {"content-type": "application/json"}

    lines = http.raw("POST", f"{GPS}/visit", b"{}", headers).text.splitlines()

    points = [msgspec.json.decode(line) for line in lines]
    assert [(point["source"], point["at"], point["payload"]) for point in points] == [
        ("a", 2, 2),
        ("b", 1, 1),
    ]


def test_a_window_begins_with_the_first_point_there_is(http: Asking) -> None:
    _append(http, ("a", 100, 1), ("a", 105, 2), ("a", 200, 3))

    ask = {"sources": [{"source": "a"}], "start": 7, "window": 10}
    found = http.post(f"{GPS}/window", ask)
    nothing = http.post(f"{GPS}/window", {**ask, "start": 1000})

    assert found["end"] == 110
    assert [point["payload"] for point in found["sources"][0]["points"]] == [1, 2]
    assert "end" not in nothing


def test_newest_and_earliest_are_told(http: Asking) -> None:
    _append(http, ("a", 1, 1), ("a", 9, 2), ("b", 5, 3))

    one = http.post(f"{GPS}/latest", {"source": "a"})["sources"]
    every = http.post(f"{GPS}/latest", {})["sources"]

    assert one[0]["points"][0]["payload"] == 2
    assert [each["source"] for each in every] == ["a", "b"]
    assert http.post(f"{GPS}/latest", {"source": "x"})["sources"] == []
    assert http.post(f"{GPS}/earliest", {"start": 2})["at"] == 5
    assert http.post(f"{GPS}/earliest", {"sources": [{"source": "b"}], "start": 6})["at"] is None


def test_retention_forgets_and_late_points_are_refused(http: Asking) -> None:
    _append(http, ("a", 1, 1), ("a", 100, 2))

    done = http.post(f"{GPS}/retention", {"floor": 50})
    with pytest.raises(Refusal) as refusal:
        _append(http, ("a", 10, 3))

    assert done["floor"] == 50
    assert refusal.value.status == 400
    state = http.get(GPS)
    assert (state["refused"], state["floor"], state["sources"]) == (1, 50, 1)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("append", {"points": []}),
        ("append", {"points": [{"at": 1, "payload": 1}]}),
        ("append", {"points": [{"source": "a", "source_base64": "YQ==", "at": 1, "payload": 1}]}),
        ("append", {"points": [{"source": "a", "at": 2**63, "payload": 1}]}),
        ("append", {"points": [{"source": "a", "at": 1}]}),
        ("range", {"limit": -1}),
        ("range", {"sources": [{}]}),
        ("window", {"sources": []}),
    ],
)
def test_what_is_wrong_is_refused(http: Asking, verb: str, body: object) -> None:
    with pytest.raises(Refusal) as refusal:
        http.post(f"{GPS}/{verb}", body)

    assert refusal.value.status == 400


@pytest.mark.parametrize("body", [b"no arrow", _ipc(pa.table({"source": [b"a"]}))])
def test_a_body_that_is_no_points_in_arrow_is_refused(http: Asking, body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        http.raw("POST", f"{GPS}/append", body, {"content-type": ARROW})

    assert refusal.value.status == 400


def test_a_series_that_is_not_there_is_not_found(server: Running, http: Asking) -> None:
    server.store.topic("plain")

    for name in ("nothing", "plain"):
        with pytest.raises(Refusal) as refusal:
            http.post(f"/v0/series/{name}/range", {})
        assert refusal.value.status == 404
