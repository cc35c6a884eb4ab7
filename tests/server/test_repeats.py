"""Promise: a head that is known by its bytes changes nothing but the time it takes. What may have
changed since the first one like it is asked each time; bodies that only look plain are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.api.records import data_of
from strandline.config.settings import LimitSettings, Settings
from strandline.errors import StrandlineError
from strandline.server.connection import head_cache
from strandline.server.handlers import append_request
from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.running import Answered, Raw, Running, running

SETTINGS = ServerSettings(
    limits=RequestLimits(json_depth_max=8),
    store=Settings(limits=LimitSettings(record_bytes_max=500)),
)
PIECES = [b"1", b'"x"', b"[]", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\\", b'"', b"\xff"]
PIECES += [b'"data"', b'"tag":"t"', b"}]}", b'{"data":2}', b"[" * 9, "é".encode()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("repeats"), settings=SETTINGS) as found:
        yield found


@pytest.fixture
def raw(server) -> Iterator[Raw]:
    with server.raw() as found:
        yield found


def append(body: bytes, headers: bytes = b"", topic: str = "news") -> bytes:
    head = b"POST /v0/topics/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n" % len(body)
    return head % topic.encode() + length + headers + b"\r\n" + body


def asked_again(raw: Raw, request: bytes) -> Answered:
    """By itself: the first one after a while may be looked at step by step."""
    raw.send(request)
    return raw.answer()


def lone(data: bytes) -> bytes:
    return b'{"records":[{"data":%b}]}' % data


@given(st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join))
def test_what_is_taken_without_decoding_is_what_decoding_finds(data):
    found = head_cache.single_data(lone(data), 8)

    if found is not None:
        assert append_request.plain_batch(lone(data), 8) == [found]


RECORDS = [
    *(
        b'{"data":1}',
        b'{"data" : "\xc3\xa9"}',
        b'{"data":null,"tag":null}',
        b'{"data_base64":"AA=="}',
    ),
    *(b'{"data":1,"data":2}', b"{}", b"3", b'{"data":[[[[[[[[[]]]]]]]]]}', b'{"data":"\xff"}'),
    *(b'{"data":"[[[[[[[[[["}', b'{"data":%b}' % (b"7" * 1001), b'{"data":"%b"}' % (b"7" * 1001)),
]


@given(st.lists(st.sampled_from(RECORDS), max_size=4), st.sampled_from([b"", b',"node":"n"']))
def test_what_is_taken_as_plain_records_is_what_the_whole_decoder_finds(records, more):
    body = b'{"records":[%b]%b}' % (b",".join(records), more)

    found = _told(lambda: append_request.plain_batch(body, 8))

    if found is not None:
        assert found == _told(
            lambda: [data_of(each, 8) for each in append_request.decode_body(body).records]
        )


@pytest.mark.parametrize("count", [1, 2, 100])
def test_records_with_nothing_but_data_are_taken_as_they_are(count):
    body = b'{"records":[%b]}' % b",".join([b'{"data": {"n": 1}}'] * count)

    assert append_request.plain_batch(body, 8) == [b'{"n": 1}'] * count


def _told(find: Callable[[], list[bytes] | None]) -> list[bytes] | str | None:
    try:
        return find()
    except StrandlineError as error:
        return str(error)


@pytest.mark.parametrize(
    "body",
    [
        lone(b'1},{"data":2'),
        lone(b'1,"tag":"t"'),
        lone(b" 1"),
        lone(b"1 "),
        lone(b""),
        lone(b"[" * 9 + b"]" * 9),
        lone(b"9" * 1001),
        lone('"é"'.encode()),
        b'{"records":[{"data":1}],"node":"n"}',
        b'{"records":[{"data":1}]} ',
    ],
)
def test_what_is_not_surely_one_plain_record_is_decoded(body):
    assert head_cache.single_data(body, 8) is None


def test_a_known_head_appends_what_its_body_says_each_time(server, raw):
    topic = server.store.topic("bodies")
    bodies = [lone(b"%d" % number) for number in range(5)]
    bodies += [b'{"records":[3,4]}', lone(b"[1,2")[:17], b'{"records":[{"data":7}]}']
    bodies = [body.ljust(40) for body in bodies]

    raw.send(b"".join(append(body, topic="bodies") for body in bodies))

    assert [raw.answer().status for _ in bodies] == [200] * 5 + [400, 400, 200]
    assert [record.data for record in topic.read().records] == [b"0", b"1", b"2", b"3", b"4", b"7"]


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_requests_cut_anywhere_are_answered_in_their_order(server, durability):
    name = f"cut-{durability}"
    topic = server.store.topic(name, durability=durability)
    asked_for = b"".join(append(lone(b"%d" % number), topic=name) for number in range(4))
    sent = 0
    for size in range(1, len(asked_for), 17):
        with server.raw() as raw:
            raw.send(asked_for[:size])
            raw.send(asked_for[size:])
            assert [raw.answer().status for _ in range(4)] == [200] * 4
        sent += 4

    data = [record.data for record in topic.read(limit=1000).records]
    assert data == [b"0", b"1", b"2", b"3"] * (sent // 4)


def test_other_requests_between_known_heads_keep_their_place(server, raw):
    server.store.topic("between", durability="fsync")
    other = b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    raw.send((append(lone(b"1"), topic="between") * 3 + other) * 3)
    answers = [raw.answer().body for _ in range(12)]

    kinds = [b"first_seq" in body for body in answers]
    assert kinds == [True, True, True, False] * 3


def test_a_known_head_is_refused_once_its_token_is_revoked(tmp_path):
    with running(tmp_path, tokens={"writer": "write:news", "other": "write:old"}) as server:
        registry = server.parts.auth.registry
        server.store.topic("news")
        writer, other = (
            append(lone(b"1"), b"Authorization: Bearer %b\r\n" % server.tokens[name].encode())
            for name in ("writer", "other")
        )
        with server.raw() as raw:
            assert [asked_again(raw, writer).status for _ in range(4)] == [200] * 4
            assert asked_again(raw, other).status == 403

            token = registry.find(server.tokens["writer"])
            assert token is not None
            registry.revoke(token.id)
            raw.send(writer + other)

            assert [raw.answer().status for _ in range(2)] == [401, 403]


def test_a_known_head_follows_its_topic(server, raw):
    first = server.store.topic("followed")
    request = append(lone(b"1"), topic="followed")
    assert [asked_again(raw, request).status for _ in range(4)] == [200] * 4

    first.alter(discard="reject", cap_records=4)
    full = [asked_again(raw, append(lone(b"2"), topic="followed")) for _ in range(5)]
    server.store.delete_topic("followed")
    raw.send(append(lone(b"3"), topic="followed"))
    made = raw.answer()

    assert ({answer.status for answer in full}, made.status) == ({422}, 201)
    assert all(b'"cap_records":4' in answer.body for answer in full)  # as the application tells it
    assert [record.data for record in server.store.topic("followed").read().records] == [b"3"]


def test_a_known_head_with_too_large_a_record_is_refused(server, raw):
    server.store.topic("news")
    small, large = lone(b'"%b"' % (b"a" * 400)), lone(b'"%b"' % (b"a" * 600))
    for body, status in ((small, 200), (large, 400)):
        assert [asked_again(raw, append(body)).status for _ in range(4)] == [status] * 4
