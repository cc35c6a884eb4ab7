"""Appends over the network, acknowledged: ours over HTTP beside Redis, NATS and PostgreSQL.

Every server has one core, the client another; all are asked in turn, round by round, so that all
meet the same machine. A request is 200 bytes of JSON and gets an answer of its own; a batch has one
answer for all of its records.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.load import Plan, Result
from bench.measure import Figure
from bench.servers import (
    Safety,
    Server,
    nats_server,
    postgres_server,
    redis_server,
    strandline_server,
)

ROUNDS = 5
SECONDS = 1.0
_LATE_S = 60.0


class Shape(NamedTuple):
    """How it is asked."""

    records: int
    connections: int
    in_flight: int = 1

    def __str__(self) -> str:
        how = {1: "one by one", 1000: "1000 as Arrow"}.get(self.records, f"{self.records} as JSON")
        where = f"{self.connections} connection{'s' if self.connections > 1 else ''}"
        return f"{how}, {where}" + (f", {self.in_flight} in flight" if self.in_flight > 1 else "")


SHAPES = (
    Shape(1, 1),
    Shape(1, 16),
    Shape(1, 64),
    Shape(1, 1, in_flight=64),
    Shape(100, 1),
    Shape(100, 16),
    Shape(1000, 1),
    Shape(1000, 16),
)
SAFETIES: tuple[Safety, ...] = ("cached", "synced")


def run(folder: Path, *, scale: float) -> list[Figure]:
    figures: list[Figure] = []
    with _servers(folder) as servers:
        for safety in SAFETIES:
            for shape in SHAPES:
                figures += _beside_others(servers, safety, shape, scale)
    return figures


def _beside_others(
    servers: list[Server], safety: Safety, shape: Shape, scale: float
) -> list[Figure]:
    taken: dict[str, list[Result]] = {}
    for _ in range(max(1, round(ROUNDS * min(1.0, scale * 2)))):
        for server in servers:
            plan = server.plan(safety, shape.records)
            if plan is not None:
                taken.setdefault(server.name, []).append(_ask(plan, shape, SECONDS * scale))
    rates = {
        name: statistics.median(result.requests_per_s for result in results) * shape.records
        for name, results in taken.items()
    }
    ours, *others = rates
    p50, p99 = (
        statistics.median(getattr(result, name) for result in taken[ours])
        for name in ("p50_ms", "p99_ms")
    )
    kind = "disk" if safety == "cached" else "fsync"
    return [
        Figure(
            name=f"serving: {kind}, {shape}",
            value=rates[ours],
            unit="rec/s",
            peer=f"{name} ({rates[name]:,.0f}/s)",
            ratio=rates[ours] / rates[name],
            note=f"p50 {p50:.2f} ms, p99 {p99:.2f} ms",
        )
        for name in others
    ] or [Figure(name=f"serving: {kind}, {shape}", value=rates[ours], unit="rec/s")]


def _ask(plan: Plan, shape: Shape, seconds: float) -> Result:
    plan = msgspec.structs.replace(
        plan,
        connections=shape.connections,
        in_flight=shape.in_flight,
        seconds=seconds,
        core=_core(1),
    )
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=msgspec.json.encode(plan),
        stdout=subprocess.PIPE,
        timeout=_LATE_S,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Result)


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[list[Server]]:
    """Ours first; those that are installed."""
    with contextlib.ExitStack() as stack:
        core = _core(0)
        servers = [stack.enter_context(strandline_server(folder, core))]
        for start in (redis_server, nats_server, postgres_server):
            server = stack.enter_context(start(folder, core))
            if server is not None:
                servers.append(server)
        yield servers


def _core(number: int) -> int | None:
    """A core to stay on; None where there are not two."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[number] if len(cores) > 1 else None
