"""Promise: what two parsers could read in two ways is refused with 400 and the connection ends;
what is proper HTTP/1.1 or HTTP/1.0 is answered, in order, however it is cut into pieces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from websockets.sync.client import connect

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.running import Raw, Running, running

LIMITS = RequestLimits(body_bytes_max=100_000, header_bytes_max=4096, headers_max=20)
POST = b"POST /v0/topics/news HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /v0/topics HTTP/1.1\r\nHost: localhost\r\n"
UPGRADE = (
    b"GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
RECORD = b'{"records":[{"data":1}]}'

MALFORMED = {
    "length and chunks": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "a list of lengths": POST + b"Content-Length: 1, 1\r\n\r\na",
    "a signed length": POST + b"Content-Length: +1\r\n\r\na",
    "a negative length": POST + b"Content-Length: -1\r\n\r\na",
    "an empty length": POST + b"Content-Length:\r\n\r\na",
    "a length beyond counting": POST + b"Content-Length: 99999999999999999999\r\n\r\na",
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding that hides": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n",
    "a chunk size in hex notation": POST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n",
    "a chunk size beyond counting": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17,
    "a chunk that ends in LF": POST + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
    "bare LF": b"GET /v0/health HTTP/1.1\nHost: localhost\n\n",
    "bare LF in a header": GET + b"A: b\nC: d\r\n\r\n",
    "bare CR in a header": GET + b"A: b\rC: d\r\n\r\n",
    "a folded line": GET + b"A: b\r\n c\r\n\r\n",
    "a folded first line": b"GET /v0/health HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a space before the colon": GET + b"A : b\r\n\r\n",
    "a header without a name": GET + b": b\r\n\r\n",
    "NUL in a header": GET + b"A: \x00\r\n\r\n",
    "no Host": b"GET /v0/health HTTP/1.1\r\n\r\n",
    "two Hosts": GET + b"Host: localhost\r\n\r\n",
    "two Authorizations": GET + b"Authorization: a\r\nAuthorization: b\r\n\r\n",
    "another host in the target": b"GET http://other/v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a fragment": b"GET /v0/health#x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "control characters in the target": b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no such method": b"FETCH /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a method in small letters": b"get /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/0.9": b"GET /v0/health\r\n\r\n",
    "HTTP/1.2": b"GET /v0/health HTTP/1.2\r\nHost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another protocol": b"SOURCE /v0/health ICE/1.0\r\nHost: localhost\r\n\r\n",
    "TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    settings = ServerSettings(limits=LIMITS)
    with running(tmp_path_factory.mktemp("server"), settings=settings) as server:
        server.store.topic("news")
        yield server


@pytest.fixture
def raw(server: Running) -> Iterator[Raw]:
    with server.raw() as raw:
        yield raw


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_refused_and_ends_the_connection(server, raw, request_bytes):
    head_before = server.store.topic("news").head_seq

    raw.send(request_bytes)
    answer = raw.answer()

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert b'"code":"invalid_request"' in answer.body
    assert raw.is_closed
    assert server.store.topic("news").head_seq == head_before


def test_a_request_hidden_in_a_refused_one_is_never_carried_out(server, raw):
    hidden = append(RECORD)
    length = b"%x\r\n" % len(hidden)
    before = server.store.topic("news").head_seq

    raw.send(POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden)
    raw.send(length + hidden)

    assert raw.answer().status == 400
    assert raw.is_closed
    assert server.store.topic("news").head_seq == before


@pytest.mark.parametrize(
    "head",
    [
        GET + b"A: " + b"a" * 5000 + b"\r\n\r\n",
        GET + b"".join(b"A%d: b\r\n" % number for number in range(25)) + b"\r\n",
        b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["a long header", "many headers", "a long target"],
)
def test_a_head_beyond_the_limits_is_431(raw, head):
    raw.send(head)

    assert raw.answer().status == 431
    assert raw.is_closed


@pytest.mark.parametrize("size", [100, 1000, 100_000])
def test_a_header_that_never_ends_is_cut_off(raw, size):
    raw.send(GET + b"A: " + b"a" * size)
    for _ in range(100_000 // size):
        try:
            raw.send(b"a" * size)
        except OSError:
            break

    assert raw.answer().status == 431


def test_many_small_requests_in_one_piece_are_no_large_head(raw):
    raw.send((GET + b"\r\n") * 200 + GET)
    raw.send(b"\r\n")

    assert [raw.answer().status for _ in range(201)] == [200] * 201


def test_headers_behind_a_body_are_not_believed(server, raw):
    chunk = b"%x\r\n%b\r\n0\r\n" % (len(RECORD), RECORD)

    raw.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"Idempotency-Key: k\r\n\r\n")
    first = raw.answer()
    raw.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"Idempotency-Key: k\r\n\r\n")
    second = raw.answer()

    assert first.status == second.status == 200
    assert b'"deduped":false' in second.body


def test_http_1_0_is_answered_and_the_connection_ends(raw):
    raw.send(b"GET /v0/topics HTTP/1.0\r\nHost: localhost\r\n\r\n")

    assert raw.answer().status == 200
    assert raw.is_closed


def test_head_is_answered_without_a_body(raw):
    raw.send(GET.replace(b"GET", b"HEAD") + b"\r\n" + GET + b"\r\n")

    told = raw.answer(to_head=True)

    assert told.status == 200
    assert int(told.headers["content-length"]) > 0
    assert raw.answer().status == 200


def test_a_target_may_name_the_host_that_host_names(raw):
    raw.send(b"GET http://localhost/v0/topics HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert raw.answer().status == 200


def test_connection_close_is_heeded(raw):
    raw.send(append(RECORD, b"Connection: close\r\n"))

    assert raw.answer().status == 200
    assert raw.is_closed


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(raw):
    raw.send(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(RECORD))
    told = raw.answer()
    raw.send(RECORD)

    assert told.status == 100
    assert raw.answer().status == 200


def test_a_body_in_chunks_is_taken_up_to_the_limit(raw):
    raw.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    for byte in RECORD:
        raw.send(b"1\r\n%c\r\n" % byte)
    raw.send(b"0\r\n\r\n")
    small = raw.answer()
    raw.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    raw.send(b"%x\r\n%b\r\n0\r\n\r\n" % (150_000, b" " * 150_000))
    large = raw.answer()

    assert small.status == 200
    assert large.status == 413


def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(raw):
    raw.send(POST + b"Content-Length: 100001\r\n\r\n")

    assert raw.answer().status == 413


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 8000000\r\n\r\n", b" " * 8_000_000),
        (
            b"Transfer-Encoding: chunked\r\n\r\n",
            b"7a1200\r\n" + b" " * 8_000_000 + b"\r\n0\r\n\r\n",
        ),
    ],
    ids=["of known length", "in chunks"],
)
def test_a_client_hears_why_its_large_body_is_not_wanted(raw, head, body):
    raw.send(POST + head + body)

    assert raw.answer().status == 413
    assert raw.is_closed


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_requests_cut_into_pieces_are_the_same_requests(server, raw, size):
    stream = append(RECORD) + GET + b"\r\n" + append(b'{"records":[]}') + append(RECORD)

    for first in range(0, len(stream), size):
        raw.send(stream[first : first + size])
    statuses = [raw.answer().status for _ in range(4)]

    assert statuses == [200, 200, 400, 200]


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_pipelined_requests_are_answered_in_their_order(server, raw, durability):
    topic = server.store.topic(f"ordered-{durability}", durability=durability)
    warm_up = append(RECORD, topic=topic.name)
    raw.send(warm_up)
    assert raw.answer().status == 200
    first = topic.head_seq + 1

    raw.send((append(RECORD, topic=topic.name) * 3 + GET + b"\r\n") * 20)
    answers = [raw.answer() for _ in range(80)]

    seqs = [answer.body.split(b'"first_seq":')[1].split(b",")[0] for answer in _appends(answers)]
    assert [int(seq) for seq in seqs] == list(range(first, first + 60))
    assert all(b'"topics":[' in answer.body for answer in answers[3::4])


def test_an_append_that_need_not_wait_waits_for_the_answers_before_it(server, raw):
    for name, durability in (("slow", "fsync"), ("quick", "disk")):
        server.store.topic(name, durability=durability)
        raw.send(append(RECORD, topic=name))
        assert raw.answer().status == 200

    raw.send((append(RECORD, topic="slow") + append(RECORD, topic="quick")) * 20)
    answers = [raw.answer().body for _ in range(40)]

    assert [b'"topic":"slow"' in answer for answer in answers] == [True, False] * 20


def test_what_is_malformed_behind_good_requests_does_not_cost_them_their_answers(server, raw):
    server.store.topic("safe", durability="fsync")
    raw.send(append(RECORD, topic="safe"))
    assert raw.answer().status == 200

    raw.send(append(RECORD, topic="safe") * 5 + GET + b"\r\n" + MALFORMED["bare LF"])
    statuses = [raw.answer().status for _ in range(7)]

    assert statuses == [200] * 6 + [400]
    assert raw.is_closed


def test_an_upgrade_to_something_unknown_is_an_ordinary_last_request(raw):
    raw.send(GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n" + GET + b"\r\n")

    assert raw.answer().status == 200
    assert raw.is_closed


def test_a_websocket_is_a_connection_like_the_others(server):
    before = len(server.listener.connections.open)

    with connect(f"ws://127.0.0.1:{server.port}/v0/ws") as opened:
        opened.send('{"op":"ping","request_id":"1"}')
        answer = opened.recv(timeout=30)
        during = len(server.listener.connections.open)

    assert "pong" in answer
    assert during == before + 1
    _until(lambda: len(server.listener.connections.open) == before)


def test_a_websocket_behind_requests_that_are_owed_their_answers_is_refused(server, raw):
    server.store.topic("safe", durability="fsync")
    raw.send(append(RECORD, topic="safe"))
    assert raw.answer().status == 200

    raw.send(append(RECORD, topic="safe") * 5 + UPGRADE)

    assert [raw.answer().status for _ in range(6)] == [200] * 5 + [400]
    assert raw.is_closed


def test_half_a_request_and_a_hang_up_leave_nothing_behind(server):
    topic = server.store.topic("news")
    before = topic.head_seq
    for size in range(1, len(append(RECORD)), 7):
        with server.raw() as raw:
            raw.send(append(RECORD)[:size])

    with server.raw() as raw:
        raw.send(GET + b"\r\n")
        assert raw.answer().status == 200

    assert topic.head_seq == before


def test_whoever_hangs_up_before_his_answers_come_leaves_no_complaint(server, caplog):
    server.store.topic("safe", durability="fsync")
    for _ in range(10):  # together less than in_flight_per_token_max
        with server.raw() as raw:
            raw.send(append(RECORD, topic="safe") * 50 + GET + b"\r\n")

    with server.raw() as raw:
        raw.send(append(RECORD, topic="safe") + GET + b"\r\n")
        statuses = [raw.answer().status, raw.answer().status]

    assert statuses == [200, 200]
    assert caplog.messages == []


def append(body: bytes, headers: bytes = b"", topic: str = "news") -> bytes:
    head = POST.replace(b"/news", b"/" + topic.encode())
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (head, headers, len(body), body)


def _appends(answers):
    return [answer for number, answer in enumerate(answers) if number % 4 != 3]


def _until(true: Callable[[], bool]) -> None:
    gate = threading.Event()
    for _ in range(1000):
        if true():
            return
        gate.wait(0.01)
    raise AssertionError("it did not come true in time")
