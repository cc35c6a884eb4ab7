"""Promise: a server that is pressed too hard says so with 429 and Retry-After before it breaks,
takes appends again when it has caught up, and reads tell the same all along.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from strandline.platform.disk import LogFile, OsDisk, OsLogFile
from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.running import DEADLINE_S, Answered, Running, running

WAITING_MAX = 8
SETTINGS = ServerSettings(limits=RequestLimits(waiting_appends_max=WAITING_MAX))


class HeldLogFile(OsLogFile):
    """A log file whose syncs take as long as the test likes."""

    free: threading.Event

    def sync(self) -> None:
        assert self.free.wait(DEADLINE_S)
        super().sync()


class HeldDisk(OsDisk):
    """A disk that is too slow for what comes."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()

    def open_log(self, path: str) -> LogFile:
        file = HeldLogFile(path)
        file.free = self.free
        return file


def test_too_many_appends_get_429_and_then_it_goes_on(tmp_path: Path):
    disk = HeldDisk()
    with running(tmp_path, settings=SETTINGS, disk=disk) as server, contextlib.ExitStack() as stack:
        stack.callback(disk.free.set)
        server.store.topic("plain").append_many([b"1", b"2", b"3"])
        safe = server.store.topic("safe", durability="fsync")
        safe.append(b"0")
        server.store.topic("probe").append(b"0")
        before = _diff(server, "plain")
        disk.free.clear()

        waiting = [stack.enter_context(server.raw()) for _ in range(WAITING_MAX + 2)]
        for number, raw in enumerate(waiting, start=1):
            raw.send(_append("safe", number))
        refused = _until(lambda: _refused(server))
        pressed = _diff(server, "plain"), _diff(server, "safe")
        disk.free.set()
        acknowledged = [raw.answer() for raw in waiting]
        recovered = _until(lambda: _taken(server))
        after = _diff(server, "plain")

        assert refused.headers["retry-after"] == "1"
        assert msgspec.json.decode(refused.body)["error"]["code"] == "throttled"
        assert [answer.status for answer in acknowledged] == [200] * len(waiting)
        assert recovered.status == 200
        assert before == pressed[0] == after
        assert pressed[1]["head_seq"] == 1  # what is not durable is not told
        told = [record["data"] for record in _diff(server, "safe")["records"]]
        assert sorted(told[1 : len(waiting) + 1]) == list(range(1, len(waiting) + 1))


def _append(topic: str, number: int) -> bytes:
    body = b'{"records":[{"data":%d}]}' % number
    return (
        b"POST /v0/topics/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (topic.encode(), len(body), body)
    )


def _refused(server: Running) -> Answered | None:
    """What an append that need not wait is told, once it is refused."""
    with server.raw() as raw:
        raw.send(_append("probe", 0))
        answer = raw.answer()
    return answer if answer.status == 429 else None


def _taken(server: Running) -> Answered | None:
    with server.raw() as raw:
        raw.send(_append("safe", 1000))
        answer = raw.answer()
    return answer if answer.status == 200 else None


def _diff(server: Running, topic: str) -> dict[str, object]:
    body = b'{"from_seq":0}'
    with server.raw() as raw:
        raw.send(
            b"POST /v0/topics/%b/diff HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (topic.encode(), len(body), body)
        )
        told = msgspec.json.decode(raw.answer().body)
    told.pop("performance")
    return told


def _until(look: Callable[[], Answered | None]) -> Answered:
    deadline = time.monotonic() + DEADLINE_S
    while (found := look()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
