"""Live delivery: from an append to its arrival at 1, 100 and 1,000 watchers, beside Redis and NATS.

Every server has one core, the client another, and all are asked in turn. *Paced* is one append at a
time, which every watcher must have before the next is sent: the time runs from before the append is
sent until its bytes are read from that watcher's socket, and so includes a client that reads a
thousand sockets. *Saturated* keeps a window of appends under way and counts what arrives. What a
watcher costs that is told nothing is the growth of the server's private memory.

Redis is watched in two ways: a stream with XREAD BLOCK, asked anew after every answer, and PUBLISH,
which keeps nothing. NATS pushes to plain subscribers of the subject that its stream keeps.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.load import Plan
from bench.measure import Figure, percentile
from bench.servers import (
    RECORD,
    nats_server,
    redis_server,
    strandline_server,
)

WATCHERS = (1, 100, 1000)
ROUNDS = {1: 400, 100: 100, 1000: 20}
SECONDS = 2.0
WINDOW = 64
IDLE = 1000
GOALS_MS = {100: 1.0, 1000: 10.0}
GOAL_IDLE_KB = 50.0
_LATE_S = 30.0
_HOST = "127.0.0.1"


class Way(NamedTuple):
    """How to be told of what a server keeps."""

    name: str
    plan: Plan
    """How to append one record."""
    watch: Callable[[], socket.socket]
    """A new watcher, which will be told of what is appended from now on."""
    sign: bytes
    """What every delivery has once, and nothing else."""
    again: Callable[[bytes], bytes] | None = None
    """What to send after a delivery, to be told of the next."""


class Taken(NamedTuple):
    """What was measured in one way with so many watchers."""

    latencies_ms: list[float]
    deliveries_s: float


def run(folder: Path, *, scale: float) -> list[Figure]:
    figures: list[Figure] = []
    with _ways(folder) as (ways, server_pid):
        figures.append(_idle(ways[0], server_pid, max(50, int(IDLE * min(1.0, scale)))))
        figures.append(_idle(ways[1], server_pid, max(50, int(IDLE * min(1.0, scale)))))
        for count in WATCHERS:
            taken = {way.name: _measure(way, count, scale) for way in ways}
            figures += _told(taken, count)
    return figures


def _told(taken: dict[str, Taken], count: int) -> list[Figure]:
    figures = []
    who = f"{count} watcher{'s' if count > 1 else ''}"
    for name, found in taken.items():
        p50 = percentile(found.latencies_ms, 0.5)
        ours = name.startswith("Strandline")
        goal = GOALS_MS.get(count) if ours else None
        figures.append(
            Figure(
                name=f"live: append to delivery, {who}, {name}, p50",
                value=p50,
                unit="ms",
                goal=f"< {goal} ms" if goal else "",
                met=p50 < goal if goal else None,
                note=f"p99 {percentile(found.latencies_ms, 0.99):.2f} ms",
            )
        )
        figures.append(
            Figure(
                name=f"live: saturated, {who}, {name}",
                value=found.deliveries_s,
                unit="deliveries/s",
            )
        )
    return figures


def _idle(way: Way, pid: int, count: int) -> Figure:
    """What watchers cost that are told nothing."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(way.watch())
        time.sleep(0.5)
        before = _private_kb(pid)
        for _ in range(count):
            stack.enter_context(way.watch())
        time.sleep(0.5)
        each = (_private_kb(pid) - before) / count
        busy_before = _cpu_s(pid)
        time.sleep(2.0)
        busy = (_cpu_s(pid) - busy_before) / 2.0
    return Figure(
        name=f"live: an idle watcher, {way.name}",
        value=each,
        unit="KB",
        goal=f"< {GOAL_IDLE_KB:.0f} KB",
        met=each < GOAL_IDLE_KB,
        note=f"{count} of them, {100 * busy:.1f} % of a core",
    )


