"""Promise: when a token ends, so does every stream that it opened; a ticket opens one of them."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from strandline.security.scopes import parse
from strandline.server.settings import LiveSettings, ServerSettings
from tests.server.running import DEADLINE_S, Running, running

EVENTS = {"accept": "text/event-stream"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    tokens = {"root": "all", "guest": "read,consume,write:orders*"}
    with running(tmp_path, tokens=tokens) as started:
        started.store.topic("orders").append(b"1")
        started.store.kv("orders.kv").put("k", b"1")
        started.store.queue("orders.jobs")
        yield started


def bearer(server: Running, name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {server.tokens[name]}"}


def session(server: Running, name: str = "guest") -> str:
    answer = httpx2.post(
        f"{server.url}/v0/watch",
        json={"topics": {"orders": {}}},
        headers=bearer(server, name),
    )
    assert answer.status_code in (200, 201), answer.text
    return f"/v0/watch/{answer.json()['wid']}"


STREAMS: dict[str, Callable[[Running], str]] = {
    "watch": session,
    "work": lambda _: "/v0/topics/orders.jobs/work?node=w",
    "kv watch": lambda _: "/v0/kv/orders.kv/watch",
}


def revoke(server: Running, name: str) -> None:
    id = server.tokens[name].split("_")[1]
    path = f"{server.url}/v0/tokens/{id}"
    assert httpx2.delete(path, headers=bearer(server, "root")).status_code == 200


class Stream:
    """An SSE stream that is read in a thread until it ends."""

    def __init__(self, server: Running, path: str, headers: dict[str, str]) -> None:
        self._opened = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(server.url + path, headers), daemon=True
        )
        self.status = 0
        self.text = ""
        self._thread.start()
        assert self._opened.wait(DEADLINE_S)

    def _read(self, url: str, headers: dict[str, str]) -> None:
        with httpx2.stream("GET", url, headers=EVENTS | headers, timeout=DEADLINE_S) as answer:
            self.status = answer.status_code
            self._opened.set()
            try:
                for chunk in answer.iter_text():
                    self.text += chunk
            except httpx2.HTTPError:
                self.text += "(cut)"

    def wait_ended(self, timeout_s: float = DEADLINE_S) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


@pytest.mark.parametrize("kind", STREAMS)
def test_revoking_ends_a_stream(server: Running, kind: str):
    stream = Stream(server, STREAMS[kind](server), bearer(server, "guest"))
    assert stream.status == 200
    assert not stream.wait_ended(0.3)

    revoke(server, "guest")

    assert stream.wait_ended()
    again = httpx2.get(
        server.url + STREAMS["kv watch"](server), headers=EVENTS | bearer(server, "guest")
    )
    assert again.status_code == 401


@pytest.mark.parametrize("kind", STREAMS)
def test_revoking_another_token_leaves_a_stream_alone(server: Running, kind: str):
    scopes = parse("read,consume,write:orders*")
    server.tokens["other"] = server.parts.auth.registry.create(scopes=scopes, creator="test").text
    path = session(server, "other") if kind == "watch" else STREAMS[kind](server)
    others = Stream(server, path, bearer(server, "other"))
    stream = Stream(server, STREAMS[kind](server), bearer(server, "guest"))

    revoke(server, "other")

    assert others.wait_ended()
    assert not stream.wait_ended(0.3)
    assert (others.status, stream.status) == (200, 200)


def test_a_stream_ends_when_who_watches_may_read_its_topic_no_longer(tmp_path: Path):
    settings = ServerSettings(live=LiveSettings(recheck_s=0.1))
    login = base64.b64encode(b"ada:correct horse").decode()
    headers = {"authorization": f"Basic {login}"}
    with running(tmp_path, settings=settings, tokens={"root": "all"}) as server:
        server.store.run('DEFINE orders FIELDS {amount: "u64"}')
        users = server.store.queries.users
        users.create("ada", key="correct horse")
        users.grant("ada", ("READ",), ["orders"])
        made = httpx2.post(
            f"{server.url}/v0/watch", json={"topics": {"orders": {}}}, headers=headers
        )
        stream = Stream(server, made.json()["stream_url"], headers)
        assert (stream.status, stream.wait_ended(0.3)) == (200, False)

        users.revoke("ada", ("READ",), ["orders"])

        assert stream.wait_ended()
    assert '"forbidden"' in stream.text


def test_nothing_is_told_on_a_stream_after_its_token_was_revoked(server: Running):
    stream = Stream(server, session(server), bearer(server, "guest"))
    revoke(server, "guest")
    assert stream.wait_ended()

    server.store.topic("orders").append(b'"too late"')

    assert "too late" not in stream.text


def test_a_session_belongs_to_whoever_made_it(server: Running):
    path = session(server, "guest")

    status = httpx2.get(server.url + path, headers=EVENTS | bearer(server, "root")).status_code

    assert status in (401, 403, 404)


def test_a_ticket_opens_a_stream_once(server: Running):
    path = session(server)
    made = httpx2.post(f"{server.url}/v0/tickets", headers=bearer(server, "guest")).json()

    first = Stream(server, f"{path}?token={made['ticket']}", {})
    second = httpx2.get(f"{server.url}{path}?token={made['ticket']}", headers=EVENTS)

    assert (first.status, second.status_code) == (200, 401)
    assert made["valid_ms"] == 30_000
    revoke(server, "guest")
    assert first.wait_ended()


def test_a_token_in_an_address_opens_nothing(server: Running):
    path = session(server)

    answer = httpx2.get(f"{server.url}{path}?token={server.tokens['guest']}", headers=EVENTS)

    assert answer.status_code == 401


def socket(server: Running, *, query: str = "", **options: object) -> ClientConnection:
    url = server.url.replace("http", "ws", 1) + "/v0/ws" + query
    return connect(url, open_timeout=DEADLINE_S, close_timeout=1, **options)


def say(ws: ClientConnection, **message: object) -> dict:
    ws.send(msgspec.json.encode(message).decode())
    return msgspec.json.decode(ws.recv(DEADLINE_S))


def until_closed(ws: ClientConnection) -> list[dict] | None:
    """What is told until the server hangs up; None when it does not."""
    told = []
    try:
        while True:
            told.append(msgspec.json.decode(ws.recv(DEADLINE_S)))
    except ConnectionClosed:
        return told
    except TimeoutError:
        return None


def test_revoking_closes_a_websocket(server: Running):
    with socket(server, additional_headers=bearer(server, "guest")) as ws:
        assert say(ws, op="subscribe", topic="orders", tail=True)["op"] == "subscribed"

        revoke(server, "guest")

        assert until_closed(ws) is not None


def test_a_websocket_may_say_who_it_is_in_its_first_message_or_with_a_ticket(server: Running):
    made = httpx2.post(f"{server.url}/v0/tickets", headers=bearer(server, "guest")).json()
    with socket(server) as ws:
        told = say(ws, op="auth", token=server.tokens["guest"])
        subscribed = say(ws, op="subscribe", topic="orders", tail=True)
    with socket(server, query=f"?token={made['ticket']}") as ws:
        by_ticket = say(ws, op="subscribe", topic="orders", tail=True)

    assert (told["op"], subscribed["op"]) == ("authenticated", "subscribed")
    assert by_ticket["op"] == "subscribed"


@pytest.mark.parametrize(
    "message",
    [
        {"op": "subscribe", "topic": "orders"},
        {"op": "publish", "topic": "orders", "records": [{"data": 1}]},
        {"op": "auth", "token": "strand1_wrong"},
    ],
    ids=lambda message: message["op"],
)
def test_a_websocket_that_does_not_say_who_it_is_may_do_nothing(server: Running, message):
    before = server.store.topic("orders").head_seq
    with socket(server) as ws:
        ws.send(msgspec.json.encode(message).decode())
        told = until_closed(ws)

    assert server.store.topic("orders").head_seq == before
    assert told is not None
    assert all(each["op"] == "error" for each in told)


def test_each_message_of_a_websocket_is_asked_about(server: Running):
    with socket(server, additional_headers=bearer(server, "guest")) as ws:
        told = [
            say(ws, op="subscribe", topic="secret"),
            say(ws, op="publish", topic="secret", records=[{"data": 1}]),
            say(ws, op="subscribe", topic="strandline.tokens"),
            say(ws, op="publish", topic="strandline.audit", records=[{"data": 1}]),
        ]

    assert [each["code"] for each in told] == ["forbidden"] * 4


def test_a_pattern_shows_only_what_one_may_read(server: Running):
    server.store.topic("other").append(b'"not for guests"')
    with socket(server, additional_headers=bearer(server, "guest")) as ws:
        ws.send(b'{"op":"subscribe","topic":"*","from_seq":0}'.decode())
        server.store.topic("other").append(b'"not for guests"')
        server.store.topic("orders").append(b'"last"')
        seen = ""
        while "last" not in seen and "forbidden" not in seen:
            seen += str(ws.recv(DEADLINE_S))

    assert "not for guests" not in seen
    assert "strandline." not in seen


@pytest.mark.parametrize("query", ["?token=ticket1_wrong", "?token={guest}"])
def test_a_websocket_with_a_wrong_ticket_is_refused(server: Running, query: str):
    told: list[dict] | None = []
    with (
        contextlib.suppress(InvalidStatus, ConnectionClosed),  # before we have said a word
        socket(server, query=query.format(guest=server.tokens["guest"])) as ws,
    ):
        ws.send('{"op": "subscribe", "topic": "orders"}')
        told = until_closed(ws)

    assert told is not None
    assert all(each["op"] == "error" for each in told)
