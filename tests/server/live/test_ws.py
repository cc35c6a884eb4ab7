"""Promise: one WebSocket subscribes, unsubscribes, publishes and pings; errors name their request,
acks come in the order of the publishes, and rights are looked at for every message."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from strandline.server.settings import LiveSettings, RequestLimits, ServerSettings
from tests.server.live.watching import DEADLINE_S, post
from tests.server.running import Running, running


class Socket:
    """A client that speaks JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def next(self) -> Any:
        return json.loads(self.connection.recv(timeout=DEADLINE_S))

    def until(self, op: str, **wanted: Any) -> list[Any]:
        found = []
        while True:
            found.append(self.next())
            fits = all(found[-1].get(key) == value for key, value in wanted.items())
            if found[-1]["op"] == op and fits:
                return found

    def ask(self, **message: Any) -> Any:
        """The answer to a message, told by its id."""
        self.send(request_id="asked", **message)
        while (answer := self.next()).get("request_id") != "asked":
            pass
        return answer


@contextmanager
def socket(server: Running, token: str = "", query: str = "") -> Iterator[Socket]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{server.url.replace('http', 'ws')}/v0/ws{query}"
    with connect(url, additional_headers=headers, max_size=None) as connection:
        yield Socket(connection)


def seqs(messages: list[Any]) -> list[int]:
    told = [message for message in messages if message["op"] == "record"]
    return [record["$seq"] for message in told for record in message["records"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("ws")) as found:
        yield found


def test_history_comes_first_then_caught_up_then_what_is_new(server):
    topic = server.store.topic("history")
    topic.append_many([b"1", b"2"])

    with socket(server) as client:
        subscribed = client.ask(op="subscribe", topic="history")
        messages = client.until("caught_up")
        topic.append(b"3")
        messages += client.until("record")

    assert subscribed["op"] == "subscribed"
    assert subscribed["topics"] == {"history": {"from_seq": 0, "head_seq": 2, "earliest_seq": 1}}
    assert seqs(messages) == [1, 2, 3]
    assert messages[-1]["from_seq"] == 2
    assert messages[-1]["to_seq"] == 3


def test_topics_may_be_many_and_each_begins_where_it_says(server):
    for name in ("many.a", "many.b"):
        server.store.topic(name).append_many([b"1", b"2", b"3"])

    with socket(server) as client:
        client.send(op="subscribe", topics={"many.a": {"from_seq": 2}, "many.b": {"tail": True}})
        messages = client.until("caught_up", topic="many.a")
        messages += client.until("caught_up", topic="many.b") if not _caught(messages) else []

    assert seqs(messages) == [3]


def _caught(messages: list[Any]) -> bool:
    return any(m["op"] == "caught_up" and m["topic"] == "many.b" for m in messages)


def test_after_unsubscribing_nothing_more_is_told(server):
    topic = server.store.topic("leave")

    with socket(server) as client:
        client.send(op="subscribe", topic="leave")
        client.until("caught_up")
        left = client.ask(op="unsubscribe", topic="leave")
        topic.append(b"1")
        answer = client.ask(op="ping")

    assert left == {"op": "unsubscribed", "request_id": "asked", "topics": ["leave"]}
    assert answer["op"] == "pong"


def test_a_publish_is_acknowledged_and_told_to_subscribers(server):
    with socket(server) as client:
        ack = client.ask(op="publish", topic="made", records=[{"data": {"a": 1}, "tag": "t"}])
        client.send(op="subscribe", topic="made", include_tags=True)
        (message,) = [each for each in client.until("caught_up") if each["op"] == "record"]

    assert (ack["op"], ack["first_seq"], ack["created"]) == ("ack", 1, True)
    assert message["records"][0]["data"] == {"a": 1}
    assert message["records"][0]["$tag"] == "t"


@pytest.mark.parametrize("durability", ["disk", "fsync", "memory", "ephemeral"])
def test_publishes_in_a_window_are_acknowledged_in_their_order(server, durability):
    topic = server.store.topic(f"window-{durability}", durability=durability)

    with socket(server) as client:
        for number in range(500):
            client.send(
                op="publish", topic=topic.name, records=[{"data": number}], request_id=number
            )
        acks = [client.next() for _ in range(500)]

    assert [ack["request_id"] for ack in acks] == list(range(500))
    assert [ack["first_seq"] for ack in acks] == list(range(1, 501))
    assert topic.head_seq == 500


def test_an_ack_never_overtakes_that_of_a_slower_topic(server):
    server.store.topic("slower", durability="fsync")
    server.store.topic("faster", durability="disk")

    with socket(server) as client:
        for number in range(300):
            topic = "faster" if number % 3 else "slower"
            client.send(op="publish", topic=topic, records=[{"data": 1}], request_id=number)
        acks = [client.next()["request_id"] for _ in range(300)]

    assert acks == list(range(300))


def test_what_is_published_counts_in_bytes(tmp_path):
    settings = ServerSettings(limits=RequestLimits(bytes_per_s=10.0))
    with running(tmp_path, settings=settings) as server:
        server.store.topic("large")
        with socket(server) as client:
            records = [{"data": "x" * 1000}]
            first = client.ask(op="publish", topic="large", records=records)
            second = client.ask(op="publish", topic="large", records=records)

        assert server.store.topic("large").head_seq == 1
    assert first["op"] == "ack"
    assert (second["op"], second["code"]) == ("error", "throttled")


def test_a_publish_with_an_idempotency_key_counts_once(server):
    with socket(server) as client:
        acks = [
            client.ask(op="publish", topic="once", records=[{"data": 1}], idempotency_key="k")
            for _ in range(2)
        ]

    assert [ack["deduped"] for ack in acks] == [False, True]
    assert server.store.topic("once").head_seq == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"op": "subscribe", "topic": "never"}, "topic_not_found"),
        ({"op": "subscribe"}, "invalid_request"),
        ({"op": "subscribe", "topic": "a*b"}, "invalid_request"),
        ({"op": "publish", "topic": "p", "records": []}, "invalid_request"),
        ({"op": "publish", "topic": "no", "records": [{"data": 1}], "create": False},
         "topic_not_found"),
        ({"op": "nonsense"}, "invalid_request"),
        ({"op": "auth", "token": "x"}, "invalid_request"),
    ],
)  # fmt: skip
def test_an_error_names_its_request_and_the_connection_goes_on(server, message, code):
    with socket(server) as client:
        error = client.ask(**message)
        after = client.ask(op="ping")

    assert (error["op"], error["code"]) == ("error", code)
    assert after["op"] == "pong"


