"""Promise: a WebSocket that is not authenticated may send 4 KiB in all, in any frames, and ends
without a line in the log; an authenticated one may send messages as large as a body."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
import structlog
from websockets.sync.client import connect

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.live.watching import DEADLINE_S
from tests.server.running import Running, running

UPGRADE = (
    b"GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
LARGE = json.dumps({"op": "publish", "topic": "orders", "records": [{"data": "x" * 500_000}]})


def frame(head: int, data: bytes, size: int | None = None) -> bytes:
    """A client's frame; its mask is zeros, and its size may be a promise."""
    size = len(data) if size is None else size
    if size < 126:
        return bytes([head, 0x80 | size]) + bytes(4) + data
    return struct.pack("!BBQ", head, 0x80 | 127, size) + bytes(4) + data


FLOODS = {
    "the beginning of a long text": frame(0x81, b"x" * 10_000, size=60_000_000),
    "the beginning of long bytes": frame(0x82, b"x" * 10_000, size=60_000_000),
    "a text of 5000 bytes": frame(0x81, b"x" * 5000),
    "fragments of one byte": frame(0x01, b"x") + frame(0x00, b"x") * 1000,
    "empty fragments": frame(0x01, b"") + frame(0x00, b"") * 1000,
    "pings": frame(0x89, b"x" * 100) * 100,
}
NOISE = {
    "nothing": b"",
    "a close frame": frame(0x88, b"\x03\xe8"),
    "no UTF-8": frame(0x81, b"\xff\xfe"),
    "no JSON": frame(0x81, b"{"),
    "a wrong token": frame(0x81, b'{"op":"auth","token":"strand1_x"}'),
    "no mask": b"\x81\x01a",
    "a reserved opcode": b"\x83\x80\0\0\0\0",
    "a continuation of nothing": frame(0x00, b"x"),
    "too much": frame(0x81, b"x" * 10_000),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("ws"), tokens={"root": "all"}) as started:
        started.store.topic("orders")
        yield started


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_what_is_not_authenticated_may_send_4_kib(server: Running, flood: bytes):
    with server.raw() as raw:
        raw.send(UPGRADE)
        assert raw.answer().status == 101
        raw.send(flood)

        assert close_code(raw.rest()) == 1009


def test_after_authentication_messages_may_be_large(server: Running):
    token = server.tokens["root"]
    url = f"{server.url.replace('http', 'ws')}/v0/ws"

    with connect(url) as by_message:
        by_message.send(json.dumps({"op": "auth", "token": token}))
        by_message.recv(timeout=DEADLINE_S)
        by_message.send([LARGE[:300_000], LARGE[300_000:]])
        first = json.loads(by_message.recv(timeout=DEADLINE_S))
    with connect(url, additional_headers={"Authorization": f"Bearer {token}"}) as by_header:
        by_header.send(LARGE)
        second = json.loads(by_header.recv(timeout=DEADLINE_S))

    assert (first["op"], second["op"]) == ("ack", "ack")


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_noise_leaves_no_line_in_the_log(server: Running, noise: bytes, caplog):
    with structlog.testing.capture_logs() as logged:
        with server.raw() as raw:
            raw.send(UPGRADE)
            assert raw.answer().status == 101
            raw.send(noise)
            if noise:
                raw.rest()
        wait_until_quiet(server)

    assert logged == []
    assert caplog.messages == []


def test_a_handshake_that_is_refused_leaves_no_line_in_the_log(server: Running, caplog):
    with server.raw() as raw:
        raw.send(UPGRADE.replace(b"/v0/ws", b"/v0/nothing"))
        assert raw.answer().status == 404
    wait_until_quiet(server)

    assert caplog.messages == []


def test_objects_of_a_message_are_counted_before_it_is_decoded(tmp_path):
    settings = ServerSettings(limits=RequestLimits(json_objects_max=30))
    message = {"op": "publish", "topic": "orders", "records": [{"data": 1}] * 31, "request_id": 7}
    with running(tmp_path, settings=settings) as server:
        server.store.topic("orders")
        with connect(f"ws{server.url[4:]}/v0/ws") as socket:
            socket.send(json.dumps(message))
            refused = json.loads(socket.recv(DEADLINE_S))
            socket.send('{"op": "ping", "request_id": 8}')
            answered = json.loads(socket.recv(DEADLINE_S))

    assert refused["op"] == "error"
    assert refused["request_id"] == 7
    assert (refused["status"], refused["detail"]["limit"]) == (413, "json_objects_max")
    assert answered["request_id"] == 8


def close_code(received: bytes) -> int:
    """The code of the close frame at the end of what a server sent; 0 when there is none."""
    code = 0
    while len(received) >= 2:
        size = received[1]
        head = 2 if size < 126 else 4
        if size == 126:
            (size,) = struct.unpack_from("!H", received, 2)
        if received[0] == 0x88:
            (code,) = struct.unpack_from("!H", received, head)
        received = received[head + size :]
    return code


def wait_until_quiet(server: Running) -> None:
    """Until every connection of the server has ended, with its application."""
    state = server.listener._state
    for _ in range(3000):
        if not state.connections and not state.tasks:
            return
        server.on_loop(lambda: None)
    raise AssertionError("a connection never ended")
