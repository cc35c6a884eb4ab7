"""Promise (D13): a stream whose driver is killed at any instant writes every row exactly once.

The driver, its JVM and all that it started in its group get SIGKILL together. Workers that Spark
has put into groups of their own may go on for a moment, as stragglers do. The next driver goes on
from the checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import strandline
from strandline.errors import Locked, NotInstalled
from tests.crash.real.nursery import ROOT
from tests.unit.pipelines.owners import contents, delivered_in, owner

pyspark = pytest.importorskip("pyspark")

ROUNDS = 1
ROUNDS_LONG = 40
RECORDS = 240
WAIT_S_MAX = 300.0
LIFE_S_MAX = 2.5  # from the first sign of a batch to the kill
LOOK_S = 0.02


@pytest.fixture(autouse=True)
def java() -> None:
    from strandline.spark.sessions import check_java

    try:
        check_java()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


class Pipeline:
    """Two stores, a checkpoint, and one driver at a time."""

    def __init__(self, folder: Path) -> None:
        self.source, self.sink = str(folder / "source"), str(folder / "sink")
        self.checkpoint = folder / "checkpoint"
        self._scratch = folder / "scratch"
        self._log = folder / "log"
        with strandline.open(self.source) as store:
            store.topic("t").append_many([b"%d" % number for number in range(RECORDS)])
        with strandline.open(self.sink) as store:
            store.create_topic("t")

    def start(self) -> subprocess.Popen[bytes]:
        package = str(Path(strandline.__path__[0]).parent)
        paths = (self.source, self.sink, str(self.checkpoint), str(self._scratch))
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.crash.real.spark_driver", *paths],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def batches(self) -> int:
        """How many batches were begun."""
        offsets = self.checkpoint / "offsets"
        return sum(path.name.isdigit() for path in offsets.iterdir()) if offsets.is_dir() else 0

    def kill_within(self, life_s: float) -> bool:
        """Run a driver and kill it so long after its first batch; False when it was done before."""
        begun = self.batches()
        driver = self.start()
        deadline = time.monotonic() + WAIT_S_MAX
        while driver.poll() is None and self.batches() == begun:
            assert time.monotonic() < deadline, self.log()
            time.sleep(LOOK_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(life_s)  # the instant of death is what is drawn
        if driver.poll() is not None:
            assert driver.returncode == 0, self.log()
            return False
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(WAIT_S_MAX)
        return True

    def finish(self) -> None:
        """Let a driver do the rest, and the store take what was delivered last."""
        driver = self.start()
        try:
            driver.wait(WAIT_S_MAX)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
        assert driver.returncode == 0, self.log()

    def settle(self) -> None:
        """Take what the last driver delivered, once its stragglers are gone."""
        deadline = time.monotonic() + WAIT_S_MAX
        while True:
            try:
                with strandline.open(self.sink) as store:
                    store.ingest_pending()
                return
            except Locked:
                assert time.monotonic() < deadline
                time.sleep(LOOK_S)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def kill_again_and_again(folder: Path, rounds: int, seed: int) -> int:
    """One stream through many kills; how many drivers were killed."""
    rng = random.Random(seed)
    pipeline = Pipeline(folder)
    killed = 0
    for _ in range(rounds):
        if not pipeline.kill_within(rng.random() * LIFE_S_MAX):
            break
        killed += 1
    if rng.random() < 0.5:
        pipeline.settle()
        with owner(pipeline.sink):
            pipeline.finish()
    else:
        pipeline.finish()
    pipeline.settle()
    found = [int(data) for data in contents(pipeline.sink)]
    assert sorted(found) == list(range(RECORDS)), f"seed {seed}"
    assert delivered_in(pipeline.sink) == delivered_in(pipeline.sink, "refused") == []
    return killed


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_stream_writes_every_row_once_though_its_drivers_are_killed(tmp_path: Path):
    seed = random.randrange(1 << 32)

    killed = kill_again_and_again(tmp_path, ROUNDS, seed)

    assert killed > 0, "the drivers were done before they were killed"


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("STRANDLINE_CRASH") != "long", reason="STRANDLINE_CRASH=long")
def test_streams_write_every_row_once_through_many_kills(tmp_path: Path):
    seed = random.randrange(1 << 32)
    killed = 0

    for place in range(ROUNDS_LONG):
        folder = tmp_path / str(place)
        folder.mkdir()
        killed += kill_again_and_again(folder, 4, seed + place)

    assert killed > ROUNDS_LONG