def test_text_that_is_no_json_is_an_error_and_the_connection_goes_on(server):
    with socket(server) as client:
        client.connection.send("{")
        error = client.next()
        client.connection.send(b"\xff\xfe")
        other = client.next()
        after = client.ask(op="ping")

    assert error["code"] == other["code"] == "invalid_request"
    assert after["op"] == "pong"


def test_large_messages_arrive_whole(server):
    data = "x" * 500_000
    with socket(server) as client:
        ack = client.ask(op="publish", topic="large", records=[{"data": data}])
        client.send(op="subscribe", topic="large")
        messages = client.until("caught_up")

    assert ack["op"] == "ack"
    assert messages[1]["records"][0]["data"] == data


def test_a_deleted_topic_is_told_and_one_made_anew_comes_from_its_beginning(server):
    server.store.topic("phoenix").append_many([b"1", b"2", b"3"])

    with socket(server) as client:
        client.send(op="subscribe", topic="phoenix")
        client.until("caught_up")
        server.store.delete_topic("phoenix")
        deleted = client.until("topic_deleted")[-1]
        server.store.topic("phoenix").append_many([b"1", b"2"])
        messages = client.until("record", to_seq=2)  # it may be caught up with an empty one before

    assert deleted["head_seq"] == 3
    assert seqs(messages) == [1, 2]


def test_who_says_who_he_is_by_header_ticket_or_first_message_is_let_in(tmp_path: Path):
    with running(tmp_path, tokens={"ada": "read,write,create:orders*"}) as server:
        server.store.topic("orders").append(b"1")
        server.store.topic("secret").append(b"1")
        ada = server.tokens["ada"]
        _, ticket = post(server, "/v0/tickets", {}, ada)

        with socket(server, token=ada) as client:
            by_header = client.ask(op="subscribe", topic="orders")
            forbidden = client.ask(op="subscribe", topic="secret")
            unwritten = client.ask(op="publish", topic="secret", records=[{"data": 1}])
        with socket(server, query=f"?token={ticket['ticket']}") as client:
            by_ticket = client.ask(op="subscribe", topic="orders")
        with socket(server) as client:
            client.send(op="auth", token=ada)
            said = client.next()
            by_message = client.ask(op="subscribe", topic="orders")

        assert by_header["op"] == by_ticket["op"] == by_message["op"] == "subscribed"
        assert said["op"] == "authenticated"
        assert forbidden["code"] == unwritten["code"] == "forbidden"
        assert server.store.topic("secret").head_seq == 1


