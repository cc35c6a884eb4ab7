"""Promise: a benchmark leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.places import scratch

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 60
WAITS = """
import sys, time
from bench.places import scratch
with scratch(sys.argv[1]) as folder:
    (folder / "data").mkdir()
    (folder / "data" / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_is_told_to_end_takes_its_folder_along(tmp_path: Path, number: int):
    command = [sys.executable, "-c", WAITS, str(tmp_path)]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, **quiet) as process:
        assert process.stdout is not None
        folder = Path(os.fsdecode(process.stdout.readline().strip()))
        was_there = folder.is_dir()

        process.send_signal(number)
        process.wait(SECONDS_MAX)

    assert was_there
    assert folder.name.startswith("strandline-bench-")
    assert list(tmp_path.iterdir()) == []
    assert process.returncode != 0


def test_a_failure_leaves_no_folder_and_no_handler_behind(tmp_path: Path):
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(IsADirectoryError), scratch(str(tmp_path)) as folder:
        folder.write_text("x")

    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before
