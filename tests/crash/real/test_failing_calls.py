"""Promise (E1, E2): a system call that fails is answered, and never paid for with acked records.

A failed sync of the log is final: nothing is acked behind it until the store is opened again. A
failed write takes nothing with it. Whatever fails, the caller gets one of the store's own errors,
reads go on, and the next opening finds all that was acked.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from strandline.testing.oracle import replay
from tests.crash.real.nursery import Nursery
from tests.crash.real.tracer import count_calls, needs_strace, run_failing_at
from tests.crash.real.workers import FAILED

WORKERS = "tests.crash.real.workers"
SAMPLES = 2
FAULTS = [
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("pwritev2", "ENOSPC"),
    ("pwritev2", "EIO"),
    ("fallocate", "ENOSPC"),
    ("openat", "EMFILE"),
    ("rename", "EIO"),
    ("unlink", "EIO"),
]
pytestmark = needs_strace


@pytest.fixture(scope="module")
def counts(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often the work makes each system call when nothing fails."""
    folder = tmp_path_factory.mktemp("counted")
    arguments = {"directory": str(folder / "data"), "pipe": str(folder / "journal")}
    return count_calls(nursery, folder / "strace", f"{WORKERS}:work_through_errors", **arguments)


def fail_at(nursery: Nursery, folder: Path, name: str, error: str, number: str) -> None:
    """Let calls fail while a writer works, open the store again, and judge."""
    folder.mkdir()
    arguments = {"directory": str(folder / "data"), "pipe": str(folder / "journal")}

    status = run_failing_at(
        nursery, name, error, number, f"{WORKERS}:work_through_errors", **arguments
    )

    point = f"{name} {error} {number}"
    assert status in (0, FAILED), f"{point}: {status} {nursery.errors()}"
    assert nursery.run(f"{WORKERS}:look", **arguments) == 0, f"{point}: {nursery.errors()}"
    assert replay((folder / "journal").read_bytes())[-1].violations == [], point


@pytest.mark.parametrize(("name", "error"), FAULTS)
def test_a_failing_call_costs_no_acked_record(
    nursery: Nursery, counts: dict[str, int], tmp_path: Path, name: str, error: str
):
    numbers = random.sample(range(1, counts[name] + 1), min(SAMPLES, counts[name]))

    for number in numbers:
        fail_at(nursery, tmp_path / f"once-{number}", name, error, str(number))
    fail_at(nursery, tmp_path / "for-good", name, error, f"{numbers[0]}+")


@pytest.mark.crash
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("STRANDLINE_CRASH") != "long", reason="STRANDLINE_CRASH=long")
@pytest.mark.parametrize(("name", "error"), FAULTS)
def test_any_failing_call_costs_no_acked_record(
    nursery: Nursery, counts: dict[str, int], tmp_path: Path, name: str, error: str
):
    for number in range(1, counts[name] + 1):
        fail_at(nursery, tmp_path / f"once-{number}", name, error, str(number))
        fail_at(nursery, tmp_path / f"for-good-{number}", name, error, f"{number}+")