def _measure(way: Way, count: int, scale: float) -> Taken:
    with _Watching(way, count) as watching:
        for _ in range(3):
            watching.one()
        latencies: list[float] = []
        for _ in range(max(5, int(ROUNDS[count] * scale))):
            latencies += watching.one()
            time.sleep(0.001)
        return Taken(latencies, watching.many(SECONDS * min(1.0, scale)))


class _Watching:
    """Watchers and one who appends. Owned by one thread."""

    def __init__(self, way: Way, count: int) -> None:
        self._way = way
        self._selector = selectors.EpollSelector()
        self._watchers = [way.watch() for _ in range(count)]
        for watcher in self._watchers:
            watcher.setblocking(False)
            self._selector.register(watcher, selectors.EVENT_READ)
        self._tails = dict.fromkeys(self._watchers, b"")
        self._writer = socket.create_connection((_HOST, way.plan.port), _LATE_S)
        self._writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if way.plan.greeting:
            self._writer.sendall(way.plan.greeting)
            said = b""
            while way.plan.welcome not in said:
                said += self._writer.recv(65536)

    def __enter__(self) -> _Watching:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._watchers, self._writer):
            each.close()
        self._selector.close()

    def one(self) -> list[float]:
        """Append one record; how long it took to each watcher, in milliseconds."""
        took: list[float] = []
        began = time.perf_counter()
        self._writer.sendall(self._way.plan.request)
        while len(took) < len(self._watchers):
            events = self._selector.select(_LATE_S)
            assert events, f"{self._way.name}: {len(took)} of {len(self._watchers)} were told"
            for key, _ in events:
                if self._taken(key.fileobj):  # type: ignore[arg-type]  # only sockets are there
                    took.append((time.perf_counter() - began) * 1000)
        self._acknowledged(1)
        return took

    def many(self, seconds: float) -> float:
        """Keep a window of appends under way; deliveries per second."""
        writer, plan = self._writer, self._way.plan
        writer.setblocking(False)
        self._selector.register(writer, selectors.EVENT_READ)
        began = time.perf_counter()
        sent = acknowledged = delivered = 0
        tail = b""
        while time.perf_counter() - began < seconds:
            room = WINDOW - (sent - acknowledged)
            if room >= WINDOW // 2:
                writer.setblocking(True)
                writer.sendall(plan.request * room)
                writer.setblocking(False)
                sent += room
            for key, _ in self._selector.select(0.05):
                if key.fileobj is writer:
                    data = tail + writer.recv(1 << 18)
                    acknowledged += data.count(plan.acknowledged)
                    tail = _tail(data, plan.acknowledged)
                else:
                    delivered += self._taken(key.fileobj)  # type: ignore[arg-type]  # as above
        took = time.perf_counter() - began
        self._selector.unregister(writer)
        writer.setblocking(True)
        return delivered / took

    def _acknowledged(self, count: int) -> None:
        data = b""
        while data.count(self._way.plan.acknowledged) < count:
            data += self._writer.recv(65536)

    def _taken(self, watcher: socket.socket) -> int:
        """Deliveries that have arrived at a watcher."""
        sign = self._way.sign
        data = self._tails[watcher] + watcher.recv(1 << 18)
        self._tails[watcher] = _tail(data, sign)
        found = data.count(sign)
        if found and self._way.again is not None:
            watcher.sendall(self._way.again(data))
        return found


def _tail(data: bytes, sign: bytes) -> bytes:
    """What may be the beginning of the next sign."""
    return data[
        max(len(data) - len(sign) + 1, data.rfind(sign) + len(sign) if sign in data else 0) :
    ]


