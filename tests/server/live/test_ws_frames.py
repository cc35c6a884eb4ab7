"""Promise: however the bytes of a WebSocket are cut, and whatever frames stand between messages,
these are answered in their order; what breaks the protocol ends the connection and no other."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from strandline.server.live.ws_protocol import LiveWebSocket
from tests.server.running import Raw, Running, running

UPGRADE = (
    b"GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, CONTINUED, CLOSE, PING, PONG = 1, 0, 8, 9, 10


def frame(message: bytes, kind: int = TEXT, *, final: bool = True, masked: bool = True) -> bytes:
    size = len(message)
    bits = (0x80 if final else 0) | kind
    if size < 126:
        head = struct.pack("!BB", bits, 0x80 * masked | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", bits, 0x80 * masked | 126, size)
    else:
        head = struct.pack("!BBQ", bits, 0x80 * masked | 127, size)
    if not masked:
        return head + message
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(message))


def publish(topic: str, data: Any, request_id: Any = None) -> bytes:
    message = {"op": "publish", "topic": topic, "records": [{"data": data}]}
    return json.dumps(message | {"request_id": request_id}).encode()


class Frames:
    """What comes from a server, frame by frame."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.raw.send(UPGRADE)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += raw._exactly(1)
        assert head.startswith(b"HTTP/1.1 101 ")

    def next(self) -> tuple[int, bytes]:
        bits, size = self.raw._exactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", self.raw._exactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.raw._exactly(8))
        return bits & 0x0F, self.raw._exactly(size)

    def message(self) -> Any:
        kind, data = self.next()
        assert kind == TEXT, data
        return json.loads(data)

    def code(self) -> int:
        """The code with which the server closes, after whatever it says before."""
        while (found := self.next())[0] != CLOSE:
            pass
        return int.from_bytes(found[1][:2], "big")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("frames")) as found:
        yield found


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_messages_cut_anywhere_are_acknowledged_in_their_order(server, durability):
    topic = server.store.topic(f"cut-{durability}", durability=durability)
    sent = b"".join(frame(publish(topic.name, number, number)) for number in range(4))
    sent += frame(b"", PING) + frame(publish(topic.name, "x" * 300, 4))
    rounds = 0
    for size in range(1, len(sent), 41):
        with server.raw() as raw:
            frames = Frames(raw)
            raw.send(sent[:size])
            raw.send(sent[size:])
            told = [frames.next() for _ in range(6)]
        acks = [json.loads(data)["request_id"] for kind, data in told if kind == TEXT]
        assert acks == [0, 1, 2, 3, 4]
        rounds += 1

    data = [json.loads(record.data) for record in topic.read(limit=1000).records]
    assert data == [0, 1, 2, 3, "x" * 300] * rounds


@pytest.mark.parametrize("left", [1, 7, 40])
def test_what_uvicorn_needs_to_end_a_frame_is_no_more_than_that(server, monkeypatch, left):
    """Three reads: a part of a frame that uvicorn answers, a few bytes more of it, and the rest."""
    topic = server.store.topic(f"owed-{left}")
    first, last = publish(topic.name, "in two pieces", 1), publish(topic.name, "behind", 2)
    sent = frame(b"p" * 100, PING) + frame(first[:60], final=False) + frame(first[60:], CONTINUED)
    sent += frame(last) + frame(b"", PING) + frame(publish(topic.name, "end", 3))
    cuts = range(0, len(sent) - left, 23)
    received = LiveWebSocket.data_received

    def in_three(self: LiveWebSocket, data: bytes) -> None:
        cut = cuts[min(rounds, len(cuts) - 1)]
        pieces = [data[:cut], data[cut : cut + left], data[cut + left :]]
        for piece in pieces if len(data) == len(sent) else [data]:
            if piece:
                received(self, piece)

    monkeypatch.setattr(LiveWebSocket, "data_received", in_three)
    rounds = 0
    while rounds < len(cuts):
        with server.raw() as raw:
            frames = Frames(raw)
            raw.send(sent)
            told = [frames.next() for _ in range(5)]
        acks = [json.loads(data)["request_id"] for kind, data in told if kind == TEXT]
        assert acks == [1, 2, 3]
        assert [data for kind, data in told if kind == PONG] == [b"p" * 100, b""]
        rounds += 1

    data = [json.loads(record.data) for record in topic.read(limit=1000).records]
    assert data == ["in two pieces", "behind", "end"] * rounds


def test_a_message_in_pieces_stands_where_its_end_came(server):
    topic = server.store.topic("pieces")
    whole, after = publish("pieces", "whole", 1), publish("pieces", "after", 2)
    with server.raw() as raw:
        frames = Frames(raw)
        raw.send(
            frame(whole[:20], final=False)
            + frame(b"", PING)
            + frame(whole[20:], CONTINUED)
            + frame(after)
        )
        told = [frames.next() for _ in range(3)]

    acks = [json.loads(data)["request_id"] for kind, data in told if kind == TEXT]
    assert acks == [1, 2]
    assert [record.data for record in topic.read().records] == [b'"whole"', b'"after"']


def test_publishes_wait_for_what_came_before_them(server):
    server.store.topic("before").append(b"0")
    subscribe = json.dumps({"op": "subscribe", "topic": "before", "request_id": 1}).encode()
    make = publish("made-by-a-publish", 1, 2)
    with server.raw() as raw:
        frames = Frames(raw)
        raw.send(frame(subscribe) + frame(make) + frame(publish("before", 5, 3)))
        told = []
        while not told or told[-1].get("request_id") != 3:
            told.append(frames.message())

    asked = [message["request_id"] for message in told if "request_id" in message]
    assert asked == [1, 2, 3]


def test_a_large_message_between_small_ones_keeps_its_place(server):
    topic = server.store.topic("large")
    sizes = (1, 900_000, 1, 70_000, 1)
    with server.raw() as raw:
        frames = Frames(raw)
        for number, size in enumerate(sizes):
            raw.send(frame(publish("large", "x" * size, number)))
        acks = [frames.message()["request_id"] for _ in sizes]

    assert acks == [0, 1, 2, 3, 4]
    assert [len(record.data) - 2 for record in topic.read().records] == list(sizes)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(b"{}", masked=False), 1002),
        (frame(b"x", final=False) + frame(publish("broken", 1)), 1002),
        (frame(b"\xff\xfe"), 1007),
        (frame(b"x" * 126, PING), 1002),
        (b"\xc1" + frame(b"{}")[1:], 1002),
        (frame(b"", CLOSE), 1005),
    ],
    ids=["not masked", "a text in a text", "not UTF-8", "a long ping", "a reserved bit", "a close"],
)
def test_what_breaks_the_protocol_ends_the_connection(server, sent, code):
    topic = server.store.topic("broken")
    with server.raw() as raw:
        frames = Frames(raw)
        raw.send(frame(publish("broken", 0, 1)))
        assert frames.message()["op"] == "ack"
        before = topic.head_seq
        raw.send(sent)

        assert frames.code() in (code, 0)
        assert topic.head_seq == before
