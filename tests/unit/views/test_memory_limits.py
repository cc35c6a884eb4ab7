"""Promise: a store that is written through its views takes the memory it was given, and a tenth
more at most, however much is written. ``memory_writer.py`` says what counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.config.settings import MIB

ROOT = Path(__file__).parents[3]
BUDGET = 192 * MIB
PROCESS_SECONDS_MAX = 280

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/statm"), reason="the kernel does not tell what is resident"
)


def _grown(kind: str, folder: str, written_bytes: int) -> int:
    command = [sys.executable, "-m", "tests.unit.views.memory_writer", kind, folder]
    done = subprocess.run(
        [*command, str(BUDGET), str(written_bytes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["written"] >= written_bytes
    return told["growth"]


@pytest.mark.parametrize("kind", ["kv", "queue"])
def test_writing_twice_the_budget_stays_within_it(kind, data_dir):
    assert _grown(kind, data_dir, 2 * BUDGET) <= BUDGET * 1.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kv", "queue"])
def test_writing_ten_times_the_budget_stays_within_it(kind, data_dir):
    assert _grown(kind, data_dir, 10 * BUDGET) <= BUDGET * 1.1