@contextlib.contextmanager
def _ways(folder: Path) -> Iterator[tuple[list[Way], int]]:
    cores = sorted(os.sched_getaffinity(0))
    core = cores[0] if len(cores) > 1 else None
    with contextlib.ExitStack() as stack:
        before = _children()
        ours = stack.enter_context(strandline_server(folder, core))
        (pid,) = _children() - before
        plan = ours.plan("cached", 1)
        assert plan is not None
        ways = [
            Way("Strandline SSE", plan, lambda: _sse(plan.port), b'"$seq":'),
            Way("Strandline WebSocket", plan, lambda: _websocket(plan.port), b'"$seq":'),
        ]
        redis = stack.enter_context(redis_server(folder, core))
        redis_plan = redis.plan("cached", 1) if redis else None
        if redis_plan is not None:
            ways += _redis_ways(redis_plan)
        nats = stack.enter_context(nats_server(folder, core))
        nats_plan = nats.plan("cached", 1) if nats else None
        if nats_plan is not None:
            ways.append(Way("NATS", nats_plan, lambda: _nats(nats_plan.port), b"MSG log "))
        if core is not None:
            os.sched_setaffinity(0, set(cores[1:]))
            stack.callback(os.sched_setaffinity, 0, set(cores))
        yield ways, pid


def _redis_ways(plan: Plan) -> list[Way]:
    publish = msgspec.structs.replace(
        plan, request=_resp(b"PUBLISH", b"told", RECORD), acknowledged=b":"
    )
    newest = _resp(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"log", b"$")
    return [
        Way("Redis XREAD BLOCK", plan, lambda: _redis(plan.port, newest, b""), RECORD, _read_on),
        Way(
            "Redis PUBLISH",
            publish,
            lambda: _redis(plan.port, _resp(b"SUBSCRIBE", b"told"), b"subscribe"),
            RECORD,
        ),
    ]


def _read_on(data: bytes) -> bytes:
    """Ask for what comes behind the last entry that was told."""
    newest = re.findall(rb"\r\n(\d+-\d+)\r\n", data)[-1]
    return _resp(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"log", newest)


def _sse(port: int) -> socket.socket:
    body = b'{"topics":{"cached":{"tail":true}}}'
    with _connected(port) as asking:
        asking.sendall(
            b"POST /v0/watch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        said = _until(asking, b'"performance"')
    url = json.loads(said[said.index(b"{") : said.rindex(b',"performance"')] + b"}")["stream_url"]
    watcher = _connected(port)
    watcher.sendall(
        f"GET {url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    )
    _until(watcher, b"caught-up")
    return watcher


def _websocket(port: int) -> socket.socket:
    watcher = _connected(port)
    key = base64.b64encode(os.urandom(16))
    watcher.sendall(
        b"GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: %b\r\nSec-WebSocket-Version: 13\r\n\r\n" % key
    )
    _until(watcher, b"\r\n\r\n")
    message = b'{"op":"subscribe","topic":"cached","tail":true}'
    # Clients mask; a mask of zeros leaves the message as it is.
    watcher.sendall(struct.pack("!BB", 0x81, 0x80 | len(message)) + bytes(4) + message)
    _until(watcher, b"caught_up")
    return watcher


def _redis(port: int, request: bytes, sign: bytes) -> socket.socket:
    watcher = _connected(port)
    watcher.sendall(_resp(b"PING") + request)
    _until(watcher, sign or b"PONG")
    return watcher


def _nats(port: int) -> socket.socket:
    watcher = _connected(port)
    watcher.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB log 1\r\nPING\r\n')
    _until(watcher, b"PONG")
    return watcher


def _connected(port: int) -> socket.socket:
    found = socket.create_connection((_HOST, port), _LATE_S)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _until(connected: socket.socket, sign: bytes) -> bytes:
    said = b""
    while sign not in said:
        data = connected.recv(65536)
        assert data, said
        said += data
    return said


def _resp(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def _children() -> set[int]:
    """Processes that this one has started."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (thread / "children").read_text().split()}
    return found


def _private_kb(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return float(re.search(r"Pss_Anon:\s+(\d+)", text)[1])  # type: ignore[index]  # always there


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
