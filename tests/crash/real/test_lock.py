"""Promise (E10): one process writes a store; a dead one is no obstacle, and neither is a child."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import strandline
from tests.crash.real.nursery import WAIT_S_MAX, Nursery

WORKERS = "tests.crash.real.lock_workers"
LOCKED = 3
FORKS = 20


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} does not appear"
        time.sleep(0.001)


def test_a_second_process_is_refused(nursery: Nursery, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("t").append(b"mine")

        status = nursery.run(f"{WORKERS}:try_to_open", directory=data_dir)

        assert status == LOCKED, nursery.errors()
        store.topic("t").append(b"still mine")
    assert nursery.run(f"{WORKERS}:try_to_open", directory=data_dir) == 0, nursery.errors()


def test_a_second_store_in_the_same_process_is_refused(data_dir: str):
    with strandline.open(data_dir), pytest.raises(strandline.Locked, match="readonly=True"):
        strandline.open(data_dir)


def test_a_reader_needs_no_lock(nursery: Nursery, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("t").append(b"mine")

        status = nursery.run(f"{WORKERS}:read_beside_writer", directory=data_dir, count=1)

        assert status == 0, nursery.errors()


def test_the_lock_of_a_killed_process_is_no_obstacle(
    nursery: Nursery, data_dir: str, tmp_path: Path
):
    ready = tmp_path / "ready"
    pid = nursery.start(f"{WORKERS}:hold_open", directory=data_dir, ready=str(ready))
    wait_for(ready)
    with pytest.raises(strandline.Locked):
        strandline.open(data_dir)

    os.kill(pid, signal.SIGKILL)
    assert nursery.wait(pid) == -signal.SIGKILL

    with strandline.open(data_dir) as store:
        assert store.topic("t").read(0, 10).data == [b"before"]


def test_a_forked_child_cannot_use_the_store_and_never_hangs(nursery: Nursery, data_dir: str):
    """Also when a thread of the parent was in the middle of a step; and the parent goes on."""
    status = nursery.run(f"{WORKERS}:fork_while_appending", directory=data_dir, forks=FORKS)

    assert status == 0, nursery.errors()


def test_a_forked_child_does_not_keep_the_lock(nursery: Nursery, data_dir: str, tmp_path: Path):
    child = tmp_path / "child"
    status = nursery.run(f"{WORKERS}:leave_a_child", directory=data_dir, ready=str(child))
    assert status == 0, nursery.errors()
    wait_for(child)
    pid = int(child.read_text(encoding="ascii"))

    try:
        with strandline.open(data_dir) as store:
            assert store.topic("t").read(0, 10).data == [b"before"]
    finally:
        os.kill(pid, signal.SIGKILL)
