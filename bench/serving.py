"""Appends over the network, acknowledged: ours over HTTP and WebSocket, Redis, NATS, PostgreSQL.

Every server has one core, the client another; all are asked in turn, round by round, so that all
meet the same machine. A request is 200 bytes of JSON and gets an answer of its own; a batch has one
answer for all of its records. Ratios are of the rates. Beside them stands what a record costs of
the server's CPU, which other work on the machine does not change much.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import load
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
KINDS = {"cached": "disk", "synced": "fsync"}
GOALS: dict[tuple[Safety, Shape], dict[str, float]] = {
    ("cached", Shape(1, 1)): {"Redis": 0.5},
    ("cached", Shape(1, 16)): {"Redis": 0.5},
    ("cached", Shape(1, 64)): {"Redis": 0.5},
    ("cached", Shape(100, 1)): {"Redis": 2.0},
    ("cached", Shape(100, 16)): {"Redis": 2.0},
    ("synced", Shape(1, 64)): {"Redis": 1.0, "NATS": 10.0, "PostgreSQL": 3.0},
}
"""How many times as fast as others we want to be."""
GOAL_ARROW = 2e6
"""Records per second, of tables of Arrow in class disk."""


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    """Rates of all servers, by durability and shape; one after the other, as they are measured."""
    with _servers(folder) as servers:
        for safety in SAFETIES:
            for shape in SHAPES:
                yield from _beside_others(servers, safety, shape, scale)


def _beside_others(
    servers: list[Server], safety: Safety, shape: Shape, scale: float
) -> Iterator[Figure]:
    taken: dict[str, list[tuple[float, Result]]] = {}
    for _ in range(max(1, round(ROUNDS * min(1.0, scale * 2)))):
        for server in servers:
            plan = server.plan(safety, shape.records)
            if plan is not None:
                asked = _ask(plan, shape, SECONDS * min(1.0, max(0.02, scale)))
                rate = asked.requests_per_s * plan.records
                taken.setdefault(server.name, []).append((rate, asked))
    rates = {name: statistics.median(rate for rate, _ in found) for name, found in taken.items()}
    ours = rates["Strandline"]
    is_goal = shape.records == 1000 and safety == "cached"
    yield Figure(
        name=f"serving: {KINDS[safety]}, {shape}",
        value=ours,
        unit="rec/s",
        goal=f"{GOAL_ARROW:,.0f}/s" if is_goal else "",
        met=ours >= GOAL_ARROW if is_goal else None,
        note=_note(taken["Strandline"]),
    )
    for name, rate in rates.items():
        if name == "Strandline":
            continue
        goal = GOALS.get((safety, shape), {}).get(name)
        yield Figure(
            name=f"    {name}",
            value=rate,
            unit="rec/s",
            peer="ours / this",
            ratio=ours / rate,
            goal="" if goal is None else f"{goal:g}x",
            met=None if goal is None else ours / rate >= goal,
            note=_note(taken[name]),
        )


def _note(found: list[tuple[float, Result]]) -> str:
    def median(values: Iterator[float]) -> float:
        return statistics.median(values)

    p50, p99 = median(r.p50_ms for _, r in found), median(r.p99_ms for _, r in found)
    cpu_us = median(1e6 * result.server_cpu_s / rate for rate, result in found)
    share = median(result.server_cpu_s for _, result in found)
    slow = load.client()[1]
    told = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms; {cpu_us:.2f} us of CPU each, {share:.0%} of a core"
    return f"{told}; {slow}" if slow else told


def _ask(plan: Plan, shape: Shape, seconds: float) -> Result:
    return load.flood(
        plan,
        connections=shape.connections,
        in_flight=shape.in_flight,
        seconds=seconds,
        core=_core(1),
    )


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[list[Server]]:
    """Ours first; those that are installed."""
    with contextlib.ExitStack() as stack:
        core = _core(0)
        servers = []
        for start in (strandline_server, redis_server, nats_server, postgres_server):
            servers += stack.enter_context(start(folder, core))
        yield servers


def _core(number: int) -> int | None:
    """A core to stay on; None where there are not two."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[number] if len(cores) > 1 else None
