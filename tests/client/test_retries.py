"""Promise: a request is made again exactly when that can do no harm, after the pause it is told."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pyarrow as pa
import pytest

import strandline
from strandline import (
    ClientSettings,
    Closed,
    Forbidden,
    ObjectStoreUnreachable,
    RouterCycle,
    StrandlineError,
    Unavailable,
)
from strandline.api.results import RESULT_COLUMN
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.blocking.groups import RemoteMember
from strandline.client.blocking.kv import RemoteKv
from strandline.client.blocking.queue import RemoteQueue
from strandline.client.blocking.topic import RemoteTopic
from strandline.server.http.arrow_streams import ipc_of
from strandline.views.queue.job import LeaseTicket
from tests.client.scripted import Line, problem, scripted

CUT = Line(0)
BUSY = Line(429, problem("throttled"), [("Retry-After", "0")])
NOT_READY = Line(503, problem("not_ready"), [("Retry-After", "0")])
DRAINING = Line(503, problem("shutting_down"), [("Retry-After", "0")])
FAILING = Line(503, problem("unavailable", kind="unavailable"), [("Retry-After", "0")])
APPENDED = Line(
    200,
    msgspec.json.encode(
        {
            "topic": "t",
            "first_seq": 1,
            "last_seq": 1,
            "head_seq": 1,
            "count": 1,
            "created": False,
            "deduped": True,
        }
    ),
)
PAGE = Line(
    200,
    msgspec.json.encode(
        {
            "topic": "t",
            "records": [],
            "next_from_seq": 0,
            "head_seq": 0,
            "earliest_seq": 1,
            "caught_up": True,
            "tombstone": None,
            "lag": 0,
            "epoch": 1,
        }
    ),
)
NUMBER = Line(200, b'{"number": 1}')
ACKED = Line(200, b'{"topic":"q","acked":1,"skipped":[],"ready":0,"in_flight":0}')
SKIPPED = Line(200, b'{"topic":"q","acked":0,"skipped":[1],"ready":0,"in_flight":0}')


@pytest.fixture
def server():
    with scripted() as made:
        yield made


@pytest.fixture
def connection(server):
    settings = ClientSettings(retry_s_max=2.0, reconnect_s_max=2.0)
    with strandline.connect(server.url, settings=settings) as store:
        yield store._connection


@pytest.fixture
def topic(connection):
    return RemoteTopic(connection, "t", 120_000)


@pytest.mark.parametrize("trouble", [CUT, BUSY, NOT_READY, DRAINING, FAILING])
def test_a_read_is_made_again(server, topic, trouble):
    server.says(trouble, trouble, PAGE)

    page = topic.read(0, 10)

    assert page.caught_up
    assert len(server.asked) == 3


@pytest.mark.parametrize("trouble", [CUT, BUSY, NOT_READY, DRAINING, FAILING])
def test_an_append_is_made_again_with_the_same_key(server, topic, trouble):
    server.says(trouble, APPENDED)

    appended = topic.append(b"x")

    first, second = server.asked
    assert first.keys == second.keys
    assert not appended.deduped


def test_every_append_has_a_key_of_its_own(server, topic):
    server.says(APPENDED, APPENDED)

    topic.append(b"x")
    topic.append(b"x")

    first, second = server.asked
    assert first.keys != second.keys


def test_an_append_is_not_repeated_when_its_key_may_be_forgotten(server, connection):
    server.says(CUT, APPENDED)
    topic = RemoteTopic(connection, "t", window_ms=0)

    with pytest.raises(ObjectStoreUnreachable) as lost:
        topic.append(b"x")

    assert "may have been executed" in str(lost.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize("trouble", [BUSY, NOT_READY, DRAINING])
def test_what_was_refused_at_the_door_is_tried_again_whatever_it_is(server, connection, trouble):
    server.says(trouble, NUMBER)
    kv = RemoteKv(RemoteEndpoint(connection, "kv", "k"), "k")

    assert kv.incr("n") == 1


@pytest.mark.parametrize("trouble", [CUT, FAILING])
def test_what_may_have_been_done_is_not_done_again(server, connection, trouble):
    server.says(trouble, NUMBER)
    kv = RemoteKv(RemoteEndpoint(connection, "kv", "k"), "k")

    with pytest.raises(Unavailable):
        kv.incr("n")

    assert len(server.asked) == 1


def test_an_ack_that_is_repeated_and_found_done_is_told(server, connection):
    server.says(CUT, ACKED)
    queue = RemoteQueue(RemoteEndpoint(connection), RemoteEndpoint(connection, "topics", "q"), "q")

    assert queue.ack(LeaseTicket(1, 5)) is True
    assert len(server.asked) == 2


def test_an_ack_that_is_repeated_in_vain_is_not_guessed(server, connection):
    server.says(CUT, SKIPPED)
    queue = RemoteQueue(RemoteEndpoint(connection), RemoteEndpoint(connection, "topics", "q"), "q")

    with pytest.raises(ObjectStoreUnreachable) as unknown:
        queue.ack(LeaseTicket(1, 5))

    assert "not known" in str(unknown.value)


def test_an_ack_that_comes_too_late_says_so(server, connection):
    server.says(BUSY, SKIPPED)
    queue = RemoteQueue(RemoteEndpoint(connection), RemoteEndpoint(connection, "topics", "q"), "q")

    assert queue.ack(LeaseTicket(1, 5)) is False


def test_a_member_that_is_shut_out_is_told_at_once(server, connection):
    fenced = Line(503, problem("shutting_down", kind="fenced"), [("Retry-After", "0")])
    server.says(fenced, fenced)
    member = RemoteMember(RemoteEndpoint(connection), "m", "1")

    with pytest.raises(Closed) as shut_out:
        member.read()

    assert shut_out.value.code == "fenced"
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", Forbidden),
        (403, "forbidden", Forbidden),
        (409, "router_cycle", RouterCycle),
        (302, "moved", StrandlineError),
        (500, "internal", StrandlineError),
    ],
)
def test_what_will_not_pass_is_not_tried_again(server, topic, status, code, kind):
    server.says(Line(status, problem(code), [("Location", "http://127.0.0.1:1/")]))

    with pytest.raises(kind):
        topic.read()

    assert len(server.asked) == 1


def test_patience_has_an_end(server):
    server.says(*[BUSY] * 1000)

    with (
        strandline.connect(server.url, settings=ClientSettings(retry_s_max=0.05)) as store,
        pytest.raises(Unavailable),
    ):
        store.topics()

    assert len(server.asked) >= 1


def test_a_pause_beyond_the_patience_is_not_waited_for(server):
    server.says(*[Line(429, problem("throttled"), [("Retry-After", "1")])] * 2)

    with (
        strandline.connect(server.url, settings=ClientSettings(retry_s_max=0.5)) as store,
        pytest.raises(Unavailable),
    ):
        store.topics()

    assert len(server.asked) == 1


def test_a_batch_that_was_done_in_part_is_not_sent_again(server):
    done = pa.table({RESULT_COLUMN: pa.array([ipc_of(pa.table({"n": [1]}))], pa.large_binary())})
    arrow = b64encode(ipc_of(done)).decode()
    refusal = problem("throttled", kind="memory_pressure", results_arrow=arrow)
    server.says(*[Line(429, refusal, [("Retry-After", "0")])] * 2)

    with strandline.connect(server.url) as store, pytest.raises(Unavailable) as refused:
        store.run("BATCH [STORE pay FOR a PAYLOAD {}; STORE pay FOR b PAYLOAD {}]")

    assert len(server.asked) == 1
    assert [result.rows() for result in refused.value.results] == [[{"n": 1}]]


@pytest.mark.parametrize("body", [b"<html>a proxy</html>", b"", b'{"error": 5}', b"\xff"])
def test_the_error_of_a_stranger_is_told_by_its_status(server, topic, body):
    server.says(Line(404, body))

    with pytest.raises(StrandlineError) as strange:
        topic.read()

    assert "404" in str(strange.value)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b"[]"])
def test_the_answer_of_a_stranger_is_told(server, topic, body):
    server.says(Line(200, body))

    with pytest.raises(ObjectStoreUnreachable) as strange:
        topic.read(0, 1)

    assert "not a response of a Strandline server" in str(strange.value)
