"""Promise: when the disk fails in the sync that many wait for, each of them is told that his append
failed, none that it was stored; and the server says so to whoever asks how it is."""

from __future__ import annotations

import contextlib
import errno
import json
import threading
import time
from pathlib import Path

import pytest

from strandline.server.handlers.topic_cache import reload_topic
from strandline.store import Store
from strandline.testing.crash_choices import Oldest
from strandline.testing.sim_disk import SimDisk
from tests.server.live.test_ws_frames import Frames, frame, publish
from tests.server.running import Raw, Running, running
from tests.server.topics_face import Face

DEADLINE_S = 60
HTTP = 4
PUBLISHED = 3
LONG_WAY = b"Content-Encoding: identity\r\n"
"""With this the application answers, not the hot path."""


class Held:
    """A disk whose syncs of the log wait for the test, once it says so, and then fail."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.disk.on_call = self._look
        self.holds = False
        self.let_go = threading.Event()

    def _look(self, operation: str, _: str) -> None:
        if operation == "sync" and self.holds:
            assert self.let_go.wait(DEADLINE_S)
            raise OSError(errno.EIO, "the disk is broken")


@pytest.fixture
def held() -> Held:
    return Held()


def test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack(
    tmp_path: Path, held: Held
):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(tmp_path, disk=held.disk))
        topic = server.store.topic("safe", durability="fsync")
        server.on_loop(lambda: reload_topic(server.parts, "safe"))
        raws = [stack.enter_context(server.raw()) for _ in range(HTTP)]
        frames = Frames(stack.enter_context(server.raw()))
        for raw in raws:
            _append(raw)
            assert raw.answer().status == 200
        acknowledged = topic.head_seq
        held.holds = True
        for number, raw in enumerate(raws):
            _append(raw, LONG_WAY if number % 2 else b"")
        for number in range(PUBLISHED):
            frames.raw.send(frame(publish("safe", number, number)))
        _wait_until_they_wait(server, HTTP + PUBLISHED)
        held.let_go.set()

        answers = [raw.answer() for raw in raws]
        told = [frames.message() for _ in range(PUBLISHED)]

        assert [answer.status for answer in answers] == [503] * HTTP
        codes = {json.loads(answer.body)["error"]["code"] for answer in answers}
        assert codes == {message["code"] for message in told} == {"unavailable"}
        assert [message["op"] for message in told] == ["error"] * PUBLISHED
        assert [message["request_id"] for message in told] == list(range(PUBLISHED))
        _append(raws[0])
        assert raws[0].answer().status == 503
        assert topic.head_seq == acknowledged
        _check_told(server)
        after = held.disk.crash(Oldest())
        path = server.store.path
    with Store(path, disk=after, readonly=True) as store:
        assert store.topic("safe").head_seq >= acknowledged


def _check_told(server: Running) -> None:
    """That the server says how it is, and goes on to give what it has."""
    with Face(server) as face:
        told = face.good("GET", "/v0/store")
        assert told["status"] == "red"
        assert any("sync" in reason for reason in told["reasons"])
        refused = face.refused("GET", "/v0/ready")
        assert refused == (503, "unavailable", {"reason": "poisoned"})
        alive = face.good("GET", "/v0/health")
        assert (alive["status"], alive["reason"]) == ("degraded", "poisoned")
        numbers = face.good("GET", "/v0/metrics", headers={"accept": "application/json"})
        assert numbers["strandline_wal_read_only"] == [{"shard": "0", "value": 1}]
        assert {"status": "red", "value": 1} in numbers["strandline_store_health"]
        assert len(face.diff("safe")["records"]) == HTTP


def _append(raw: Raw, headers: bytes = b"") -> None:
    body = b'{"records":[{"data":1}]}'
    raw.send(
        b"POST /v0/topics/safe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"%bContent-Length: %d\r\n\r\n%b" % (headers, len(body), body)
    )


def _wait_until_they_wait(server: Running, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    (committer,) = server.store.committers
    while len(committer._pending) < count:
        assert time.monotonic() < deadline, committer.waiting
        time.sleep(0.005)
