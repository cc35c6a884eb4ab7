"""Promise: all bytes that requests hold in a server have one bound, and one client gets half of it.
What is beyond it is refused with 503 and Retry-After, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import gzip
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from strandline.api.errors import Refused
from strandline.errors import Invalid
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.serve import Server
from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import Raw, Running, running

BODY_MAX = 100_000
LIMITS = RequestLimits(body_bytes_max=BODY_MAX, in_flight_bytes_max=4 * BODY_MAX)
RECORD = b'{"records":[{"data":1}]}'
UPGRADE = (
    "GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("budget")
    tokens = {"greedy": "all", "other": "all"}
    with running(path, settings=ServerSettings(limits=LIMITS), tokens=tokens) as started:
        started.store.topic("orders")
        yield started


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        server: Running = request.getfixturevalue("server")
        until(lambda: server.parts.budget.used == 0)


def test_one_client_gets_half_and_all_of_them_the_whole():
    budget = ByteBudget(RequestLimits(body_bytes_max=10, in_flight_bytes_max=100))
    holds = [budget.hold(client) for client in ("a", "b", "c")]

    holds[0].resize(50)
    with pytest.raises(Refused, match="of one client"):
        holds[0].resize(51)
    holds[1].resize(49)
    with pytest.raises(Refused, match="of all clients"):
        holds[2].resize(2)
    holds[2].resize(1)

    assert budget.used == 100
    for hold in (*holds, *holds):
        hold.release()
    assert budget.used == 0


def test_a_budget_that_a_body_could_never_fit_is_refused_at_the_start(tmp_path):
    limits = RequestLimits(body_bytes_max=100, in_flight_bytes_max=399)

    with pytest.raises(Invalid, match="at least 4 times"):
        Server(ServerSettings(data=str(tmp_path), limits=limits))


@pytest.mark.parametrize("path", ["hot", "application"])
def test_unfinished_bodies_count_and_the_next_one_is_refused(server: Running, path: str):
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            unfinished_body(stack, server, 95_000, path)
        until(lambda: server.parts.budget.used >= 190_000)

        third = unfinished_body(stack, server, 50_000, path)
        answer = third.answer()
        of_other = append(server, "other", RECORD)

    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"
    assert b'"overloaded"' in answer.body
    assert of_other == 200


def test_unpacked_bytes_count(server: Running):
    bomb = gzip.compress(b" " * 90_000)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            unfinished_body(stack, server, 90_000, "application")
        until(lambda: server.parts.budget.used >= 180_000)

        status = append(server, "greedy", bomb, "Content-Encoding: gzip\r\n")

    assert status == 503
    assert append(server, "greedy", gzip.compress(RECORD), "Content-Encoding: gzip\r\n") == 200


@pytest.mark.parametrize("fragments", [False, True])
def test_unfinished_messages_count_and_the_connection_ends(server: Running, fragments: bool):
    with contextlib.ExitStack() as stack:
        held = unfinished_message(stack, server, 90_000, fragments=fragments)
        more = unfinished_message(stack, server, 90_000, fragments=fragments)
        until(lambda: server.parts.budget.used >= 180_000)

        third = unfinished_message(stack, server, 50_000, fragments=fragments)
        code = struct.unpack("!H", third.rest()[2:4])[0]
        of_other = append(server, "other", RECORD)
        del held, more

    assert code == 1013
    assert of_other == 200


def test_unfinished_heads_count_without_a_token(server: Running):
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(server.raw()) for _ in range(7)]
        for number, raw in enumerate(raws, 1):
            raw.send(b"GET / HTTP/1.1\r\nA: " + b"a" * 30_000)
            if number < 7:
                until(lambda: server.parts.budget.used >= 30_000 * number)  # noqa: B023

        assert raws[-1].answer().status == 503
        assert append(server, "other", RECORD) == 200


def test_requests_that_wait_for_the_answers_before_them_count(server: Running):
    with server.raw() as raw:
        raw.send(b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)

        assert b" 503 " in raw.rest()


def test_more_than_256_requests_do_not_wait_on_one_connection(tmp_path):
    with running(tmp_path) as server, server.raw() as raw:
        raw.send(b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        received = raw.rest()

    assert received.count(b"HTTP/1.1 ") < 300
    assert b" 429 " in received


def unfinished_body(stack: contextlib.ExitStack, server: Running, size: int, path: str) -> Raw:
    assert append(server, "greedy", RECORD) == 200  # the hot path knows its head
    encoding = "" if path == "hot" else "Content-Encoding: identity\r\n"
    raw = stack.enter_context(server.raw())
    raw.send(head(server, "greedy", 99_000, encoding) + b" " * size)
    return raw


def unfinished_message(
    stack: contextlib.ExitStack, server: Running, size: int, *, fragments: bool
) -> Raw:
    raw = socket(stack, server)
    if fragments:
        raw.send(b"\x01\x80" + bytes(4))
        raw.send((struct.pack("!BBH", 0x00, 0x80 | 126, 1000) + bytes(1004)) * (size // 1000))
    else:
        raw.send(struct.pack("!BBQ", 0x82, 0x80 | 127, 99_000) + bytes(4) + b" " * size)
    return raw


def socket(stack: contextlib.ExitStack, server: Running) -> Raw:
    raw = stack.enter_context(server.raw())
    raw.send(f"{UPGRADE}Authorization: Bearer {server.tokens['greedy']}\r\n\r\n".encode())
    assert raw.answer().status == 101
    return raw


def append(server: Running, token: str, body: bytes, more: str = "") -> int:
    with server.raw() as raw:
        raw.send(head(server, token, len(body), more) + body)
        return raw.answer().status


def head(server: Running, token: str, size: int, more: str = "") -> bytes:
    return (
        f"POST /v0/topics/orders HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {server.tokens[token]}\r\n{more}"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def until(true: Callable[[], bool]) -> None:
    gate = threading.Event()
    for _ in range(1000):
        if true():
            return
        gate.wait(0.01)
    raise AssertionError("it did not come true in time")


@pytest.mark.parametrize("packs", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("media_type", "around", "between"),
    [("application/json", b'{"records":[%b]}', b","), ("application/x-ndjson", b"%b", b"\n")],
    ids=["json", "ndjson"],
)
def test_objects_in_a_body_are_counted_before_it_is_decoded(
    tmp_path, media_type, around, between, packs
):
    limits = RequestLimits(json_objects_max=30)
    headers = {"Content-Type": media_type} | ({"Content-Encoding": "gzip"} if packs else {})

    def body(count: int) -> bytes:
        records = between.join([b'{"data":0}'] * count)
        return gzip.compress(around % records) if packs else around % records

    with running(tmp_path, settings=ServerSettings(limits=limits)) as server:
        server.store.topic("orders")
        with Asking(server) as asking:
            asking.raw("POST", "/v0/topics/orders", body(28), headers)
            with pytest.raises(Refusal, match="json_objects_max") as refused:
                asking.raw("POST", "/v0/topics/orders", body(31), headers)

    assert refused.value.status == 413
