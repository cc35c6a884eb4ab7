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
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import load
from bench.load import Plan, Result, Watchers, cpu_s
from bench.measure import Figure, fixed, scaled
from bench.servers import (
    RECORD,
    UPGRADE,
    client_frame,
    nats_server,
    redis_server,
    resp,
    strandline_server,
)

WATCHERS = (1, 100, 1000)
ROUNDS = {1: 1000, 100: 300, 1000: 60}
SECONDS = 2.0
WINDOW = 64
IDLE = 1000
"""Watchers that are told nothing, at every scale: as many streams as a token may have."""
IDLE_S = 20.0
"""How long they are looked at, at most: more than a heartbeat takes to come."""
GOALS_MS = {100: 1.0, 1000: 10.0}
GOAL_IDLE_KB = 50.0
GOAL_IDLE_CPU = 0.02
FILES_MIN = 2 * IDLE + 500
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
    again: bytes = b""
    """What to send after a delivery, to be told of the next, up to the newest id."""


class Idle(NamedTuple):
    """What watchers cost that are told nothing."""

    each_kb: float
    busy: float
    """CPU seconds of the server in a second, beside all of them."""
    busy_before: float
    """The same beside one."""


class Taken(NamedTuple):
    """What was measured in one way with so many watchers."""

    paced: Result
    saturated: Result


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    """Idle watchers, then deliveries; one after the other, as they are measured."""
    _allow_sockets()
    with _ways(folder) as (ways, core):
        seconds = IDLE_S * min(1.0, max(0.02, scale))
        count = fixed(IDLE, scale, least=2)
        idle = {way.name: _idle(way, count, seconds) for way in ways[:2]}
        for name, found in idle.items():
            yield from _told_idle(name, count, found)
        for count in WATCHERS:
            if count > fixed(WATCHERS[-1], scale):
                break
            taken = {way.name: _measure(way, count, scale, core) for way in ways}
            yield from _told(taken, count)


def _told(taken: dict[str, Taken], count: int) -> Iterator[Figure]:
    who = f"{count} watcher{'s' if count > 1 else ''}"
    for name, (paced, saturated) in taken.items():
        ours = name.startswith("Strandline")
        goal = GOALS_MS.get(count) if ours else None
        yield Figure(
            name=f"live: append to delivery, {who}, {name}, p50",
            value=paced.p50_ms,
            unit="ms",
            goal=f"< {goal:g} ms" if goal else "",
            met=paced.p50_ms < goal if goal else None,
            note=f"p99 {paced.p99_ms:.2f} ms",
        )
        cpu_us = 1e6 * saturated.server_cpu_s / max(1.0, saturated.deliveries_per_s)
        yield Figure(
            name=f"live: saturated, {who}, {name}",
            value=saturated.deliveries_per_s,
            unit="deliveries/s",
            note=f"{cpu_us:.2f} us of CPU each, {saturated.requests_per_s:,.0f} appends/s",
        )


def _told_idle(name: str, count: int, found: Idle) -> Iterator[Figure]:
    yield Figure(
        name=f"live: an idle watcher, {name}",
        value=found.each_kb,
        unit="KB",
        goal=f"< {GOAL_IDLE_KB:.0f} KB",
        met=found.each_kb < GOAL_IDLE_KB,
        note=f"{count:,} of them",
    )
    yield Figure(
        name=f"live: CPU beside {count:,} idle watchers, {name}",
        value=1000 * found.busy,
        unit="ms of CPU/s",
        goal=f"< {1000 * GOAL_IDLE_CPU:.0f} ms/s",
        met=found.busy < GOAL_IDLE_CPU,
        note=f"{1000 * found.busy_before:.2f} ms/s beside one",
    )


def _idle(way: Way, count: int, seconds: float) -> Idle:
    """What watchers cost that are told nothing."""
    pid = way.plan.pid
    with contextlib.ExitStack() as stack:
        stack.enter_context(_patiently(way.watch))
        time.sleep(0.5)
        before_kb, before = _private_kb(pid), _busy(pid, seconds)
        for _ in range(count - 1):
            stack.enter_context(_patiently(way.watch))
        time.sleep(0.5)
        each_kb = (_private_kb(pid) - before_kb) / (count - 1)
        return Idle(each_kb, _busy(pid, seconds), before)


