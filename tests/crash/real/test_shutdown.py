"""Promise (D14): however a process ends, it ends soon, and what was acked is there afterwards.

A store that is closed loses nothing of any class; one that nobody closed, or that was interrupted
in the very middle of an append, loses nothing of ``disk`` and ``fsync`` topics.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from strandline.testing.oracle import Verdict, replay
from tests.crash.real.nursery import WAIT_S_MAX, Nursery

ENDINGS = "tests.crash.real.endings"
WORKERS = "tests.crash.real.workers"
END_S_MAX = 10.0
SIGNALS = 8
SIGNAL_S_MAX = 0.05
JOURNAL_SIZE = 4000


def end(nursery: Nursery, folder: Path, ending: str, signum: int | None = None) -> int:
    """Let a process end that way; its exit status."""
    folder.mkdir(exist_ok=True)
    journal = folder / "journal"
    pid = nursery.start(f"{ENDINGS}:{ending}", directory=str(folder / "data"), pipe=str(journal))
    if signum is not None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not journal.exists() or journal.stat().st_size < JOURNAL_SIZE:
            assert time.monotonic() < deadline, nursery.errors()
            time.sleep(0.001)
        time.sleep(random.random() * SIGNAL_S_MAX)
        os.kill(pid, signum)
    return nursery.wait(pid, END_S_MAX)


def judge(nursery: Nursery, folder: Path, *, lossy: tuple[str, ...] = ()) -> Verdict:
    """Open the store again: nothing may be missing but from topics of these classes."""
    journal = folder / "journal"
    status = nursery.run(
        f"{WORKERS}:look", directory=str(folder / "data"), pipe=str(journal), lossy=lossy
    )
    assert status == 0, nursery.errors()
    return replay(journal.read_bytes())[-1]


@pytest.mark.parametrize("ending", ["close_under_appends", "leave_the_block", "exit_in_the_block"])
def test_a_closed_store_loses_nothing_of_any_class(nursery: Nursery, tmp_path: Path, ending: str):
    assert end(nursery, tmp_path, ending) == 0, nursery.errors()

    verdict = judge(nursery, tmp_path)

    assert verdict.violations == []
    assert verdict.acked > 100


@pytest.mark.parametrize("ending", ["forget_to_close", "forget_to_close_with_reference"])
def test_a_store_that_nobody_closes_loses_nothing_that_is_on_disk(
    nursery: Nursery, tmp_path: Path, ending: str
):
    assert end(nursery, tmp_path, ending) == 0, nursery.errors()

    verdict = judge(nursery, tmp_path, lossy=("memory",))

    assert verdict.violations == []
    assert verdict.acked > 100


@pytest.mark.parametrize(
    ("ending", "signum", "lossy"),
    [
        ("be_interrupted", signal.SIGINT, ("memory",)),
        ("exit_from_handler", signal.SIGTERM, ("memory",)),
        ("close_from_handler", signal.SIGTERM, ()),
        ("close_from_handler_in_an_append", signal.SIGTERM, ("memory",)),
    ],
)
def test_a_signal_at_any_instant_ends_the_process_and_loses_nothing(
    nursery: Nursery, tmp_path: Path, ending: str, signum: int, lossy: tuple[str, ...]
):
    for run in range(SIGNALS):
        folder = tmp_path / str(run)

        status = end(nursery, folder, ending, signum)

        assert status == 0, nursery.errors()
        assert judge(nursery, folder, lossy=lossy).violations == []


def test_appends_that_are_interrupted_again_and_again_stay_in_order_and_never_hang(
    nursery: Nursery, tmp_path: Path
):
    arguments = {"directory": str(tmp_path / "data"), "pipe": str(tmp_path / "journal")}

    status = nursery.run(f"{ENDINGS}:go_on_after_interrupts", **arguments)

    assert status == 0, nursery.errors()
    verdict = judge(nursery, tmp_path, lossy=("memory",))

    assert verdict.violations == []
    assert verdict.acked > 100
