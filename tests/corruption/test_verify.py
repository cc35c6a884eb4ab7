"""Promise: ``verify_store`` reads everything, changes nothing, and finds every damaged place.

Unlike opening, it also reads what no checkpoint needs any more, and every block of every segment.
``inspect_store`` and ``wal_frames`` show what is there without judging it.
"""

from __future__ import annotations

import errno

import pytest

from strandline.errors import NotAStore
from strandline.log.repair.inspect import FrameSummary, inspect_store, wal_frames
from strandline.log.repair.verify import VerifyReport, verify_store
from strandline.log.wal.control_messages import TopicCreated
from strandline.log.wal.recovery import LogDamage
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    ROOT,
    closed_store,
    data_paths,
    fill,
    flipped,
    frames_in,
    killed_store,
    opened,
    replaced,
    settings,
    snapshot,
    wal_paths,
    without,
)


@pytest.mark.parametrize("store", [closed_store, killed_store])
def test_a_whole_store_has_no_problem_and_is_not_changed(store):
    disk = store().kill()
    before = {path: disk.read(path) for path in [*data_paths(disk), f"{ROOT}/LOCK"]}

    report = verified(disk)

    assert (report.problems, report.notes, report.in_use) == ([], [], False)
    assert (report.topics, report.files) == (5, 10)
    assert report.frames == sum(len(frames_in(disk, path)) for path in wal_paths(disk))
    assert {path: disk.read(path) for path in [*data_paths(disk), f"{ROOT}/LOCK"]} == before


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.crash)])
@pytest.mark.parametrize("kind", ["/SYSTEM", "/CLOSED", "/meta/", "/segments/", "/wal/"])
def test_a_flipped_bit_anywhere_is_found_and_its_file_named(kind, step):
    disk = closed_store()
    missed = []
    for path in (path for path in data_paths(disk) if kind in path):
        content = disk.read(path)
        for offset in sorted(_covered(disk, path))[::step]:
            report = verified(replaced(disk, path, flipped(content, offset, offset % 8)))

            if path not in {problem.path for problem in report.problems}:
                missed.append((path, offset))

    assert missed == []


def test_a_missing_segment_or_log_file_is_found():
    disk = closed_store()
    needed = [path for path in data_paths(disk) if path.endswith((".seg", ".log"))]

    whole = [path for path in needed if verified(without(disk, path)).ok]

    assert whole == []


def test_a_problem_in_a_segment_names_topic_and_seqs():
    disk = closed_store()
    path = next(path for path in data_paths(disk) if "/segments/0" in path)

    report = verified(replaced(disk, path, flipped(disk.read(path), 100, 0)))

    (problem,) = report.problems
    assert (problem.path, problem.kind, problem.topic) == (path, "segment", "big")
    assert (problem.first_seq, problem.last_seq) == (1, 4)


def test_a_problem_in_the_log_names_topic_and_seqs_and_what_it_comes_to():
    disk = closed_store()
    path = wal_paths(disk)[-1]
    frame = next(frame for frame in frames_in(disk, path) if frame.kind == "single")
    content = flipped(disk.read(path), frame.offset + frame.size - 2, 0)

    report = verified(replaced(disk, path, content))

    place, lost = report.problems
    seq = frame.blocks[0].first_seq
    assert (place.path, place.kind, place.offset) == (path, "wal", frame.offset)
    assert (place.topic, place.first_seq, place.last_seq) == (lost.topic, seq, seq)
    assert (lost.kind, lost.first_seq, lost.last_seq) == ("topic", seq, seq)


def test_a_file_that_the_disk_cannot_read_is_a_problem():
    disk = closed_store().kill()
    path = next(path for path in data_paths(disk) if "/segments/shared" in path)
    disk.fail("pread", nth=4, errno=errno.EIO, path_contains=path)

    report = verified(disk)

    assert [problem.path for problem in report.problems] == [path]


def test_a_store_in_use_is_verified_beside_its_writer():
    disk = SimDisk()
    store = fill(disk, SimClock())

    report = verified(disk)
    store.close()

    assert report.in_use
    assert report.problems == []


