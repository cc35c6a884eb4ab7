"""Promise: a store whose lake files are merged by somebody else delivers and counts as before.

A compaction takes no lock of the store and asks it nothing: whatever the store does at whichever
request of a compaction, and the other way round, every record is delivered exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from strandline.config.settings import LakeSettings
from strandline.errors import Conflict
from strandline.log.topic.topic import Topic
from strandline.pipelines import CompactSummary, Embedded, compact
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of

HOUR_S = 3600.0
ONE_FILE = LakeSettings(zone_rows=30)


def compacted(world: ColdWorld, settings: LakeSettings = ONE_FILE) -> CompactSummary:
    return compact(world.objects, settings=settings, engine=Embedded(1), clock=world.clock)


def noticed(world: ColdWorld) -> None:
    """Let the store look at the newest manifest, which it does once a minute."""
    world.clock.advance(61)
    world.store.relocate()


def straddling(**options: object) -> tuple[ColdWorld, Topic]:
    """One file of which the older part is in the lake alone, the newer one here too."""
    world = ColdWorld(copy_hot=True, hot_segments=2, grace_s=HOUR_S, manifest_retention_s=HOUR_S)
    topic = world.cold_topic(6, **options)
    compacted(world)
    noticed(world)
    cold = topic._state.cold
    assert (len(cold), cold.released, cold.last_seq) == (1, 400, 600)
    return world, topic


def cold_payload(topic: Topic) -> int:
    return sum(topic._state.cold.counted(place) for place in range(len(topic._state.cold)))


@pytest.mark.parametrize("copy_hot", [False, True])
def test_records_are_read_before_and_after_a_merge_is_noticed(copy_hot):
    world = ColdWorld(copy_hot=copy_hot)
    topic = world.cold_topic(6)
    numbers = topic.statistics()

    compacted(world)
    before = seqs_of(topic)
    noticed(world)

    assert before == seqs_of(topic) == list(range(1, 601))
    assert len(topic._state.cold) == 1
    assert topic.statistics().payload_bytes == numbers.payload_bytes
    assert seqs_of(world.kill().topic("t")) == list(range(1, 601))


@pytest.mark.parametrize("restart", [False, True])
def test_what_straddles_counts_its_released_part_and_later_all_of_it(restart):
    world, topic = straddling()
    whole = topic.statistics().payload_bytes
    if restart:
        topic = world.reopen().topic("t")
        assert topic.statistics().payload_bytes == whole

    topic.delete(before=201)
    topic.delete(match="odd")
    assert cold_payload(topic) + sum(
        len(b"%d" % seq) + len(b"k%d" % seq) + 4 for seq in range(402, 601, 2)
    ) == (topic.statistics().payload_bytes)
    world.fill(topic, 3)
    noticed(world)

    assert topic._state.cold.released == 700
    assert seqs_of(topic) == [*range(202, 601, 2), *range(601, 901)]
    topic.delete(before=901)
    assert topic.statistics().payload_bytes == 0


def test_a_merged_file_counts_no_more_than_those_in_its_place():
    """It holds rows of a file that had left, because the lake was not told of that yet."""
    world = ColdWorld()
    topic = world.cold_topic(6)
    topic.delete(before=151)
    before = topic.statistics().payload_bytes

    compacted(world)
    noticed(world)

    assert list(topic._state.cold.rows) == [500]
    assert topic.statistics().payload_bytes == before
    topic.delete(before=601)
    assert topic.statistics().payload_bytes == 0


def test_a_tag_is_found_in_the_released_part_of_a_file_that_straddles():
    _, topic = straddling()

    deleted = topic.delete(match="odd")

    assert deleted.deleted == 300
    assert seqs_of(topic) == list(range(2, 601, 2))


def test_ttl_takes_local_records_to_the_record_though_their_file_goes_on():
    world, topic = straddling(ttl_ms=600_000)
    stamps = {record.seq: record.ts for record in topic.read(0, limit=1000).records}
    world.clock.advance((stamps[451] + 600_000_000 - world.clock.now_us()) / 1e6)

    topic.enforce_retention()

    assert topic.statistics().earliest_seq == 451


def test_a_cap_on_bytes_takes_the_released_part_as_one_and_then_records():
    _, topic = straddling()
    whole = topic.statistics().payload_bytes

    topic.alter(cap_bytes=whole - cold_payload(topic) // 2)
    assert topic.statistics().earliest_seq == 1
    topic.alter(cap_bytes=whole - cold_payload(topic) - 1)

    assert 401 < topic.statistics().earliest_seq < 410


def test_what_is_merged_after_a_crash_is_compared_as_far_as_it_is_here():
    """A file is committed, the store dies, somebody merges it with what was let go long ago."""
    world = ColdWorld()
    topic = world.cold_topic(3)
    world.fill(topic, 2)
    known = topic._state.cold.manifest

    def die(operation: str, key: str) -> None:
        del operation, key
        if any(name.endswith(f"{known + 1:020d}.json") for name in world.objects.snapshot()):
            raise _DiedError

    world.objects.on_call = die
    with pytest.raises(_DiedError):
        world.store.relocate()
    world.objects.on_call = None
    compacted(world)

    topic = world.kill().topic("t")
    assert topic._state.cold.last_seq == 200
    noticed(world)

    assert topic._state.cold.last_seq == 400
    assert len(topic._state.cold) <= 2
    assert seqs_of(topic) == list(range(1, 501))


class _DiedError(Exception):
    """The process is no more."""


def test_a_rewrite_that_meets_a_merge_gives_way_and_leaves_nothing():
    world = ColdWorld(dead_share=0.2)
    topic = world.cold_topic(6)
    summaries = []

    def merge(operation: str, key: str) -> None:
        del key
        if operation == "put_file" and not summaries:
            summaries.append(None)
            summaries.append(compacted(world))

    topic.delete(match="odd")
    world.objects.on_call = merge
    world.store.relocate()
    world.objects.on_call = None

    assert summaries[1].groups == 1
    assert seqs_of(topic) == list(range(2, 601, 2))
    noticed(world)
    assert len(topic._state.cold) == 1
    named = {file.name() for file in world.store._relocator._writer.load(1).files}
    removed = {file.name for file in world.store._relocator._writer.load(1).removed}
    assert {key.rpartition("/")[2] for key in world.data_keys()} == named | removed


def test_a_merge_that_meets_a_rewrite_gives_way_and_leaves_nothing():
    world = ColdWorld(dead_share=0.2)
    topic = world.cold_topic(6)
    topic.delete(match="odd")
    done = []

    def rewrite(operation: str, key: str) -> None:
        del key
        if operation == "put_file" and not done:
            done.append(True)
            world.store.relocate()

    world.objects.on_call = rewrite
    summary = compacted(world)
    world.objects.on_call = None

    [skipped] = summary.skipped
    assert "another writer was first" in skipped.reason
    assert not skipped.damaged
    manifest = world.store._relocator._writer.load(1)
    kept = {file.name() for file in manifest.files} | {file.name for file in manifest.removed}
    assert {key.rpartition("/")[2] for key in world.data_keys()} == kept
    assert compacted(world).groups == 1
    noticed(world)
    assert seqs_of(topic) == list(range(2, 601, 2))


@pytest.mark.parametrize("copy_hot", [False, True])
def test_whatever_the_store_does_at_any_request_of_a_merge_nothing_comes_twice(copy_hot):
    requests = _requests_of_a_merge(copy_hot=copy_hot)
    for at in range(1, requests + 1):
        world, topic = _small_files(copy_hot=copy_hot)
        world.objects.on_call = _at(
            world, at, lambda world=world, topic=topic: _go_on(world, topic)
        )

        compacted(world)

        world.objects.on_call = None
        expected = list(range(32, 401, 2))
        assert seqs_of(topic) == expected, at
        noticed(world)
        assert seqs_of(topic) == expected, at
        assert seqs_of(world.kill().topic("t")) == expected, at


def _small_files(*, copy_hot: bool) -> tuple[ColdWorld, Topic]:
    world = ColdWorld(copy_hot=copy_hot, grace_s=HOUR_S, manifest_retention_s=HOUR_S, zone_rows=100)
    return world, world.cold_topic(3)


def _requests_of_a_merge(*, copy_hot: bool) -> int:
    world, _ = _small_files(copy_hot=copy_hot)
    before = world.objects.calls_total
    compacted(world)
    assert world.objects.calls_total - before > 20
    return world.objects.calls_total - before


def _at(world: ColdWorld, number: int, act: Callable[[], None]) -> Callable[[str, str], None]:
    """Do something at the nth request from now."""
    seen: list[str] = []

    def hook(operation: str, key: str) -> None:
        del key
        seen.append(operation)
        if len(seen) == number:
            world.objects.on_call = None
            act()
            world.objects.on_call = hook

    return hook


def _go_on(world: ColdWorld, topic: Topic) -> None:
    world.fill(topic, 1)
    topic.delete(match="odd")
    topic.delete(before=31)
    world.store.relocate()


def test_writers_deleters_relocation_and_merges_at_once_lose_nothing_and_repeat_nothing():
    world = ColdWorld(copy_hot=True, hot_segments=2, grace_s=HOUR_S, manifest_retention_s=HOUR_S)
    topic = world.cold_topic(4)
    over = threading.Event()
    failures: list[BaseException] = []

    def run(act) -> threading.Thread:
        def loop() -> None:
            try:
                while not over.is_set():
                    act()
            except BaseException as error:  # noqa: BLE001 - told by the test
                failures.append(error)

        thread = threading.Thread(target=loop)
        thread.start()
        return thread

    def read() -> None:
        found = seqs_of(topic)
        assert found == sorted(set(found))
        assert found[-1] <= topic.head_seq

    def relocate() -> None:
        world.store._relocator._read_s.clear()
        world.store.relocate()

    def merge() -> None:
        try:
            compacted(world, LakeSettings(file_bytes=4_000, zone_rows=30))
        except Conflict:
            return

    threads = [run(read), run(relocate), run(merge)]
    for number in range(8):
        world.fill(topic, 1)
        topic.delete(before=20 * number + 1)
    over.set()
    for thread in threads:
        thread.join()

    assert failures == []
    noticed(world)
    assert seqs_of(topic) == list(range(141, 1201))
    assert seqs_of(world.kill().topic("t")) == list(range(141, 1201))
    topic = world.store.topic("t")
    topic.delete(before=1201)
    assert topic.statistics().payload_bytes == 0
