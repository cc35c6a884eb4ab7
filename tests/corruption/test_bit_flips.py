"""Promise (C1): a flipped bit in any file is noticed, or was in a byte that nobody needs.

One bit of every byte of every file of a small store is flipped, the store is opened and everything
in it is read. Either an error names the file, or all records are there; then the byte is one that
no checksum covers because it says nothing, or another copy stood in for it and health says so.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.records import Record, Tombstone
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    NOTICED,
    checked_bytes,
    closed_store,
    content_of,
    data_paths,
    expected,
    flipped,
    judged,
    killed_store,
    names,
    opened,
    replaced,
    wal_paths,
)

KINDS = ["/SYSTEM", "/CLOSED", "/meta/", "/segments/shared/", "/segments/0", "/wal/"]
EVERY_BIT = [None, *(pytest.param(bit, marks=pytest.mark.crash) for bit in range(8))]
UNUSED_STEP = 97


@pytest.mark.parametrize("bit", EVERY_BIT)
@pytest.mark.parametrize("kind", KINDS)
def test_any_flipped_bit_of_a_closed_store_is_noticed(kind, bit):
    disk = closed_store()
    paths = [path for path in data_paths(disk) if kind in path]

    unnoticed = [found for path in paths for found in _unnoticed(disk, path, bit)]

    assert paths
    assert unnoticed == []


@pytest.mark.parametrize("bit", EVERY_BIT)
def test_any_flipped_bit_of_the_newest_log_file_is_noticed_after_a_kill(bit):
    disk = killed_store()

    unnoticed = _unnoticed(disk, wal_paths(disk)[-1], bit)

    assert unnoticed == []


def test_a_damaged_checkpoint_is_replaced_by_the_other_and_health_says_so():
    disk = closed_store()
    paths = [path for path in data_paths(disk) if "/meta/" in path]

    outcomes = {
        judged(replaced(disk, path, flipped(content, offset, offset % 8)), path, expected(disk))
        for path in paths
        for content in [disk.read(path)]
        for offset in range(0, len(content), 29)
    }

    assert len(paths) == 2
    assert outcomes == {"told"}


@pytest.mark.parametrize("kind", ["/segments/shared/", "/segments/0", "/wal/"])
def test_a_read_only_opening_goes_on_behind_damage_and_hides_nothing(kind):
    disk = closed_store()
    whole = expected(disk)
    hidden = []
    for path in (path for path in data_paths(disk) if kind in path):
        content = disk.read(path)
        for offset in sorted(checked_bytes(disk, path))[::17]:
            damaged = replaced(disk, path, flipped(content, offset, offset % 8))

            with opened(damaged, SimClock(), readonly=True) as store:
                found, reasons = content_of(store), store.health().reasons

            hidden += [
                (path, offset, topic)
                for topic in whole
                if not _is_told(found.get(topic), whole[topic], path, reasons)
            ]

    assert hidden == []


def _unnoticed(disk: SimDisk, path: str, bit: int | None) -> list[tuple[str, int, str]]:
    """Flips that came to something else than they may."""
    whole, content, checked = expected(disk), disk.read(path), checked_bytes(disk, path)
    unused = [offset for offset in range(len(content)) if offset not in checked]
    found = []
    for offset in sorted([*checked, *unused[::UNUSED_STEP]]):
        changed = flipped(content, offset, offset * 5 % 8 if bit is None else bit)
        outcome = judged(replaced(disk, path, changed), path, whole)
        if outcome not in NOTICED and (outcome != "unharmed" or offset in checked):
            found.append((path, offset, outcome))
    return found


def _is_told(found: object, whole: object, path: str, reasons: list[str]) -> bool:
    """Whether a topic is whole, or its reader learns of everything that it lacks."""
    if isinstance(found, Corrupt):
        return names(found, path)
    if found == whole or (found is None and reasons):
        return True
    assert isinstance(found, tuple)
    assert isinstance(whole, tuple)
    kept = {record.seq: record for record in found[-1] if isinstance(record, Record)}
    gaps = [gap for gap in found[-1] if isinstance(gap, Tombstone)]
    return bool(reasons) and all(
        kept[record.seq] == record
        if record.seq in kept
        else any(gap.gap_from <= record.seq <= gap.gap_to for gap in gaps)
        for record in whole[-1]
        if isinstance(record, Record)
    )
