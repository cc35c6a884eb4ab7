"""Key-value maps over HTTP: every verb, exact to the byte, under the conditions of a store."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import DEADLINE_S, Running, running

KV = "/v0/kv/profiles"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.kv("profiles", history=3)
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _put(http: Asking, key: str, value: Any, **rest: object) -> int:
    return http.post(f"{KV}/put", {"key": key, "value": value, **rest})["version"]


def _get(http: Asking, key: str, **rest: object) -> Any:
    found = http.post(f"{KV}/get", {"key": key, **rest})
    return found["entry"]["value"] if found["found"] else None


def test_a_value_is_kept_as_its_bytes_are_written(server: Running, http: Asking) -> None:
    body = b'{"key": "ada", "value": {"plan":  "pro"} }'

    http.raw("POST", f"{KV}/put", body, {"content-type": "application/json"})

    assert server.store.kv("profiles").get("ada") == b'{"plan":  "pro"}'
    assert _get(http, "ada") == {"plan": "pro"}


def test_any_bytes_may_be_key_and_value(server: Running, http: Asking) -> None:
    key, value = base64.b64encode(b"\xff\x00k").decode(), base64.b64encode(b"not json").decode()

    http.post(f"{KV}/put", {"key_base64": key, "value_base64": value})
    entry = http.post(f"{KV}/get", {"key_base64": key})["entry"]

    assert server.store.kv("profiles").get(b"\xff\x00k") == b"not json"
    assert (entry["key_base64"], entry["value_base64"]) == (key, value)
    assert "value" not in entry


def test_a_value_as_the_whole_body_comes_back_as_it_was(http: Asking) -> None:
    octets = {"content-type": "application/octet-stream"}
    done = http.raw("PUT", f"{KV}/value", b"\x00\xff raw", octets, key="picture")

    found = http.raw("GET", f"{KV}/value", key="picture")

    assert found.content == b"\x00\xff raw"
    assert int(found.headers["strandline-version"]) == msgspec.json.decode(done.content)["version"]
    with pytest.raises(Refusal) as refusal:
        http.raw("GET", f"{KV}/value", key="nothing")
    assert refusal.value.status == 404


def test_conditions_decide_whether_anything_is_written(http: Asking) -> None:
    version = _put(http, "a", 1, nx=True)
    refused = []
    for condition in ({"nx": True}, {"version": version + 7}, {"version": 0}):
        with pytest.raises(Refusal) as refusal:
            _put(http, "a", 2, **condition)
        refused.append((refusal.value.status, refusal.value.kind))
    with pytest.raises(Refusal) as refusal:
        _put(http, "b", 2, xx=True)

    assert refused == [(409, "conflict")] * 3
    assert refusal.value.kind == "conflict"
    assert _put(http, "a", 3, version=version) > version
    assert _get(http, "a") == 3


def test_many_keys_are_read_and_written_at_once(http: Asking) -> None:
    values = [{"key": "a", "value": 1}, {"key": "b", "value_base64": "/w=="}]

    versions = http.post(f"{KV}/put_many", {"values": values})["versions"]
    found = http.post(f"{KV}/mget", {"keys": [{"key": "b"}, {"key": "x"}, {"key": "a"}]})["values"]

    assert versions[1] == versions[0] + 1
    assert found == [
        {"found": True, "value_base64": "/w=="},
        {"found": False},
        {"found": True, "value": 1},
    ]


def test_a_delete_says_whether_the_key_was_there(http: Asking) -> None:
    version = _put(http, "a", 1)

    with pytest.raises(Refusal):
        http.post(f"{KV}/delete", {"key": "a", "version": version + 1})
    assert http.post(f"{KV}/delete", {"key": "a", "version": version})["deleted"] is True
    assert http.post(f"{KV}/delete", {"key": "a"})["deleted"] is False


def test_a_batch_is_done_whole_or_not_at_all(http: Asking) -> None:
    _put(http, "old", 1)
    good = [{"key": "a", "value": 1}, {"delete": True, "key": "old"}, {"delete": True, "key": "x"}]
    bad = [{"key": "b", "value": 1}, {"key": "a", "value": 2, "nx": True}]

    versions = http.post(f"{KV}/batch", {"operations": good})["versions"]
    with pytest.raises(Refusal) as refusal:
        http.post(f"{KV}/batch", {"operations": bad})

    assert versions[0] > 0
    assert versions[2] == 0
    assert refusal.value.kind == "conflict"
    assert _get(http, "b") is None
    assert _get(http, "old") is None


def test_a_transaction_counts_when_what_it_read_is_unchanged(http: Asking) -> None:
    seen = [{"key": "a", "version": _put(http, "a", 1)}, {"key": "new", "version": 0}]
    writes = [{"key": "b", "value": 2}, {"key": "a"}]

    done = http.post(f"{KV}/commit", {"seen": seen, "writes": writes})["version"]
    with pytest.raises(Refusal) as refusal:
        http.post(f"{KV}/commit", {"seen": seen, "writes": [{"key": "c", "value": 1}]})

    assert done > 0
    assert (_get(http, "a"), _get(http, "b"), _get(http, "c")) == (None, 2, None)
    assert (refusal.value.status, refusal.value.kind) == (409, "conflict")


def test_a_transaction_may_say_when_a_key_ends(server: Running, http: Asking) -> None:
    ends = server.parts.clock.now_us() + 10**12
    http.post(f"{KV}/commit", {"writes": [{"key": "a", "value": 1, "expires_us": ends}]})

    http.post(f"{KV}/commit", {"writes": [{"key": "b", "value": 1, "ttl_ms": 60_000}]})

    assert http.post(f"{KV}/get", {"key": "a"})["entry"]["expires_us"] == ends
    assert http.post(f"{KV}/get", {"key": "b"})["entry"]["expires_us"] < ends


def test_counters_count(http: Asking) -> None:
    assert http.post(f"{KV}/incr", {"key": "n"})["number"] == 1
    assert http.post(f"{KV}/incr", {"key": "n", "delta": -5})["number"] == -4
    _put(http, "text", "x")
    with pytest.raises(Refusal) as refusal:
        http.post(f"{KV}/incr", {"key": "text"})
    assert refusal.value.kind == "conflict"


def test_keys_end_and_may_be_made_to_stay(http: Asking) -> None:
    version = _put(http, "a", 1, ttl_ms=3_600_000)

    touched = http.post(f"{KV}/touch", {"key": "a", "ttl_ms": 7_200_000})["version"]
    later = http.post(f"{KV}/get", {"key": "a"})["entry"]["expires_us"]
    http.post(f"{KV}/persist", {"key": "a"})

    assert touched > version
    assert later > 0
    assert "expires_us" not in http.post(f"{KV}/get", {"key": "a"})["entry"]
    assert http.post(f"{KV}/touch", {"key": "x", "ttl_ms": 1})["version"] == 0
    assert http.post(f"{KV}/persist", {"key": "x"})["version"] == 0


def test_places_of_json_documents_are_read_and_changed(http: Asking) -> None:
    http.post(f"{KV}/json_set", {"key": "d", "path": "$", "value": {"a": [1, 2]}})
    http.post(f"{KV}/json_set", {"key": "d", "path": "$.b", "value": None})

    assert http.post(f"{KV}/json_get", {"key": "d", "path": "$.a[1]"})["value"] == 2
    assert http.post(f"{KV}/json_get", {"key": "d", "path": "$.b"})["value"] is None
    assert http.post(f"{KV}/json_get", {"key": "d", "path": "$.c"})["found"] is False
    assert http.post(f"{KV}/json_delete", {"key": "d", "path": "$.a"})["deleted"] is True
    assert http.post(f"{KV}/json_delete", {"key": "d", "path": "$.a"})["deleted"] is False
    assert _get(http, "d") == {"b": None}


def test_the_past_of_a_key_can_be_asked_for(http: Asking) -> None:
    first = _put(http, "a", 1)
    second = _put(http, "a", 2)
    http.post(f"{KV}/delete", {"key": "a"})

    versions = http.post(f"{KV}/history", {"key": "a"})["versions"]

    assert [each["deleted"] for each in versions] == [True, False, False]
    assert [each.get("value") for each in versions] == [None, 2, 1]
    assert _get(http, "a", version=first) == 1
    assert _get(http, "a", ts_us=versions[1]["us"]) == 2
    assert (versions[1]["version"], versions[2]["version"]) == (second, first)
    with pytest.raises(Refusal) as refusal:
        _get(http, "a", version=first, ts_us=1)
    assert refusal.value.status == 400


def test_a_scan_goes_on_where_the_page_before_ended(http: Asking) -> None:
    for number in range(5):
        _put(http, f"k{number}", number)
    _put(http, "other", 1)

    first = http.post(f"{KV}/scan", {"prefix": "k", "limit": 3})
    rest = http.post(f"{KV}/scan", {"prefix": "k", "limit": 3, "after": "k2"})
    back = http.post(
        f"{KV}/scan", {"first": "k1", "next": "k4", "reverse": True, "keys_only": True}
    )

    assert [each["key"] for each in first["entries"]] == ["k0", "k1", "k2"]
    assert first["more"] is True
    assert [each["value"] for each in rest["entries"]] == [3, 4]
    assert rest["more"] is False
    assert [each["key"] for each in back["entries"]] == ["k3", "k2", "k1"]
    assert "value" not in back["entries"][0]


def test_a_watcher_is_told_of_changes_and_goes_on_behind_a_version(
    server: Running, http: Asking
) -> None:
    kv = server.store.kv("profiles")
    first = kv.put("k1", b"1")
    kv.put("x", b"1")

    with http.events(f"{KV}/watch", prefix="k", after=0) as events:
        begun = next(events)
        second = kv.put("k2", b"\xff")
        live = next(events)
    with Asking(server) as other, other.events(f"{KV}/watch", after=first) as events:
        resumed = [next(events), next(events)]
    kv.delete("k2")
    with Asking(server) as other, other.events(f"{KV}/watch", key="k2", after=second) as events:
        deleted = next(events)

    assert (begun.event, begun.id, begun.data["value"]) == ("change", str(first), 1)
    assert (live.id, live.data["value_base64"]) == (str(second), "/w==")
    assert [each.data["key"] for each in resumed] == ["x", "k2"]
    assert deleted.data["deleted"] is True


def test_a_watcher_without_a_version_sees_what_comes_from_now_on(
    server: Running, http: Asking
) -> None:
    kv = server.store.kv("profiles")
    kv.put("a", b"1")

    with http.events(f"{KV}/watch") as events:
        kv.put("a", b"2")
        seen = next(events)

    assert seen.data["value"] == 2


def test_waiting_ends_when_the_key_is_there(server: Running, http: Asking) -> None:
    version = _put(http, "a", 1)
    later = threading.Timer(0.05, lambda: server.store.kv("profiles").put("a", b"2"))
    later.start()

    found = http.post(f"{KV}/wait", {"key": "a", "after": version, "wait_ms": 20_000})
    nothing = http.post(f"{KV}/wait", {"key": "x", "wait_ms": 20})
    later.join(DEADLINE_S)

    assert found["entry"]["value"] == 2
    assert nothing["found"] is False


def test_changes_are_read_page_by_page_and_waited_for(server: Running, http: Asking) -> None:
    first = _put(http, "k1", 1)
    other = _put(http, "x", 1)
    later = threading.Timer(0.05, lambda: server.store.kv("profiles").put("k2", b"2"))
    later.start()

    begun = http.post(f"{KV}/changes", {"prefix": "k"})
    waited = http.post(f"{KV}/changes", {"prefix": "k", "after": other, "wait_ms": 20_000})
    nothing = http.post(f"{KV}/changes", {"key": "k1", "after": first, "wait_ms": 20})
    later.join(DEADLINE_S)

    assert [each["version"] for each in begun["changes"]] == [first]
    assert begun["next_after"] == other
    assert [each["value"] for each in waited["changes"]] == [2]
    assert nothing["changes"] == []
    assert nothing["next_after"] > first


def test_who_was_away_for_too_long_is_told_what_is_lost(server: Running, http: Asking) -> None:
    server.store.views.alter("kv", "profiles", grace_ms=0)
    kv = server.store.kv("profiles")
    kv.put("a", b"1")
    kv.delete("a")
    kv.put("b", b"1")
    server.store.checkpoint()
    kv.compact()

    with pytest.raises(Refusal) as refusal:
        http.post(f"{KV}/changes", {"after": 1})
    with pytest.raises(Refusal) as streamed, http.events(f"{KV}/watch", after=1):
        pass

    assert (refusal.value.status, refusal.value.code) == (410, "records_lost")
    assert streamed.value.status == 410


def test_a_map_tells_its_head_and_is_compacted(http: Asking) -> None:
    version = _put(http, "a", 1)

    assert http.get(KV)["head"] == version
    assert http.post(f"{KV}/compact")["released"] >= 0


def test_a_verb_never_makes_a_map(server: Running, http: Asking) -> None:
    server.store.topic("plain")

    for name, status in (("nothing", 404), ("plain", 404)):
        with pytest.raises(Refusal) as refusal:
            http.post(f"/v0/kv/{name}/put", {"key": "a", "value": 1})
        assert refusal.value.status == status
    assert "nothing" not in server.store.topics()
    assert server.store.topic("plain").config.views.kv is None


def test_views_are_made_listed_altered_rebuilt_and_compared(http: Asking, server: Running) -> None:
    path = "/v0/views/sessions/kv"
    made = http.put(path, {"options": {"history": 5, "durability": "disk"}})
    again = http.put(path, {"options": {"history": 5}})
    with pytest.raises(Refusal) as other:
        http.put(path, {"options": {"history": 6}})
    altered = http.send("PATCH", path, {"options": {"history": 6}})
    server.store.kv("sessions").put("a", b"1")
    before = http.get(f"{path}/digest")["digest"]
    http.post(f"{path}/rebuild")

    assert (made["created"], again["created"]) == (True, False)
    assert other.value.status == 400
    assert (made["options"]["history"], altered["options"]["history"]) == (5, 6)
    assert http.get(path)["options"]["history"] == 6
    assert [(each["topic"], each["kind"]) for each in http.get("/v0/views")["views"]] == [
        ("profiles", "kv"),
        ("sessions", "kv"),
    ]
    assert http.get(f"{path}/digest")["digest"] == before
    assert "kv" in http.get("/v0/memory")["shares"]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("get", {}),
        ("get", {"key": "a", "key_base64": "YQ=="}),
        ("get", {"key": ""}),
        ("get", {"key": "a" * 5000}),
        ("put", {"key": "a"}),
        ("put", {"key": "a", "value": 1, "value_base64": ""}),
        ("put", {"key": "a", "value": 1, "ttl_ms": -1}),
        ("put", {"key": "a", "value": 1, "nx": True, "xx": True}),
        ("put", {"key": "a", "value": 1, "other": 1}),
        ("put_many", {"values": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]}),
        ("batch", {"operations": [{"delete": True, "key": "a", "value": 1}]}),
        ("scan", {"prefix": "a", "first": "b"}),
        ("json_get", {"key": "a", "path": "nonsense["}),
        ("touch", {"key": "a"}),
    ],
)
def test_what_is_wrong_is_refused(http: Asking, verb: str, body: object) -> None:
    _put(http, "a", 1)

    with pytest.raises(Refusal) as refusal:
        http.post(f"{KV}/{verb}", body)

    assert refusal.value.status == 400


def test_one_request_has_so_many_keys_at_most(tmp_path: Path) -> None:
    settings = ServerSettings(limits=RequestLimits(batch_records_max=3))
    with running(tmp_path, settings=settings) as server, Asking(server) as http:
        server.store.kv("profiles")
        with pytest.raises(Refusal) as refusal:
            http.post(f"{KV}/mget", {"keys": [{"key": "a"}] * 4})

    assert refusal.value.code == "batch_too_large"


def test_rights_on_a_map_are_those_on_its_topic(tmp_path: Path) -> None:
    tokens = {"reader": "read:eu.*", "writer": "write:eu.*", "maker": "create:eu.*"}
    with running(tmp_path, tokens=tokens) as server:
        for name in ("eu.users", "us.users"):
            server.store.kv(name).put("a", b"1")
        with Asking(server, "reader") as reader:
            seen = reader.post("/v0/kv/eu.users/get", {"key": "a"})
            listed = reader.get("/v0/views")["views"]
            refused = [
                _status(reader, "POST", "/v0/kv/us.users/get", {"key": "a"}),
                _status(reader, "POST", "/v0/kv/us.nothing/get", {"key": "a"}),
                _status(reader, "POST", "/v0/kv/eu.users/put", {"key": "a", "value": 1}),
            ]
        with Asking(server, "writer") as writer:
            written = writer.post("/v0/kv/eu.users/put", {"key": "b", "value": 1})["version"]
            delete = {"operations": [{"delete": True, "key": "a"}]}
            refused.append(_status(writer, "POST", "/v0/kv/eu.users/batch", delete))
            gone = {"writes": [{"key": "a"}]}
            refused.append(_status(writer, "POST", "/v0/kv/eu.users/commit", gone))
        with Asking(server, "maker") as maker:
            maker.put("/v0/views/eu.new/kv", {})
            refused.append(_status(maker, "PUT", "/v0/views/us.new/kv", {}))
            server.store.topic("eu.plain")
            refused.append(_status(maker, "PUT", "/v0/views/eu.plain/kv", {}))

    assert seen["found"] is True
    assert [each["topic"] for each in listed] == ["eu.users"]
    assert written > 0
    assert refused == [403] * 7


def _status(http: Asking, method: str, path: str, body: object) -> int:
    with pytest.raises(Refusal) as refusal:
        http.send(method, path, body)
    return refusal.value.status
