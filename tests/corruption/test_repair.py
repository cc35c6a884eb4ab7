"""Promise: after a repair the store opens, keeps all that could be read, and tells what is lost.

Every record that was there is either read as it was, or lies in a gap of reason "damaged" that the
report names. A dry run changes nothing, a healthy store is left as it is byte for byte, a second
repair finds nothing to do, and no file is ever deleted.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence

import msgspec
import pytest

from strandline.errors import Corrupt, Locked, NotAStore
from strandline.log.repair.inspect import inspect_store
from strandline.log.repair.repair import LostRecords, RepairReport, repair_store
from strandline.log.repair.verify import verify_store
from strandline.records import Record, Tombstone
from strandline.testing.fault_injection import STEPS
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.accidents import struck
from tests.corruption.stores import (
    ROOT,
    Content,
    closed_store,
    content_of,
    data_paths,
    expected,
    flipped,
    frames_in,
    killed_store,
    opened,
    paths,
    replaced,
    settings,
    snapshot,
    wal_paths,
    without,
)

CHANGES = {"rename", "sync_dir", "create", "write"} | {
    f"{call}.{step}" for call, steps in STEPS.items() for step in steps
}
SEEDS = [*range(90), *(pytest.param(seed, marks=pytest.mark.crash) for seed in range(90, 1000))]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happened_a_repair_keeps_what_can_be_read_and_tells_the_rest(seed):
    closed = seed % 2 == 0
    whole = closed_store() if closed else killed_store()
    disk, story = struck(whole, seed, closed=closed)
    before = snapshot(disk)

    planned = repaired(disk, dry_run=True)
    unchanged = snapshot(disk) == before
    report = repaired(disk)

    assert unchanged, story
    assert (planned.lost, planned.moved) == (report.lost, report.moved), story
    assert missing_files(before, snapshot(disk)) == set(), story
    assert repaired(disk).healthy, story
    with opened(disk, SimClock()) as store:
        found = content_of(store)
    assert untold(expected(whole), found, report.lost) == [], story
    assert goes_on(disk), story


def test_a_healthy_store_is_left_as_it_is():
    for whole in (closed_store(), killed_store()):
        disk = whole.kill()
        before = {path: disk.read(path) for path in [*data_paths(disk), f"{ROOT}/LOCK"]}

        report = repaired(disk)

        assert report.healthy
        assert {path: disk.read(path) for path in [*data_paths(disk), f"{ROOT}/LOCK"]} == before


def test_a_damaged_record_of_the_log_is_lost_alone():
    whole = closed_store()
    path = wal_paths(whole)[-1]
    frame = next(frame for frame in frames_in(whole, path) if frame.kind == "single")
    disk = replaced(whole, path, flipped(whole.read(path), frame.offset + frame.size - 2, 0))

    report = repaired(disk)

    (lost,) = report.lost
    assert (lost.first_seq, lost.last_seq, lost.exact) == (*[frame.blocks[0].first_seq] * 2, True)
    with opened(disk, SimClock()) as store:
        topic = store.existing_topic(lost.topic)
        page = topic.read(lost.first_seq - 1, 1)
    assert page.tombstone == Tombstone(
        gap_from=lost.first_seq, gap_to=lost.last_seq, reason="damaged"
    )


def test_a_batch_whose_frame_header_is_damaged_is_kept_whole():
    whole = closed_store()
    path = wal_paths(whole)[-2]
    frame = next(
        frame for frame in frames_in(whole, path) if frame.blocks[0].count > 1 and not frame.mask
    )
    disk = replaced(whole, path, flipped(whole.read(path), frame.offset + 36, 0))

    report = repaired(disk)

    with opened(disk, SimClock()) as store:
        found = content_of(store)
    assert not report.healthy
    assert report.lost == []
    assert found == expected(whole)


def test_damage_changes_the_epoch_of_the_topics_that_lost_something_and_of_no_other():
    whole = closed_store()
    path = wal_paths(whole)[-1]
    frame = next(frame for frame in frames_in(whole, path) if frame.kind == "single")
    disk = replaced(whole, path, flipped(whole.read(path), frame.offset + frame.size - 2, 0))
    with opened(whole.kill(), SimClock()) as store:
        epochs = {name: store.topic(name).epoch for name in store.topics()}

    report = repaired(disk)

    with opened(disk, SimClock()) as store:
        changed = {name for name in epochs if store.topic(name).epoch != epochs[name]}
    assert changed == {lost.topic for lost in report.lost}


@pytest.mark.parametrize("kind", ["/segments/shared/", "/segments/0"])
def test_records_of_a_new_segment_are_found_again_in_the_log(kind):
    whole = closed_store()
    path = [path for path in data_paths(whole) if kind in path][-1]
    disk = without(whole, path)

    report = repaired(disk)

    with opened(disk, SimClock()) as store:
        found = content_of(store)
    assert report.lost == []
    assert found == expected(whole)


def test_records_of_a_sealed_segment_are_found_again_in_the_shared_one_it_was_made_from():
    disk = SimDisk()
    with opened(disk, SimClock()) as store:
        for _ in range(2):
            store.topic("sealed").append_many([b"record"] * 8)
            store.topic("small").append(b"keeps the shared segment")
            store.checkpoint()
        whole = content_of(store)
    (path,) = [path for path in data_paths(disk) if "/segments/0" in path]
    disk.durable_replace(path, flipped(disk.read(path), 80, 0))

    report = repaired(disk)

    with opened(disk, SimClock()) as store:
        found = content_of(store)
    assert report.lost == []
    assert found == whole
    assert [path for path in report.written if path.endswith(".seg")] == []


def test_swapped_files_are_put_right():
    whole = closed_store()
    for kind in (".seg", ".log"):
        first, second = [path for path in data_paths(whole) if path.endswith(kind)][-2:]
        disk = replaced(whole, first, whole.read(second))
        disk.durable_replace(second, whole.read(first))

        report = repaired(disk)

        with opened(disk, SimClock()) as store:
            found = content_of(store)
        assert report.lost == []
        assert found == expected(whole)


def test_a_store_without_a_readable_checkpoint_keeps_its_records():
    whole = closed_store()
    disk = whole.kill()
    for path in (path for path in data_paths(whole) if "/meta/" in path):
        disk.durable_replace(path, b"not a checkpoint")

    report = repaired(disk)

    with opened(disk, SimClock()) as store:
        found = content_of(store)
    assert untold(expected(whole), found, report.lost) == []
    assert found.keys() == expected(whole).keys()
    assert report.lost == []
    assert report.notes


def test_a_damaged_only_checkpoint_is_refused_with_the_way_out_and_a_repair_loses_nothing():
    disk = SimDisk()
    with opened(disk, SimClock()) as store:
        topic = store.topic("t", cap_records=9)
        topic.append_many([b"%d" % number for number in range(12)], tags=["a", "b"] * 6)
        topic.delete(match="a")
        store.topic("gone").append(b"x")
        store.delete_topic("gone")
        store.checkpoint()
        topic.append(b"behind it")
    whole = disk.kill()
    (path,) = (path for path in data_paths(disk) if "/meta/" in path)
    disk.durable_replace(path, flipped(disk.read(path), 100, 1))
    before = snapshot(disk)

    with pytest.raises(Corrupt, match="run `strandline repair`"):
        opened(disk, SimClock())
    untouched = snapshot(disk) == before
    report = repaired(disk)

    assert untouched
    with opened(disk, SimClock()) as store:
        assert content_of(store) == expected(whole)
    assert report.lost == []


def test_a_damaged_system_file_is_made_anew_from_the_log():
    whole = closed_store()
    for disk in (
        replaced(whole, f"{ROOT}/SYSTEM", b"{}"),
        without(whole, f"{ROOT}/SYSTEM"),
        replaced(whole, f"{ROOT}/SYSTEM", flipped(whole.read(f"{ROOT}/SYSTEM"), 10, 2)),
    ):
        repaired(disk)

        with opened(disk, SimClock()) as store:
            assert content_of(store) == expected(whole)


def test_files_of_two_stores_are_not_mixed_into_one():
    stranger = SimDisk(seed=5)
    with opened(stranger, SimClock()) as store:
        store.topic("foreign").append(b"record")
    disk = replaced(closed_store(), f"{ROOT}/SYSTEM", b"")
    path = wal_paths(disk)[0]
    disk.durable_replace(path, stranger.read(wal_paths(stranger)[0]))
    before = snapshot(disk)

    with pytest.raises(Corrupt, match="different stores"):
        repaired(disk)

    assert snapshot(disk) == before


def test_the_report_lies_beside_the_damaged_files():
    whole = closed_store()
    path = wal_paths(whole)[-1]
    damaged = flipped(whole.read(path), 500, 0)
    disk = replaced(whole, path, damaged)

    report = repaired(disk)

    moved = {each.path: each.to for each in report.moved}
    (written,) = [path for path in report.written if path.endswith(".json")]
    stored = msgspec.json.decode(disk.read(written), type=RepairReport)
    assert disk.read(moved[path]) == damaged
    assert (stored.lost, stored.moved) == (report.lost, report.moved)


def test_an_open_store_is_not_repaired():
    disk = closed_store().kill()
    with opened(disk, SimClock()), pytest.raises(Locked):
        repaired(disk)


def test_a_repair_that_is_cut_short_is_finished_by_the_next():
    whole = closed_store()
    path = wal_paths(whole)[-1]
    hurt = replaced(whole, path, flipped(whole.read(path), 500, 0))
    segment = next(path for path in data_paths(whole) if "/segments/0" in path)
    hurt.durable_replace(segment, flipped(whole.read(segment), 300, 0))
    lost = repaired(hurt.kill()).lost
    steps = 0
    while (disk := _cut_short(hurt, steps + 1)) is not None:
        steps += 1
        after = disk.crash(random.Random(steps))

        report = repaired(after)

        with opened(after, SimClock()) as store:
            found = content_of(store)
        assert untold(expected(whole), found, [*report.lost, *lost]) == [], steps
    assert steps >= 20


def repaired(disk: SimDisk, *, dry_run: bool = False) -> RepairReport:
    return repair_store(disk, ROOT, settings(), dry_run=dry_run, clock=SimClock())


def missing_files(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    """Files whose content is nowhere any more."""
    kept = set(after.values())
    return {path for path, content in before.items() if content not in kept}


def untold(whole: Content, found: Content, told: Sequence[LostRecords]) -> list[str]:
    """Records that are neither there as they were nor in a gap that reader and report know of."""
    wrong = []
    for topic, content in whole.items():
        name = topic if topic in found else f"recovered-{_ids()[topic]}"
        if name not in found:
            wrong += [f"{topic} is gone"] if _split(content)[0] else []
            continue
        records, gaps = _split(found[name])
        lost = [each for each in told if each.topic == name]
        for seq, record in _split(content)[0].items():
            if seq in records:
                wrong += [f"{topic} {seq} is another"] * (records[seq] != record)
            elif not (
                any(gap.gap_from <= seq <= gap.gap_to for gap in gaps)
                and any(each.first_seq <= seq <= each.last_seq for each in lost)
            ):
                wrong.append(f"{topic} {seq} is not told")
    return wrong


def goes_on(disk: SimDisk) -> bool:
    """Whether the store takes records and checkpoints, and is whole afterwards."""
    with opened(disk, SimClock()) as store:
        store.topic("big").append(b"after the repair")
        store.topic("new").append_many([b"more"] * 20)
        store.checkpoint()
        before = content_of(store)
    with opened(disk, SimClock()) as store:
        same = content_of(store) == before
    return same and verify_store(disk, ROOT, settings()).ok


def _cut_short(disk: SimDisk, step: int) -> SimDisk | None:
    """A copy on which a repair lost power at its nth change, None when it has fewer."""
    copy = disk.kill()
    changes = itertools.count(1)

    def lose_power(operation: str, path: str) -> None:
        del path
        if operation in CHANGES and next(changes) == step:
            copy.power_off()

    copy.on_call = lose_power
    try:
        repaired(copy)
    except OSError:
        return copy
    return None


@functools.cache
def _ids() -> dict[str, int]:
    """The ids of the topics, by which those are called that have lost their names."""
    return {topic.name: topic.id for topic in inspect_store(closed_store(), ROOT).topics}


def _split(content: object) -> tuple[dict[int, Record], list[Tombstone]]:
    assert isinstance(content, tuple), content
    records = {found.seq: found for found in content[-1] if isinstance(found, Record)}
    return records, [found for found in content[-1] if isinstance(found, Tombstone)]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"notes.txt": b"mine"},
        {"SYSTEM": b"not ours"},
        {"SYSTEM": b"not ours", "wal/shard-00/wal-00000000000000000000.log": b"nor this"},
        {"segments": b"a file"},
        {"segments/readme": b"a file", "wal/notes": b"mine", "meta/checkpoint-1.bin": b"no"},
    ],
    ids=str,
)
def test_a_directory_that_is_no_store_is_left_as_it_is(files):
    disk = SimDisk()
    disk.make_dirs(ROOT)
    for name, content in files.items():
        disk.make_dirs(f"{ROOT}/{name}".rpartition("/")[0])
        disk.durable_replace(f"{ROOT}/{name}", content)
    before = {path: disk.read(path) for path in paths(disk)}

    for dry_run in (True, False):
        with pytest.raises((NotAStore, Corrupt), match="SYSTEM"):
            repair_store(disk, ROOT, dry_run=dry_run)

    assert {path: disk.read(path) for path in paths(disk)} == before
