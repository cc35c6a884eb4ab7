"""Promise: a loss is reported to every watcher, and in the same words however it reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.sync.client import connect

from strandline.log.topic.gap_marker import report_loss
from strandline.store import Store
from tests.server.live.watching import DEADLINE_S, Reader, gaps, post, watch
from tests.server.running import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("tombstones")) as found:
        yield found


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_watcher_between_two_losses_of_a_source_gets_both(server, guarantee):
    source = server.store.topic(f"trimmed.{guarantee}", cap_records=2)
    full = server.store.topic(f"full.{guarantee}", cap_records=1, discard="reject")
    full.append(b"in the way")  # so that the router reports losses and forwards nothing
    options = {"source": source.name, "dest": full.name, "guarantee": guarantee}
    server.store.routers.put(f"r.{guarantee}", **options)
    session = watch(server, {full.name: {}})

    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
        source.append_many([b"1"] * 5)
        first = reader.records_to(4)
        source.append_many([b"1"] * 4)
        second = reader.records_to(8)

    assert gaps(first)[0][0] == 2
    assert [event.data["reason"] for event in first + second] == ["source_trim"] * len(
        first + second
    )
    assert sum(event.data["missed_estimate"] for event in first + second) == 7


def _capped(store: Store, name: str) -> dict[str, int]:
    store.topic(name, cap_records=2).append_many([b"1"] * 5)
    return {"from_seq": 1}


def _expired(store: Store, name: str) -> dict[str, int]:
    topic = store.topic(name)
    topic.append_many([b"1"] * 3)
    topic.alter(ttl_ms=1)
    pause = threading.Event()
    while topic.statistics().count:
        pause.wait(0.001)
    topic.alter(ttl_ms=0)
    topic.append_many([b"1"] * 2)
    return {"from_seq": 0}


def _capped_and_expired(store: Store, name: str) -> dict[str, int]:
    cursor = _expired(store, name)
    store.topic(name).alter(cap_records=1)
    return cursor


def _reported(reason: str) -> Callable[[Store, str], dict[str, int]]:
    def prepare(store: Store, name: str) -> dict[str, int]:
        topic = store.topic(name)
        topic.append_many([b"1"] * 2)
        catalog = store._state.catalog
        state = catalog.find(name)
        report_loss(state, catalog.shard_of(state), 3, reason)
        topic.append_many([b"1"] * 2)
        return {"from_seq": 2}

    return prepare


def _recreated(store: Store, name: str) -> dict[str, int]:
    epoch = store.topic(name).read().epoch
    store.delete_topic(name)
    store.topic(name).append_many([b"1"] * 4)
    return {"from_seq": 1, "epoch": epoch}


def _recreated_and_cut(store: Store, name: str) -> dict[str, int]:
    cursor = _recreated(store, name)
    store.topic(name).delete(before=3)
    return cursor


PREPARATIONS = {
    "cap": _capped,
    "ttl": _expired,
    "mixed": _capped_and_expired,
    "lost": _reported("lost"),
    "damaged": _reported("damaged"),
    "source_trim": _reported("source_trim"),
    "recreated": _recreated,
    "recreated, then cut": _recreated_and_cut,
}
RETENTION = ("cap", "ttl", "mixed")


def _over_http(server: Running, name: str, cursor: dict[str, int]) -> Any:
    _, page = post(server, f"/v0/topics/{name}/diff", cursor)
    assert page["earliest_seq"] == page["tombstone"]["earliest_seq"]
    return page["tombstone"]


def _over_sse(server: Running, name: str, cursor: dict[str, int]) -> Any:
    session = watch(server, {name: cursor})
    with Reader(server, session["stream_url"]) as reader:
        return reader.until("tombstone")[-1].data


def _over_websocket(server: Running, name: str, cursor: dict[str, int]) -> Any:
    with connect(f"{server.url.replace('http', 'ws')}/v0/ws") as connection:
        connection.send(json.dumps({"op": "subscribe", "topics": {name: cursor}}))
        while True:
            message = json.loads(connection.recv(timeout=DEADLINE_S))
            if message.pop("op") == "tombstone":
                return message


@pytest.mark.parametrize("case", PREPARATIONS)
def test_a_tombstone_says_the_same_over_http_sse_and_websocket(server, case):
    name = f"lossy.{case.replace(', ', '.').replace(' ', '.')}"
    cursor = PREPARATIONS[case](server.store, name)

    page = _over_http(server, name, cursor)
    sse = _over_sse(server, name, cursor)
    websocket = _over_websocket(server, name, cursor)

    reason = case.partition(",")[0]
    assert page["reason"] == reason
    # To a watcher that begins too early, the reason is where it begins.
    watched = "from_seq_too_old" if reason in RETENTION else reason
    assert sse == {"topic": name, **page, "reason": watched}
    assert websocket == sse
