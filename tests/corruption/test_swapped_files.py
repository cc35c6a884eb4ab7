"""Promise (C3): a file that is missing, swapped, stale or another store's is noticed.

Every file says who it is under its own checksum, and the checkpoint knows the checksum of each of
its segments. One limit remains: after a kill nothing on the disk tells that a newest log file, all
of it behind the last checkpoint, was ever begun. A clean close does tell.
"""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Corrupt
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    NOTICED,
    closed_store,
    data_paths,
    expected,
    fill,
    judged,
    killed_store,
    opened,
    replaced,
    wal_paths,
    without,
)

MAY_BE_MISSED = ("/CLOSED", "/meta/")


def test_a_missing_file_is_noticed_or_was_not_needed():
    disk = closed_store()
    needed = [
        path
        for path in data_paths(disk)
        if not any(kind in path for kind in MAY_BE_MISSED) and path not in wal_paths(disk)[:2]
    ]

    outcomes = {
        path: judged(without(disk, path), path, expected(disk)) for path in data_paths(disk)
    }

    assert {path for path in needed if outcomes[path] not in NOTICED} == set()
    assert {
        path for path, found in outcomes.items() if found not in (*NOTICED, "unharmed")
    } == set()


def test_a_missing_log_file_is_noticed_after_a_kill_unless_it_is_the_newest():
    disk = killed_store()
    path = wal_paths(disk)[-2]

    outcome = judged(without(disk, path), path, expected(disk))

    assert outcome in NOTICED


def test_a_missing_log_is_noticed():
    disk = closed_store().kill()
    for path in wal_paths(disk):
        disk.remove(path)
    disk.remove("/data/wal/shard-00")

    outcome = judged(disk, "/data/wal/shard-00", expected(closed_store()))

    assert outcome == "refused"


@pytest.mark.parametrize("kind", ["/meta/", "/segments/", "/wal/"])
def test_two_swapped_files_are_noticed(kind):
    disk = closed_store()
    paths = [path for path in data_paths(disk) if kind in path]
    pairs = list(itertools.combinations(paths, 2))

    unnoticed = [pair for pair in pairs if _swapped(disk, *pair) not in ("refused", "read refused")]

    assert pairs
    assert unnoticed == []


def test_a_file_put_back_from_an_earlier_moment_is_noticed_or_harmless():
    disk = closed_store()
    stale = {
        (path, content)
        for moment in _earlier_moments()
        for path in data_paths(moment)
        if (content := moment.read(path)) != (disk.read(path) if disk.exists(path) else b"")
    }

    outcomes = [
        (path, judged(replaced(disk, path, content), path, expected(disk)))
        for path, content in stale
    ]

    needed = wal_paths(disk)[-2:]
    assert {path for path, _ in outcomes} >= {*wal_paths(disk), "/data/CLOSED"}
    assert [found for path, found in outcomes if path in needed and found not in NOTICED] == []
    assert {found for _, found in outcomes} <= {*NOTICED, "unharmed"}


def test_a_file_of_another_store_is_noticed():
    stranger, disk = SimDisk(seed=1), closed_store()
    fill(stranger, SimClock()).close()
    foreign = [path for path in data_paths(stranger) if path.count("/") > 2]

    outcomes = {
        path: judged(replaced(disk, path, stranger.read(path)), path, expected(disk))
        for path in foreign
    }

    assert len(outcomes) >= 10
    assert {path for path, found in outcomes.items() if found not in NOTICED} == set()


def test_the_identity_of_another_store_is_noticed():
    stranger, disk = SimDisk(seed=1), closed_store().kill()
    fill(stranger, SimClock()).close()
    disk.durable_replace("/data/SYSTEM", stranger.read("/data/SYSTEM"))

    with pytest.raises(Corrupt, match="another store"):
        opened(disk, SimClock())


def _swapped(disk: SimDisk, first: str, second: str) -> str:
    changed = replaced(replaced(disk, first, disk.read(second)), second, disk.read(first))
    whole = expected(disk)
    pairs = ((first, second), (second, first))
    outcomes = {judged(changed.kill(), path, whole, other=other) for path, other in pairs}
    fine = [found for found in outcomes if found in NOTICED]
    return fine[0] if fine else outcomes.pop()


def _earlier_moments() -> list[SimDisk]:
    """The store of ``fill`` whenever it synced or replaced something, as copies of the disk."""
    disk = SimDisk()
    moments: list[SimDisk] = []

    def copy(operation: str, path: str) -> None:
        if operation in ("sync", "durable_replace"):
            moments.append(disk.kill())

    disk.on_call = copy
    fill(disk, SimClock()).close()
    return moments
