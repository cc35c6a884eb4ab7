"""Asks a server as fast as it answers, from a process of its own: ``python -m bench.load``.

One client for all servers: connections of asyncio on uvloop that send prepared bytes and count the
answers, so that none is held back by the client library of its language. What is counted is what
was acknowledged. Reads its plan from stdin and prints what came of it, both as JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque

import msgspec
import uvloop

from bench.measure import percentile

WARM_UP_S = 0.2
OWN_NAME = b"OWNINBOX"
"""Stands in a plan where a connection puts a name of its own, of the same length."""
_LATE_S = 20.0


class Plan(msgspec.Struct, kw_only=True):
    """What to ask of whom."""

    host: str
    port: int
    greeting: bytes = b""
    """Sent first on each connection; ``welcome`` must come before the first request."""
    welcome: bytes = b""
    request: bytes
    acknowledged: bytes
    """What stands once in every good answer."""
    refused: tuple[bytes, ...] = ()
    """What stands in bad ones."""
    connections: int = 1
    in_flight: int = 1
    seconds: float = 1.0
    core: int | None = None


class Result(msgspec.Struct, kw_only=True):
    """What came of it."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float


class Connection(asyncio.Protocol):
    """One of those who ask: so many at a time, the next when one is answered."""

    def __init__(self, plan: Plan) -> None:
        self.answered = 0
        self.times: list[float] = []
        self.failure = b""
        self.ready = asyncio.get_running_loop().create_future()
        self._plan = plan
        self._name = os.urandom(len(OWN_NAME) // 2).hex().encode()
        self._request = plan.request.replace(OWN_NAME, self._name)
        self._sent: deque[float] = deque()
        self._rest = b""
        self._greeting = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP
        self._transport = transport
        transport.write(self._plan.greeting.replace(OWN_NAME, self._name))
        if not self._plan.welcome:
            self.ready.set_result(None)

    def begin(self) -> None:
        self._ask(self._plan.in_flight)

    def data_received(self, data: bytes) -> None:
        plan = self._plan
        if not self.ready.done():
            self._greeting += data
            if plan.welcome in self._greeting:
                self.ready.set_result(None)
            return
        for sign in plan.refused:
            if sign in data:
                self.failure = data[:500]
        data = self._rest + data
        count = data.count(plan.acknowledged)
        # An answer may be cut anywhere: keep what could be the beginning of the next sign.
        behind = data.rfind(plan.acknowledged) + len(plan.acknowledged) if count else 0
        self._rest = data[max(behind, len(data) - len(plan.acknowledged) + 1) :]
        if count:
            now = time.perf_counter()
            for _ in range(min(count, len(self._sent))):
                self.times.append(now - self._sent.popleft())
            self.answered += count
            self._ask(count)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.failure and self._sent:
            self.failure = f"hung up: {exc}".encode()

    def _ask(self, count: int) -> None:
        assert self._transport is not None
        self._sent.extend([time.perf_counter()] * count)
        self._transport.write(self._request * count)


async def ask(plan: Plan) -> Result:
    """Ask for so long; raises what the server complained about."""
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(plan.connections):
        _, each = await loop.create_connection(lambda: Connection(plan), plan.host, plan.port)
        connections.append(each)
    await asyncio.wait_for(asyncio.gather(*(each.ready for each in connections)), _LATE_S)
    for each in connections:
        each.begin()
    await asyncio.sleep(WARM_UP_S)
    before = sum(each.answered for each in connections)
    seen = [len(each.times) for each in connections]
    start = time.perf_counter()
    await asyncio.sleep(plan.seconds)
    took = time.perf_counter() - start
    count = sum(each.answered for each in connections) - before
    failures = [each.failure for each in connections if each.failure]
    if failures or not count:
        raise RuntimeError(f"no good answers: {failures[:1]}")
    times = [t for each, first in zip(connections, seen, strict=True) for t in each.times[first:]]
    return Result(
        requests_per_s=count / took,
        p50_ms=percentile(times, 0.5) * 1000,
        p99_ms=percentile(times, 0.99) * 1000,
    )


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    if plan.core is not None:
        os.sched_setaffinity(0, {plan.core})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(ask(plan))
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
