"""Promise (C2): a file that was cut off is noticed, at whatever length, also between two frames.

A log that is cut exactly where a frame ends looks like a shorter log. It is known to be longer by
what later frames, the last checkpoint or a clean close said was synced, and by the size that every
log file has from its first byte on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    NOTICED,
    checked_bytes,
    closed_store,
    data_paths,
    expected,
    frames_in,
    judged,
    killed_store,
    replaced,
    wal_paths,
)

KINDS = ["/SYSTEM", "/CLOSED", "/meta/", "/segments/shared/", "/segments/0", "/wal/"]


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.crash)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_at_any_length_is_noticed(kind, step):
    disk = closed_store()
    paths = [path for path in data_paths(disk) if kind in path]

    unnoticed = [
        found
        for path in paths
        for found in _unnoticed(disk, path, range(0, len(disk.read(path)), step))
    ]

    assert paths
    assert unnoticed == []


@pytest.mark.parametrize("store", [closed_store, killed_store])
def test_a_log_cut_between_two_frames_is_noticed(store: Callable[[], SimDisk]):
    disk = store()
    needed = wal_paths(disk)[-2:]

    unnoticed = [
        found for path in needed for found in _unnoticed(disk, path, _frame_ends(disk, path))
    ]

    assert unnoticed == []


def test_a_log_file_cut_to_nothing_is_noticed_after_a_kill():
    disk = killed_store()

    unnoticed = [found for path in wal_paths(disk)[-2:] for found in _unnoticed(disk, path, [0])]

    assert unnoticed == []


def test_a_log_cut_below_what_was_synced_is_noticed_after_a_power_loss():
    disk = closed_store().crash(random.Random(1))
    path = wal_paths(disk)[-1]

    unnoticed = _unnoticed(disk, path, _frame_ends(disk, path))

    assert unnoticed == []


def _unnoticed(disk: SimDisk, path: str, sizes: Sequence[int]) -> list[tuple[str, int, str]]:
    """Cuts that took something away, and nobody said so."""
    whole, content, checked = expected(disk), disk.read(path), checked_bytes(disk, path)
    found = []
    for size in sizes:
        outcome = judged(replaced(disk, path, content[:size]), path, whole)
        lost = any(content[offset] for offset in checked if offset >= size)
        if outcome not in NOTICED and (outcome != "unharmed" or lost):
            found.append((path, size, outcome))
    return found


def _frame_ends(disk: SimDisk, path: str) -> list[int]:
    return [frame.offset for frame in frames_in(disk, path)]