def test_files_that_nothing_refers_to_are_noted():
    disk = closed_store().kill()
    strangers = [
        f"{ROOT}/notes.txt",
        f"{ROOT}/meta/checkpoint-1.bin.tmp",
        f"{ROOT}/wal/shard-00/wal-0.log.cut",
        f"{ROOT}/segments/shared/00000000000000000099.seg",
    ]
    for path in strangers:
        disk.durable_replace(path, b"something")

    report = verified(disk)

    assert report.ok
    assert [note.path for note in report.notes] == strangers


def test_a_directory_that_is_no_store_is_refused():
    disk = SimDisk()
    disk.make_dirs(ROOT)
    disk.durable_replace(f"{ROOT}/notes.txt", b"something")

    with pytest.raises(NotAStore):
        verified(disk)


def test_a_summary_tells_checkpoints_log_segments_and_topics():
    disk = closed_store()
    with opened(disk.kill(), SimClock()) as store:
        numbers = {name: store.topic(name).statistics() for name in store.topics()}

    found = inspect_store(disk, ROOT, settings())

    (shard,) = found.shards
    assert [each.number for each in found.checkpoints] == [1, 2]
    assert [each.path for each in shard.files] == wal_paths(disk)
    assert [each.state for each in shard.files] == ["full", "full", "full", "closed"]
    assert [each.end_lsn for each in shard.files[:-1]] == [
        each.first_lsn for each in shard.files[1:]
    ]
    assert {each.path for each in found.segments} == {
        path for path in data_paths(disk) if path.endswith(".seg")
    }
    assert found.clean
    for topic in found.topics:
        known = numbers[topic.name]
        assert (topic.head_seq, topic.epoch, topic.config) == (
            known.head_seq,
            known.epoch,
            known.config,
        )


def test_a_summary_of_a_damaged_store_tells_where_it_is_damaged():
    disk = closed_store()
    path = wal_paths(disk)[-1]
    newest = next(path for path in reversed(data_paths(disk)) if "/meta/" in path)
    damaged = replaced(disk, path, flipped(disk.read(path), 500, 0))
    damaged.durable_replace(newest, b"not a checkpoint")

    found = inspect_store(damaged, ROOT, settings())

    assert [bool(each.problem) for each in found.checkpoints] == [False, True]
    assert [each.path for each in found.shards[0].damage] == [path]
    assert found.shards[0].files[-1].state == "damaged"


def test_the_frames_of_one_file_are_listed_with_the_damage_between_them():
    disk = closed_store()
    path = wal_paths(disk)[0]
    whole = frames_in(disk, path)
    damaged = replaced(disk, path, flipped(disk.read(path), whole[2].offset + 30, 0))

    found = list(wal_frames(damaged, path))

    assert isinstance(whole[0].blocks[0].message, TopicCreated)
    assert [whole[place] for place in range(len(whole)) if place != 2] == [
        frame for frame in found if isinstance(frame, FrameSummary)
    ]
    assert [(place, frame.offset) for place, frame in enumerate(found) if _is_damage(frame)] == [
        (2, whole[2].offset)
    ]


def verified(disk: SimDisk) -> VerifyReport:
    before = snapshot(disk)
    report = verify_store(disk, ROOT, settings())
    assert snapshot(disk) == before
    return report


def _is_damage(frame: object) -> bool:
    return isinstance(frame, LogDamage)


def _covered(disk: SimDisk, path: str) -> set[int]:
    """All bytes of a file that a checksum covers."""
    content = disk.read(path)
    if "/wal/" not in path:
        return set(range(len(content))) - _padding(content, path)
    covered = set(range(96))
    for frame in frames_in(disk, path):
        padding = 8 if frame.kind == "batch" else 0
        covered.update(range(frame.offset, frame.offset + frame.size - padding))
    return covered


def _padding(content: bytes, path: str) -> set[int]:
    """Zeros of a segment that fill up the space between two blocks."""
    if not path.endswith(".seg"):
        return set()
    return {offset for offset in range(len(content)) if not content[offset]}
