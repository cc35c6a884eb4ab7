"""Promise (C8): whatever is in doubt stays on the disk.

A store whose metadata is damaged is opened three times, and written to where it opens. No segment
and no part of the log that was there before is gone or changed; at most it lies in quarantine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    REFUSALS,
    closed_store,
    data_paths,
    fill,
    flipped,
    killed_store,
    opened,
    replaced,
    without,
)

METADATA = ["/SYSTEM", "/CLOSED", "/meta/"]


@pytest.mark.parametrize("kind", METADATA)
@pytest.mark.parametrize("store", [closed_store, killed_store])
def test_three_restarts_on_damaged_metadata_delete_no_data(store, kind):
    for disk in _with_damaged(store(), kind):
        before = _data(disk)

        for _ in range(3):
            with contextlib.suppress(*REFUSALS), opened(disk, SimClock()) as found:
                found.topic("new").append(b"record")

        kept = set(_data(disk).values())
        assert {path for path, content in before.items() if content not in kept} == set()


@pytest.mark.parametrize("kind", ["/meta/", "/segments/", "/wal/"])
def test_three_restarts_on_a_missing_file_delete_no_other(kind):
    disk = closed_store()
    for path in (path for path in data_paths(disk) if kind in path):
        damaged = without(disk, path)
        before = _data(damaged)

        for _ in range(3):
            with contextlib.suppress(*REFUSALS), opened(damaged, SimClock()):
                pass

        kept = set(_data(damaged).values())
        assert {name for name, content in before.items() if content not in kept} == set()


def test_a_checkpoint_after_a_fallback_overwrites_nothing_that_the_damaged_one_listed():
    disk = _fresh()
    newest = [path for path in data_paths(disk) if "/meta/" in path][-1]
    disk = replaced(disk, newest, flipped(disk.read(newest), 100, 1))
    segments = [path for path in data_paths(disk) if path.endswith(".seg")]
    before = {path: disk.read(path) for path in [newest, *segments]}
    with opened(disk, SimClock()) as store:
        store.topic("small").append(b"more")

        store.checkpoint()

    assert {path: disk.read(path) for path in before} == before


def _with_damaged(disk: SimDisk, kind: str) -> Iterator[SimDisk]:
    """Copies with a flip in every metadata file of a kind, near its beginning, middle and end."""
    for path in (path for path in data_paths(disk) if kind in path):
        content = disk.read(path)
        for offset in (9, len(content) // 2, len(content) - 2):
            yield replaced(disk, path, flipped(content, offset, 2))


def _data(disk: SimDisk) -> dict[str, bytes]:
    """Everything that holds records, in use or set aside."""
    return {
        path: disk.read(path)
        for path in data_paths(disk)
        if path.endswith((".seg", ".log", ".log.cut"))
    }


def _fresh() -> SimDisk:
    disk = SimDisk()
    fill(disk, SimClock()).close()
    return disk
