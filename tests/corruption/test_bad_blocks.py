"""Promise (C4): blocks of zeros, of ones, or of another place of the same file are noticed.

The stated limit: in a log that was not closed, a sector of zeros behind everything known to be
synced is what a torn write leaves, so the log ends there. It never goes on behind it: what is read
is a beginning of what was written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec
import pytest

import strandline
from strandline.config.settings import WalSettings
from strandline.records import Record
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    NOTICED,
    ROOT,
    checked_bytes,
    content_of,
    damaged_block,
    data_paths,
    expected,
    frames_in,
    judged,
    killed_store,
    opened,
    replaced,
    settings,
    wal_paths,
)

BLOCK = 4096
FILLINGS = ["zeros", "ones", "another"]


@functools.cache
def wide_store(*, closed: bool) -> SimDisk:
    """A store whose files are larger than the blocks."""
    disk, clock = SimDisk(), SimClock()
    wal = WalSettings(file_size_first=4 * BLOCK, file_size_max=4 * BLOCK)
    wide = msgspec.structs.replace(settings(), wal=wal)
    store = strandline.open(ROOT, settings=wide, disk=disk, clock=clock, start_jobs=False)
    topic, other = store.topic("synced", durability="fsync"), store.topic("other")
    topic.append_many([b"in a segment of its own %d" % number * 9 for number in range(90)])
    store.checkpoint()
    for number in range(150):
        topic.append(b"synced %d" % number * 9)
        other.append_many([b"in the page cache %d" % number] * 3)
    if closed:
        store.close()
    return disk.kill()


@pytest.mark.parametrize("size", [512, BLOCK])
@pytest.mark.parametrize("filling", FILLINGS)
def test_a_bad_block_of_a_closed_store_is_noticed(filling, size):
    disk = wide_store(closed=True)

    outcomes = [
        (path, offset, judged(damaged, path, expected(disk)), needed)
        for path in data_paths(disk)
        for offset, damaged, needed in _with_bad_blocks(disk, path, filling, size)
    ]

    assert len([case for case in outcomes if case[3]]) >= 20
    assert [case for case in outcomes if case[2] not in NOTICED and case[3]] == []
    assert [case for case in outcomes if case[2] not in (*NOTICED, "unharmed")] == []


@pytest.mark.parametrize("size", [512, BLOCK])
@pytest.mark.parametrize("filling", FILLINGS)
def test_a_bad_block_below_what_a_later_frame_calls_synced_is_noticed_after_a_kill(filling, size):
    disk = wide_store(closed=False)
    cases = [
        (path, offset, judged(damaged, path, expected(disk)))
        for path in wal_paths(disk)
        for offset, damaged, needed in _with_bad_blocks(disk, path, filling, size)
        if needed and offset < _called_synced(disk, path, offset + size)
    ]

    unnoticed = [case for case in cases if case[2] not in NOTICED]

    assert len(cases) >= 10
    assert unnoticed == []


def test_ones_anywhere_in_the_log_are_noticed_after_a_kill():
    disk = wide_store(closed=False)

    outcomes = [
        (path, offset, judged(damaged, path, expected(disk)))
        for path in wal_paths(disk)
        for offset, damaged, needed in _with_bad_blocks(disk, path, "ones", 512)
        if needed
    ]

    assert len(outcomes) >= 20
    assert [case for case in outcomes if case[2] not in NOTICED] == []


def test_zeros_behind_everything_synced_end_the_log_and_nothing_is_read_behind_them():
    disk = killed_store()
    path, whole = wal_paths(disk)[-1], expected(disk)
    ended = 0
    for _, damaged, _ in _with_bad_blocks(disk, path, "zeros", 512):
        if judged(damaged.kill(), path, whole) in NOTICED:
            continue
        with opened(damaged, SimClock()) as store:
            found = content_of(store)

        ended += found != whole
        for topic in found.keys() & whole.keys():
            seqs = _seqs(found[topic])
            assert seqs == [seq for seq in _seqs(whole[topic]) if seq <= max(seqs, default=0)]
    assert ended >= 1


def _with_bad_blocks(
    disk: SimDisk, path: str, filling: str, size: int
) -> Iterator[tuple[int, SimDisk, bool]]:
    """Offsets, damaged copies, and whether the damage hit bytes that are needed."""
    content, checked = disk.read(path), checked_bytes(disk, path)
    for offset in range(0, len(content), size):
        other = content[(offset + size) % len(content) :][:size]
        block = {"zeros": bytes(size), "ones": b"\xff" * size, "another": other}[filling]
        damaged = damaged_block(content, offset, block)
        changed = [at for at in range(len(content)) if content[at] != damaged[at]]
        if changed:
            yield offset, replaced(disk, path, damaged), not checked.isdisjoint(changed)


def _called_synced(disk: SimDisk, path: str, behind: int) -> int:
    """The offset up to which frames behind a place, also in later files, call the file synced."""
    paths = wal_paths(disk)
    frames = [frame for frame in frames_in(disk, path) if frame.offset >= behind]
    for later in paths[paths.index(path) + 1 :]:
        frames += frames_in(disk, later)
    first = frames_in(disk, path)[0]
    synced = max((frame.durable_upto for frame in frames), default=0)
    return first.offset + synced - first.lsn


def _seqs(content: object) -> list[int]:
    """Seqs of the records, but for those below the floor: a lost delete brings some back."""
    assert isinstance(content, tuple)
    return [record.seq for record in content[-1] if isinstance(record, Record)]
