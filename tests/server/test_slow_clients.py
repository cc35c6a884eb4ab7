"""Promise: a client that lets the server wait, or takes more than its share of connections, loses
its connection within a deadline, and everybody else is served meanwhile."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from strandline.api.errors import Refused
from strandline.server.connection.connections import Connections
from strandline.server.settings import LiveSettings, RequestLimits, ServerSettings
from tests.server.running import Running, running

HASTY = RequestLimits(receive_s_max=0.3, idle_s_max=0.3)
PATIENT = RequestLimits(receive_s_max=30, idle_s_max=30)
GET = b"GET /v0/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = (
    b"POST /v0/topics/news HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 24\r\n\r\n"
)
BODY = b'{"records":[{"data":1}]}'


def hasty(path: Path, **more: object):
    return running(path, settings=ServerSettings(limits=HASTY, **more))


@pytest.mark.parametrize(
    "begun",
    [
        b"G",
        GET[:-2],
        POST + BODY[:5],
        POST.replace(b"Content-Length: 24", b"Transfer-Encoding: chunked") + b"5\r\nab",
    ],
    ids=["a first byte", "half a head", "half a body on the hot path", "half a chunk"],
)
def test_a_request_that_does_not_arrive_in_time_is_told_so(tmp_path, begun):
    with hasty(tmp_path) as server, server.raw() as raw:
        server.store.topic("news")
        _warm_up(server)

        raw.send(begun)
        answer = raw.answer()

        assert answer.status == 408
        assert raw.is_closed
        assert server.store.topic("news").head_seq == 1


def test_a_drop_now_and_then_does_not_buy_time(tmp_path):
    with hasty(tmp_path) as server, server.raw() as raw:
        raw.send(GET[:-2])
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                with contextlib.suppress(OSError):
                    raw.send(b"A: b\r\n")

        dripping = threading.Thread(target=drip)
        dripping.start()
        answer = raw.answer()
        stop.set()
        dripping.join()

        assert answer.status == 408


def test_an_idle_connection_is_closed_without_a_word(tmp_path):
    with hasty(tmp_path) as server, server.raw() as fresh, server.raw() as used:
        used.send(GET)
        answer = used.answer()

        assert answer.status == 200
        assert fresh.is_closed
        assert used.is_closed


def test_a_connection_that_waits_for_an_answer_is_not_idle(tmp_path):
    with hasty(tmp_path) as server, server.raw() as raw:
        server.store.topic("news")
        asked = b'{"wait_ms":1000}'

        raw.send(
            b"POST /v0/topics/news/diff HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(asked), asked)
        )
        answer = raw.answer()

        assert answer.status == 200


def test_one_who_does_not_read_his_answers_is_cut_off(tmp_path):
    settings = ServerSettings(limits=HASTY, live=LiveSettings(stalled_s_max=0.1))
    with running(tmp_path, settings=settings) as server, server.raw() as raw:
        topic = server.store.topic("news")
        topic.append(b'"%b"' % (b"a" * 500_000))
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ask = (
            b"POST /v0/topics/news/diff HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )

        raw.send(ask * 50)
        _until(lambda: _is_stuck(server))

        _until(lambda: not server.listener.connections.open)


def test_slow_clients_do_not_keep_others_waiting(tmp_path):
    with running(tmp_path, settings=ServerSettings(limits=PATIENT)) as server:
        server.store.topic("news")
        with contextlib.ExitStack() as slow:
            for number in range(200):
                slow.enter_context(server.raw()).send((POST + BODY)[: number % 150 + 1])

            with server.raw() as raw:
                raw.send((POST + BODY) * 10)
                statuses = [raw.answer().status for _ in range(10)]

        assert statuses == [200] * 10


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (RequestLimits(connections_max=3), "connections_max"),
        (RequestLimits(connections_per_address_max=3), "connections_per_address_max"),
    ],
)
def test_one_connection_too_many_is_told_to_come_back(tmp_path, limits, limit):
    with (
        running(tmp_path, settings=ServerSettings(limits=limits)) as server,
        contextlib.ExitStack() as stack,
    ):
        held = [stack.enter_context(server.raw()) for _ in range(3)]
        for raw in held:
            raw.send(GET)
            assert raw.answer().status == 200

        with server.raw() as one_more:
            answer = one_more.answer()
        held[0].send(GET)
        still_served = held[0].answer()
        held[1].socket.close()
        _until(lambda: len(server.listener.connections.open) < 3)
        with server.raw() as instead:
            instead.send(GET)
            then = instead.answer()

        assert answer.status == 429
        assert answer.headers["retry-after"] == "1"
        assert f'"{limit}"'.encode() in answer.body
        assert still_served.status == then.status == 200


def test_connections_are_forgotten_when_they_end():
    connections = Connections(RequestLimits(connections_per_address_max=1))
    one, other = _Connection(), _Connection()

    connections.add(one, "10.0.0.1")
    with pytest.raises(Refused):
        connections.add(other, "10.0.0.1")
    for each in (other, other, one):
        connections.remove(each, "10.0.0.1")
    connections.add(other, "10.0.0.1")

    assert connections.open == {other}


def test_addresses_of_one_customer_count_together():
    connections = Connections(RequestLimits(connections_per_address_max=1))
    connections.add(_Connection(), "2001:db8::1")

    with pytest.raises(Refused):
        connections.add(_Connection(), "2001:db8::2")

    connections.add(_Connection(), "2001:db8:0:1::2")


class _Connection:
    def overdue(self, now: float) -> bool:
        return False

    def expire(self) -> None:
        """Never asked to."""

    abort = expire


def _warm_up(server: Running) -> None:
    """After one append the topic is at hand, and the hot path open."""
    with server.raw() as raw:
        raw.send(POST + BODY)
        assert raw.answer().status == 200


def _is_stuck(server: Running) -> bool:
    return any(each.flow.write_paused for each in list(server.listener.connections.open))


def _until(true) -> None:
    gate = threading.Event()
    for _ in range(1000):
        if true():
            return
        gate.wait(0.01)
    raise AssertionError("it did not come true in time")
