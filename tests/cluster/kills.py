"""Kills: the worker whose task stands at a gate, a driver at an instant that is drawn."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import gates
from tests.cluster.standalone import Cluster, Driver, until


def long_only(test: Any) -> Any:
    """For a test that kills often: only in long runs."""
    is_long = os.environ.get("STRANDLINE_CRASH") == "long"
    for mark in (
        pytest.mark.crash,
        pytest.mark.timeout(7200),
        pytest.mark.skipif(not is_long, reason="STRANDLINE_CRASH=long"),
    ):
        test = mark(test)
    return test


def drawn() -> random.Random:
    """Chance, with its seed in the test's output."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


def kill_who_waits(cluster: Cluster, gate: Path, driver: Driver) -> None:
    """Kill the worker at the gate, open it for the next, and put another worker in its place."""
    until(lambda: bool(gates.waiting(gate)), "task at the gate", driver.process)
    work = gates.waiting(gate)[0]
    name = Path(work).relative_to(cluster.folder).parts[0]
    cluster.kill_worker(name)
    gates.open_gate(gate)
    cluster.start_worker(f"{name}-again")


def kill_after(driver: Driver, reached: Callable[[], bool], seconds: float) -> None:
    """Kill a driver so long after something was reached. It may have ended by then."""
    process = driver.process
    until(lambda: reached() or process.has_ended(), "progress", process)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not process.has_ended():
        time.sleep(0.01)
    process.kill()
