"""Promise: the hot path and the application give the same bytes to the same append, good or bad,
and nothing tells them apart but the id of the request and the time it took."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from strandline.config.settings import LimitSettings, Settings
from strandline.server.handlers.topic_cache import reload_topic
from strandline.server.settings import RequestLimits, ServerSettings
from strandline.store import Store
from strandline.testing.crash_choices import Oldest
from strandline.testing.sim_disk import SimDisk
from tests.server.running import Answered, Raw, Running, running

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
# Says nothing, and sends a request the long way.
LONG_WAY = {"Content-Encoding": "identity"}
SETTINGS = ServerSettings(
    limits=RequestLimits(batch_records_max=5, json_depth_max=8, meta_keys_max=2),
    store=Settings(limits=LimitSettings(record_bytes_max=1000)),
)


def arrow(records: int) -> bytes:
    table = pa.table({"data": [b"%d" % number for number in range(records)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


APPENDS: dict[str, tuple[str, bytes, dict[str, str]]] = {
    "one record": (JSON, b'{"records":[{"data":{"a":[1,2]}}]}', {}),
    "white space": (JSON, b' {"records": [ {"data": null} ] } ', {}),
    "several": (JSON, b'{"records":[{"data":1},{"data":"x"},{"data":null}]}', {}),
    "all fields": (
        JSON,
        b'{"node":"n","records":[{"data":1,"key":"k","tag":"t","node":"m","meta":{"a":1}}]}',
        {},
    ),
    "bytes": (JSON, b'{"records":[{"data_base64":"AAE="}]}', {}),
    "a charset": ("application/json; charset=utf-8", b'{"records":[{"data":1}]}', {}),
    "capitals": ("Application/JSON", b'{"records":[{"data":1}]}', {}),
    "an idempotency key": (JSON, b'{"records":[{"data":1}]}', {"Idempotency-Key": "once"}),
    "the same key": (JSON, b'{"records":[{"data":1}]}', {"Idempotency-Key": "once"}),
    "the head expected": (JSON, b'{"records":[{"data":1}],"expected_head_seq":0}', {}),
    "lines": (NDJSON, b'{"data":1}\n{"data":2,"tag":"t"}\n', {}),
    "a table": (ARROW, arrow(3), {}),
    "keep-alive": (JSON, b'{"records":[{"data":1}]}', {"Connection": "keep-alive"}),
    "accept": (JSON, b'{"records":[{"data":1}]}', {"Accept": "application/json"}),
    "accept gzip": (JSON, b'{"records":[{"data":1}]}', {"Accept-Encoding": "gzip, deflate"}),
    "no record": (JSON, b'{"records":[]}', {}),
    "no body": (JSON, b"", {}),
    "not JSON": (JSON, b"{", {}),
    "not UTF-8": (JSON, b'{"records":[{"data":"\xff"}]}', {}),
    "not an object": (JSON, b"[]", {}),
    "unknown field": (JSON, b'{"records":[{"data":1}],"other":1}', {}),
    "no data": (JSON, b'{"records":[{"tag":"t"}]}', {}),
    "too many": (JSON, b'{"records":[%b]}' % b",".join([b'{"data":1}'] * 6), {}),
    "too large": (JSON, b'{"records":[{"data":"%b"}]}' % (b"a" * 2000), {}),
    "too deep": (JSON, b'{"records":[{"data":%b%b}]}' % (b"[" * 20, b"]" * 20), {}),
    "very deep": (JSON, b'{"records":[{"data":%b%b}]}' % (b"[" * 9000, b"]" * 9000), {}),
    "too much meta": (JSON, b'{"records":[{"data":1,"meta":{"a":1,"b":2,"c":3}}]}', {}),
    "a long tag": (JSON, b'{"records":[{"data":1,"tag":"%b"}]}' % (b"t" * 300), {}),
    "a long key": (JSON, b'{"records":[{"data":1}]}', {"Idempotency-Key": "k" * 999}),
    "lines that are none": (NDJSON, b'{"data":1}\n{', {}),
    "no line": (NDJSON, b"", {}),
    "a table that is none": (ARROW, b"not Arrow", {}),
    "a long table": (ARROW, arrow(6), {}),
    "another type": ("text/plain", b'{"records":[{"data":1}]}', {}),
    "no type": ("", b'{"records":[{"data":1}]}', {}),
    "another Accept": (JSON, b'{"records":[{"data":1}]}', {"Accept": "text/html"}),
    "another host": (JSON, b'{"records":[{"data":1}]}', {"Host": "elsewhere"}),
    "a foreign page": (JSON, b'{"records":[{"data":1}]}', {"Origin": "http://elsewhere"}),
}  # fmt: skip
THE_LONG_WAY_ANYWAY = {"a charset", "capitals", "another type", "no type", "another Accept"} | {
    *("another host", "a foreign page")
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server"), settings=SETTINGS) as server:
        yield server


@pytest.mark.parametrize("durability", ["disk", "fsync", "memory", "ephemeral"])
def test_both_ways_give_the_same_bytes(server: Running, durability):
    for way in ("hot", "app"):
        server.store.topic(f"{way}-{durability}", durability=durability)

    answers = {
        way: _answers(server, f"{way}-{durability}", {} if way == "hot" else LONG_WAY)
        for way in ("hot", "app")
    }

    assert {name: _plain(answer) for name, answer in answers["hot"].items()} == {
        name: _plain(answer) for name, answer in answers["app"].items()
    }
    took = {name for name, answer in answers["hot"].items() if not _was_hot(answer)}
    assert took == THE_LONG_WAY_ANYWAY
    assert not any(map(_was_hot, answers["app"].values()))


def test_both_ways_store_the_same_records(server: Running):
    stored = []
    for way, more in (("hot-stored", {}), ("app-stored", LONG_WAY)):
        topic = server.store.topic(way)
        _answers(server, way, more)
        stored.append(
            [
                (each.seq, each.key, each.tag, each.node, each.meta, each.data)
                for each in topic.read().records
            ]
        )

    assert stored[0] == stored[1]
    assert len(stored[0]) > 10


def test_both_ways_refuse_a_full_topic_alike(server: Running):
    body = APPENDS["one record"][1]
    for way in ("hot-full", "app-full"):
        server.store.topic(way, cap_records=1, discard="reject")

    hot = [_ask(server, "hot-full", JSON, body, {}) for _ in range(2)]
    app = [_ask(server, "app-full", JSON, body, LONG_WAY) for _ in range(2)]

    assert [_plain(answer) for answer in hot] == [_plain(answer) for answer in app]
    assert [answer.status for answer in hot] == [200, 422]
    assert _was_hot(hot[1])


def test_a_topic_that_was_deleted_is_made_again_by_either_way(server: Running):
    body = APPENDS["one record"][1]
    server.store.topic("gone")
    _ask(server, "gone", JSON, body, {})
    server.store.delete_topic("gone")

    answer = _ask(server, "gone", JSON, body, {})

    assert answer.status == 201
    assert b'"first_seq":1,' in answer.body


@pytest.mark.parametrize("way", [{}, LONG_WAY], ids=["hot", "application"])
def test_an_append_is_acknowledged_in_its_class_after_the_sync(tmp_path, way):
    disk = SimDisk()
    with running(tmp_path, disk=disk) as server, server.raw() as raw:
        topic = server.store.topic("safe", durability="fsync")
        server.on_loop(lambda: reload_topic(server.parts, "safe"))
        for number in range(1, 21):
            raw.send(_request("safe", JSON, b'{"records":[{"data":%d}]}' % number, way))
            assert raw.answer().status == 200
            after_a_crash = disk.crash(Oldest())
            path = server.store.path
            with Store(path, disk=after_a_crash, readonly=True) as store:
                assert store.topic("safe").head_seq == number

        assert topic.head_seq == 20


def test_both_ways_ask_for_the_same_rights(tmp_path):
    tokens = {"all": "write,create,read", "other": "write:other.*", "reader": "read"}
    with running(tmp_path, tokens=tokens) as server:
        server.store.topic("hot-topic")
        server.store.topic("app-topic")
        given = {name: f"Bearer {text}" for name, text in server.tokens.items()}
        given |= {"wrong": given["all"][:-1] + "x", "odd": "Bearer x", "none": ""}
        body = APPENDS["one record"][1]

        told: dict[str, list[bytes]] = {}
        statuses = {}
        for name, text in given.items():
            said = {"Authorization": text} if text else {}
            app = _ask(server, "app-topic", JSON, body, said | LONG_WAY)
            hot = _ask(server, "hot-topic", JSON, body, said)
            told[name] = [_plain(hot), _plain(app)]
            statuses[name] = hot.status
            assert _was_hot(hot) == (hot.status != 401)  # the hot path reads bodies

    assert {name: ways[0] for name, ways in told.items()} == {
        name: ways[1] for name, ways in told.items()
    }
    assert statuses == {
        "all": 200, "other": 403, "reader": 403, "wrong": 401, "odd": 401, "none": 401
    }  # fmt: skip


def test_a_revoked_token_is_refused_by_the_next_append(tmp_path):
    with running(tmp_path, tokens={"all": "all", "writer": "write"}) as server:
        server.store.topic("news")
        body, said = (
            APPENDS["one record"][1],
            {"Authorization": f"Bearer {server.tokens['writer']}"},
        )
        with server.raw() as raw:
            raw.send(_request("news", JSON, body, said))
            before = raw.answer()
            registry = server.parts.auth.registry
            (token,) = [each for each in registry.current().values() if each.label == "writer"]
            server.on_loop(lambda: registry.revoke(token.id))
            raw.send(_request("news", JSON, body, said))
            after = raw.answer()

    assert before.status == 200
    assert after.status == 401


@pytest.mark.parametrize("way", ["hot", "long"])
def test_bytes_count_whichever_way_they_come(tmp_path, way):
    settings = ServerSettings(limits=RequestLimits(bytes_per_s=10.0))
    more = {} if way == "hot" else LONG_WAY
    with running(tmp_path, settings=settings) as server:
        server.store.topic("news")
        server.on_loop(lambda: reload_topic(server.parts, "news"))
        body = b'{"records":[{"data":"%b"}]}' % (b"x" * 1000)

        first = _send(server.raw(), _request("news", JSON, body, more))
        second = _send(server.raw(), _request("news", JSON, b'{"records":[{"data":1}]}', {}))

    assert (first.status, second.status) == (200, 429)
    assert _was_hot(first) == (way == "hot")
    assert int(second.headers["retry-after"]) >= 90
    assert b"bytes_per_s" in second.body


def test_what_is_read_counts_in_bytes_too(tmp_path):
    settings = ServerSettings(limits=RequestLimits(bytes_per_s=500.0))
    with running(tmp_path, settings=settings) as server:
        server.store.topic("news").append(b'"%b"' % (b"x" * 100_000))
        diff = b'{"from_seq":0}'
        head = b"POST /v0/topics/news/diff HTTP/1.1\r\nHost: localhost\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(diff)

        first = _send(server.raw(), head + diff)
        second = _send(server.raw(), head + diff)

    assert (first.status, second.status) == (200, 429)


def test_rates_count_both_ways_together(tmp_path):
    settings = ServerSettings(limits=RequestLimits(requests_per_s=0.001))
    with running(tmp_path, settings=settings) as server:
        server.store.topic("news")

        first = _send(server.raw(), _request("news", JSON, b'{"records":[{"data":1}]}', LONG_WAY))
        second = _send(server.raw(), _request("news", JSON, b'{"records":[{"data":1}]}', {}))

    assert first.status == 200
    assert second.status == 429
    assert _was_hot(second)
    assert int(second.headers["retry-after"]) > 0


def _answers(server: Running, topic: str, more: dict[str, str]) -> dict[str, Answered]:
    _at_hand(server, topic)
    return {
        name: _send(server.raw(), _request(topic, kind, body, headers | more))
        for name, (kind, body, headers) in APPENDS.items()
    }


def _at_hand(server: Running, topic: str) -> None:
    """The hot path takes topics that were asked for lately."""
    _send(server.raw(), _request(topic, JSON, b"{}", LONG_WAY))


def _ask(server: Running, topic: str, kind: str, body: bytes, more: dict[str, str]) -> Answered:
    if topic in server.store.topics():
        server.on_loop(lambda: reload_topic(server.parts, topic))
    return _send(server.raw(), _request(topic, kind, body, more))


def _send(raw: Raw, request: bytes) -> Answered:
    with raw:
        raw.send(request)
        return raw.answer()


def _request(topic: str, kind: str, body: bytes, headers: dict[str, str]) -> bytes:
    told = {"Host": "localhost", "Content-Type": kind, "Content-Length": str(len(body))} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
    return f"POST /v0/topics/{topic} HTTP/1.1\r\n{lines}\r\n".encode() + body


def _plain(answer: Answered) -> bytes:
    """Everything that may not differ."""
    whole = answer.head + b"\r\n\r\n" + answer.body
    whole = re.sub(rb"date: [^\r]*", b"date: D", whole)
    whole = re.sub(rb"x-request-id: [^\r]*", b"x-request-id: I", whole)
    whole = re.sub(rb"content-length: [^\r]*", b"content-length: N", whole)
    whole = re.sub(rb'"server_total_ms":[0-9.]+', b'"server_total_ms":T', whole)
    whole = re.sub(rb'"(wal_append_ms|fsync_ms|throttle_wait_ms)":[0-9.]+', rb'"\1":T', whole)
    return re.sub(rb"(hot|app)-", b"", whole)


def _was_hot(answer: Answered) -> bool:
    return "-h" in answer.headers["x-request-id"]