def test_who_does_not_say_who_he_is_is_shown_out(tmp_path: Path):
    with running(tmp_path, tokens={"ada": "read:*"}) as server:
        server.store.topic("orders").append(b"1")
        ends = []
        for first in (
            {"op": "subscribe", "topic": "orders"},
            {"op": "auth", "token": "strand1_wrong"},
        ):
            with socket(server) as client:
                client.send(**first)
                error = client.next()
                with pytest.raises(ConnectionClosed) as closed:
                    client.next()
                ends.append((error["code"], closed.value.rcvd.code))
        with (
            pytest.raises((InvalidStatus, ConnectionClosed)),
            socket(server, token="strand1_wrong") as client,
        ):
            client.next()

        assert ends == [("unauthorized", 1008)] * 2


def test_connections_are_told_that_the_server_goes_down(tmp_path: Path):
    with running(tmp_path) as server:
        server.store.topic("down")
        with socket(server) as client:
            client.send(op="subscribe", topic="down")
            client.until("caught_up")

            server.stop()
            last = client.until("error")[-1]
            with pytest.raises(ConnectionClosed) as closed:
                client.next()

        assert last["code"] == "shutting_down"
        assert closed.value.rcvd.code == 1001


def test_a_socket_that_does_not_read_delays_nobody(tmp_path: Path):
    live = LiveSettings(queue_bytes_max=64 * 1024, grace_s=60.0, stalled_s_max=60.0)
    with running(tmp_path, settings=ServerSettings(live=live)) as server:
        topic = server.store.topic("slow")
        big = b'"%b"' % (b"x" * 50_000)
        with socket(server) as stalled, socket(server) as reader:
            stalled.send(op="subscribe", topic="slow")
            reader.send(op="subscribe", topic="slow")
            reader.until("caught_up")

            for seq in range(1, 401):
                topic.append(big)
                reader.until("record", to_seq=seq)
            messages: list[Any] = []
            taking = threading.Thread(
                target=lambda: messages.extend(stalled.until("record", to_seq=400))
            )
            taking.start()
            taking.join(DEADLINE_S)

        assert seqs(messages) == list(range(1, 401))


def test_who_publishes_and_does_not_read_the_acks_is_not_read_from_either(tmp_path: Path):
    live = LiveSettings(queue_bytes_max=64 * 1024, grace_s=60.0, stalled_s_max=60.0)
    with running(tmp_path, settings=ServerSettings(live=live)) as server:
        topic = server.store.topic("acks")
        with server.raw() as raw:
            raw.send(
                b"GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
                b"Sec-WebSocket-Version: 13\r\n\r\n"
            )
            assert raw.answer().status == 101
            publishing = threading.Thread(
                target=raw.send, args=(b"".join(map(masked, range(400))),)
            )
            publishing.start()
            publishing.join(1.0)
            most = max(stream.waiting() for stream in server.parts.hub.streams)
            placed = topic.head_seq
            numbers = []
            for _ in range(400):
                _, kind, size = struct.unpack("!BBH", raw._exactly(4))
                assert kind == 126
                numbers.append(int(json.loads(raw._exactly(size))["request_id"][:4]))
            publishing.join(DEADLINE_S)

        assert placed < 400
        assert most < 1024 * 1024
        assert numbers == list(range(400))


def masked(number: int) -> bytes:
    """A publish as a client's frame; its id comes back with the ack, and a mask of zeros does
    nothing."""
    text = json.dumps(
        {
            "op": "publish",
            "topic": "acks",
            "records": [{"data": 1}],
            "request_id": f"{number:04}" + "x" * 50_000,
        }
    ).encode()
    return struct.pack("!BBH", 0x81, 0x80 | 126, len(text)) + bytes(4) + text
