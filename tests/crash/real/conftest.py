"""What tests with real processes share: one nursery, and an oracle for each store."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import strandline
from strandline.testing.oracle import Reporter, Verdict
from tests.crash.real.nursery import ROOT, Nursery

WAIT_S_MAX = 60.0


class OracleProcess:
    """The test's side of the oracle: it hears verdicts and says when to stop."""

    def __init__(self, folder: Path) -> None:
        self.pipe = str(folder / "pipe")
        self.journal = folder / "journal"
        os.mkfifo(self.pipe)
        package = str(Path(strandline.__path__[0]).parent)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "strandline.testing.oracle", self.pipe, str(self.journal)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": package},
            stdout=subprocess.PIPE,
        )
        self._fd = os.open(self.pipe, os.O_WRONLY)
        self._buffer = b""

    def verdicts(self, count: int) -> list[Verdict]:
        """All verdicts so far, at least so many."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        deadline = time.monotonic() + WAIT_S_MAX
        while self._buffer.count(b"\n") < count:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the oracle is silent"
            data = os.read(fd, 1 << 20)
            assert data, "the oracle died"
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [msgspec.json.decode(line, type=Verdict) for line in lines]

    def close(self) -> None:
        Reporter(self._fd, 0).quit()
        os.close(self._fd)
        self._process.wait(WAIT_S_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("nursery") / "stderr")
    yield made
    made.close()


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[OracleProcess]:
    made = OracleProcess(tmp_path)
    yield made
    made.close()
