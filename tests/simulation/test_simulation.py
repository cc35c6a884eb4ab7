"""Promise: whatever strikes a server and its store, its clients are never told what is not true.

Server, clients, disk, clock and object store are in one process and one thread, and all follows
from a seed: ``world.py``. ``model.py`` judges the answers, ``faults.py`` lists what goes wrong.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.campaigns import SIMULATION_SECONDS
from tests.simulation.run import simulate

ROOT = Path(__file__).parents[2]
QUICK = 24


@pytest.mark.parametrize("seed", range(QUICK))
def test_no_answer_is_untrue_whatever_strikes(seed):
    report = simulate(seed)

    assert report.deaths >= 1


@pytest.mark.crash
@pytest.mark.timeout(SIMULATION_SECONDS + 300)
def test_no_answer_is_untrue_whatever_strikes_for_long():
    began, seed = time.monotonic(), QUICK

    while time.monotonic() - began < SIMULATION_SECONDS:
        simulate(seed)
        seed += 1

    assert seed > QUICK


def test_the_command_that_a_failure_prints_repeats_the_run():
    command = [sys.executable, "-m", "tests.simulation", "--seed", "3"]

    reports = {
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }

    assert len(reports) == 1
