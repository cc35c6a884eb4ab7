"""Promise: a background job that meets a bug is dead, says so, and takes no promise with it.

E9 in short: the store turns red, whoever waits is answered, nothing is acknowledged afterwards.
"""

from __future__ import annotations

import threading

import pytest

import strandline
from strandline.errors import StoreFailed
from strandline.platform.clock import SystemClock
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.world import PATH, settings

DEADLINE_S = 5


def test_a_bug_in_the_sync_job_turns_the_store_red_and_ends_all_appends():
    disk = SimDisk()
    store = strandline.open(PATH, disk=disk, clock=SystemClock(), settings=settings())
    topic = store.topic("events", durability="disk")
    store.sync()
    job = next(each for each in threading.enumerate() if each.name == "strandline-sync-0")

    def bug(operation: str, path: str) -> None:
        del path
        if operation == "sync" and threading.current_thread() is job:
            raise RuntimeError("a bug")

    disk.on_call = bug
    topic.append(b"to be synced by the job")
    job.join(DEADLINE_S)
    disk.on_call = None

    assert store.health().status == "red"
    with pytest.raises(StoreFailed):
        topic.append(b"too late")
    store.close()
