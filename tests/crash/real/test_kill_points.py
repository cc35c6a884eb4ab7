"""Promise (D2): a process may be killed before any of its system calls, and acked records survive.

A fixed piece of work (appends of every form and class, deletes, checkpoints, merges, a deleted
topic) is cut before its Nth call of each kind that touches files.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from strandline.testing.oracle import Verdict, replay
from tests.crash.real.nursery import Nursery
from tests.crash.real.tracer import count_calls, needs_strace, run_killed_at

POINTS = 25
WORKERS = "tests.crash.real.workers"

pytestmark = needs_strace


@pytest.fixture(scope="module")
def points(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    """Every system call of the work: its name, and which one of that name it is."""
    folder = tmp_path_factory.mktemp("counted")
    counts = count_calls(
        nursery,
        folder / "strace",
        f"{WORKERS}:do_fixed_work",
        directory=str(folder / "data"),
        pipe=str(folder / "journal"),
    )
    assert counts["fdatasync"] > 10, counts
    return [(name, number) for name in sorted(counts) for number in range(1, counts[name] + 1)]


def kill_at(nursery: Nursery, folder: Path, name: str, number: int) -> Verdict:
    """Kill a writer there, open the store again, and judge."""
    folder.mkdir()
    arguments = {"directory": str(folder / "data"), "pipe": str(folder / "journal")}
    status = run_killed_at(nursery, name, number, f"{WORKERS}:do_fixed_work", **arguments)
    assert status == -signal.SIGKILL, f"{name} {number} was not reached: {nursery.errors()}"
    assert nursery.run(f"{WORKERS}:look", **arguments) == 0, nursery.errors()
    return replay((folder / "journal").read_bytes())[-1]


def test_a_kill_before_any_of_these_system_calls_loses_nothing(
    nursery: Nursery, points: list[tuple[str, int]], tmp_path: Path
):
    seed = random.randrange(1 << 32)
    chosen = random.Random(seed).sample(points, POINTS)

    verdicts = [
        (point, kill_at(nursery, tmp_path / str(place), *point))
        for place, point in enumerate(chosen)
    ]

    broken = [(point, found.violations) for point, found in verdicts if found.violations]
    assert broken == [], f"seed {seed}"
    assert max(found.acked for _, found in verdicts) > 100


@pytest.mark.crash
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("STRANDLINE_CRASH") != "long", reason="STRANDLINE_CRASH=long")
def test_a_kill_before_any_system_call_at_all_loses_nothing(
    nursery: Nursery, points: list[tuple[str, int]], tmp_path: Path
):
    for place, point in enumerate(points):
        verdict = kill_at(nursery, tmp_path / str(place), *point)

        assert verdict.violations == [], point
