"""Promise (D1, D11): what was acked survives SIGKILL at any instant, and nothing else appears.

Each cycle forks a writer with several threads, lets it open the store the last one left, report
what it finds, and go on; then it is killed, wherever it is: in recovery, an append, a checkpoint.
The oracle knows what each of them intended and what it was told. The count of shards changes from
one cycle to the next.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from strandline.testing.oracle import Verdict
from tests.campaigns import KILL_CYCLES
from tests.crash.real.conftest import OracleProcess
from tests.crash.real.nursery import Nursery

CYCLES = 100
CYCLES_PER_STORE = 20
LIFE_S_MAX = 0.15
WORKERS = "tests.crash.real.workers"


def kill_again_and_again(
    nursery: Nursery, oracle: OracleProcess, directory: str, seed: int
) -> list[Verdict]:
    """One store through many kills; the verdicts of all who lived long enough to look around."""
    rng = random.Random(seed)
    verdicts: list[Verdict] = []
    for cycle in range(CYCLES_PER_STORE):
        pid = nursery.start(
            f"{WORKERS}:write_until_killed",
            directory=directory,
            pipe=oracle.pipe,
            generation=1 + cycle,
            shards=rng.choice([1, 1, 2, 3]),
        )
        if rng.random() < 0.5:
            verdicts += oracle.verdicts(1)
        time.sleep(rng.random() * LIFE_S_MAX)  # the instant of death is what is drawn
        os.kill(pid, signal.SIGKILL)
        assert nursery.wait(pid) == -signal.SIGKILL, nursery.errors()
    status = nursery.run(f"{WORKERS}:look", directory=directory, pipe=oracle.pipe)
    assert status == 0, nursery.errors()
    return verdicts + oracle.verdicts(1)


@pytest.mark.parametrize("part", range(CYCLES // CYCLES_PER_STORE))
def test_acked_records_survive_sigkill_at_any_instant(
    nursery: Nursery, oracle: OracleProcess, data_dir: str, part: int
):
    seed = random.randrange(1 << 32)

    verdicts = kill_again_and_again(nursery, oracle, data_dir, seed)

    assert [found.violations for found in verdicts if found.violations] == [], f"seed {seed}"
    assert verdicts[-1].acked > 100, "the writers hardly wrote anything"


@pytest.mark.crash
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("STRANDLINE_CRASH") != "long", reason="STRANDLINE_CRASH=long")
def test_acked_records_survive_thousands_of_kills(nursery: Nursery, tmp_path: Path):
    seed = random.randrange(1 << 32)

    for store in range(KILL_CYCLES // CYCLES_PER_STORE):
        folder = tmp_path / str(store)
        folder.mkdir()
        with contextlib.closing(OracleProcess(folder)) as oracle:
            verdicts = kill_again_and_again(nursery, oracle, str(folder / "data"), seed + store)
        broken = [found.violations for found in verdicts if found.violations]
        assert broken == [], f"seed {seed + store}"
        shutil.rmtree(folder)