def _patiently(watch: Callable[[], socket.socket]) -> socket.socket:
    """A watcher; while those before it are still leaving, a server may have no room for it."""
    deadline = time.monotonic() + _LATE_S
    while True:
        try:
            return watch()
        except (AssertionError, OSError, KeyError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _busy(pid: int, seconds: float) -> float:
    """The share of a core that a process takes."""
    began_s, began = cpu_s(pid), time.perf_counter()
    time.sleep(seconds)
    return (cpu_s(pid) - began_s) / (time.perf_counter() - began)


def _measure(way: Way, count: int, scale: float, core: int | None) -> Taken:
    sockets = [_patiently(way.watch) for _ in range(count)]
    watchers = Watchers(sockets=sockets, sign=way.sign, again=way.again)
    try:
        rounds = scaled(ROUNDS[count], scale, least=5)
        paced = load.paced(way.plan, watchers, rounds=rounds, core=core)
        saturated = load.flood(
            way.plan,
            in_flight=WINDOW,
            seconds=SECONDS * min(1.0, max(0.05, scale)),
            core=core,
            watchers=watchers,
        )
        return Taken(paced, saturated)
    finally:
        for each in sockets:
            each.close()


@contextlib.contextmanager
def _ways(folder: Path) -> Iterator[tuple[list[Way], int | None]]:
    """Ours first, then those that are installed; and the core of the client."""
    cores = sorted(os.sched_getaffinity(0))
    core, other = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    with contextlib.ExitStack() as stack:
        folder = folder / "live"
        folder.mkdir()
        ours = stack.enter_context(strandline_server(folder, core))[0]
        plan = ours.plan("cached", 1)
        assert plan is not None
        ways = [
            Way("Strandline SSE", plan, lambda: _sse(plan.port), b'"$seq":'),
            Way("Strandline WebSocket", plan, lambda: _websocket(plan.port), b'"$seq":'),
        ]
        for server in stack.enter_context(redis_server(folder, core))[:1]:
            ways += _redis_ways(server.plan("cached", 1))
        for server in stack.enter_context(nats_server(folder, core)):
            ways.append(_nats_way(server.plan("cached", 1)))
        yield ways, other


def _redis_ways(plan: Plan | None) -> list[Way]:
    assert plan is not None
    # Watchers wait for the stream: it must not go when somebody comes to append.
    plan = msgspec.structs.replace(plan, greeting=b"", welcome=b"")
    publish = msgspec.structs.replace(
        plan, request=resp(b"PUBLISH", b"told", RECORD), acknowledged=b":"
    )
    newest = resp(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"log", b"$")
    subscribe = resp(b"SUBSCRIBE", b"told")
    return [
        Way(
            "Redis XREAD BLOCK",
            plan,
            lambda: _redis(plan.port, newest, b""),
            RECORD,
            newest[: newest.rindex(b"$1")],
        ),
        Way("Redis PUBLISH", publish, lambda: _redis(plan.port, subscribe, b"subscribe"), RECORD),
    ]


def _nats_way(plan: Plan | None) -> Way:
    assert plan is not None
    return Way("NATS", plan, lambda: _nats(plan.port), b"MSG log ")


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
    watcher.sendall(UPGRADE % base64.b64encode(os.urandom(16)))
    _until(watcher, b"\r\n\r\n")
    watcher.sendall(client_frame(b'{"op":"subscribe","topic":"cached","tail":true}'))
    _until(watcher, b"caught_up")
    return watcher


def _redis(port: int, request: bytes, sign: bytes) -> socket.socket:
    watcher = _connected(port)
    watcher.sendall(resp(b"PING") + request)
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


def _allow_sockets() -> None:
    """A thousand watchers are more files than a process may have by default; servers inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if most == resource.RLIM_INFINITY else max(most, FILES_MIN)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except ValueError as error:
        told = f"{IDLE:,} watchers need {FILES_MIN} open files, and {most} are allowed: ulimit -n"
        raise SystemExit(told) from error


def _private_kb(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return float(re.search(r"Pss_Anon:\s+(\d+)", text)[1])  # type: ignore[index]  # always there
