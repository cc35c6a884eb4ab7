"""Promise: caps, ttl and deletes reach into the lake, and the bucket really shrinks."""

from __future__ import annotations

import pytest

from strandline.records import Tombstone
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of

HOUR_S = 3600.0


def swept(world: ColdWorld) -> None:
    """Let the grace period pass, with enough turns to notice."""
    world.store.relocate()
    for _ in range(3):
        world.clock.advance(3 * HOUR_S)
        world.store.relocate()


def cold_world(**lake: object) -> ColdWorld:
    return ColdWorld(grace_s=HOUR_S, manifest_retention_s=HOUR_S, **lake)


def test_a_cap_on_records_is_exact_in_the_lake():
    world = cold_world()
    topic = world.cold_topic(cap_records=1000)

    topic.alter(cap_records=333)

    page = topic.read(0, limit=1000)
    assert page.tombstone == Tombstone(gap_from=1, gap_to=167, reason="cap")
    assert [record.seq for record in page.records] == list(range(168, 501))
    swept(world)
    assert len(world.data_keys()) == 3
    assert seqs_of(topic, 167) == list(range(168, 501))


def test_a_cap_on_bytes_takes_whole_files_and_never_too_much():
    world = cold_world()
    topic = world.cold_topic()
    whole = topic.statistics().payload_bytes
    per_file = topic._state.cold.payloads[2]

    topic.alter(cap_bytes=whole // 2)

    numbers = topic.statistics()
    assert whole // 2 <= numbers.payload_bytes < whole // 2 + per_file
    assert numbers.earliest_seq == 201
    assert seqs_of(topic) == list(range(201, 501))


def test_a_cap_on_bytes_goes_on_into_the_segments():
    world = cold_world()
    topic = world.cold_topic()

    topic.alter(cap_bytes=500)

    numbers = topic.statistics()
    assert numbers.payload_bytes <= 500
    assert numbers.earliest_seq > 401
    swept(world)
    assert world.data_keys() == []


def test_records_of_the_lake_expire_to_the_record_for_who_reads_them():
    world = cold_world()
    topic = world.cold_topic(ttl_ms=600_000)
    stamps = {record.seq: record.ts for record in topic.read(0, limit=1000).records}
    now_us = world.clock.now_us()
    world.clock.advance((stamps[151] + 600_000_000 - now_us) / 1e6)  # 150 are strictly older

    page = topic.read(0, limit=1000)

    assert page.tombstone == Tombstone(gap_from=1, gap_to=150, reason="ttl")
    assert page.records[0].seq == 151
    assert topic.statistics().earliest_seq == 151


def test_expired_files_leave_without_being_read():
    world = cold_world()
    topic = world.cold_topic(ttl_ms=600_000)
    stamps = {record.seq: record.ts for record in topic.read(0, limit=1000).records}
    world.reopen()
    topic = world.store.topic("t")
    world.clock.advance((stamps[250] + 600_000_000 - world.clock.now_us()) / 1e6)
    world.objects.calls.clear()

    topic.enforce_retention()

    assert not world.objects.calls
    assert topic.statistics().earliest_seq == 201  # the rest of its file shows when it is read


def test_deleting_by_tag_hides_rows_of_the_lake_at_once():
    world = cold_world()
    topic = world.cold_topic()

    deleted = topic.delete(match="od*")

    assert deleted.deleted == 250
    assert seqs_of(topic) == list(range(2, 501, 2))


def test_what_was_deleted_stays_so_after_a_kill():
    world = cold_world()
    topic = world.cold_topic()
    topic.delete(match="odd")
    world.store.sync()

    topic = world.kill().topic("t")

    assert seqs_of(topic) == list(range(2, 501, 2))


def test_others_learn_what_was_deleted_from_the_manifest():
    world = cold_world(dead_share=1.0)
    topic = world.cold_topic()
    topic.delete(match="odd")

    world.store.relocate()

    manifest = world.store._relocator._writer.load(1)
    assert sorted(manifest.deleted) == list(range(1, 401, 2))
    assert manifest.rows == 400


def test_files_that_are_mostly_dead_are_rewritten_and_the_bucket_shrinks():
    world = cold_world()
    topic = world.cold_topic()
    before = sum(info.size for info in world.objects.list("topics"))
    topic.delete(match="odd")
    hidden = topic.statistics()

    swept(world)

    assert list(topic._state.cold.rows) == [50] * 4
    assert len(world.data_keys()) == 4
    assert sum(info.size for info in world.objects.list("topics")) < before
    after = topic.statistics()
    assert after.count == hidden.count == 250
    assert after.payload_bytes < hidden.payload_bytes
    assert seqs_of(topic) == list(range(2, 501, 2))
    assert seqs_of(world.kill().topic("t")) == list(range(2, 501, 2))


@pytest.mark.parametrize("late", [False, True], ids=["before", "after a restart"])
def test_payload_is_counted_to_the_byte_once_everything_is_gone(late):
    world = cold_world()
    topic = world.cold_topic()
    topic.delete(match="odd")
    world.store.relocate()
    topic.delete(before=77)
    world.fill(topic, 2)
    world.store.relocate()
    if late:
        topic = world.reopen().topic("t")

    topic.delete(before=701)

    assert topic.statistics().count == 0
    assert topic.statistics().payload_bytes == 0


def test_a_delete_while_its_records_move_is_not_counted_twice():
    world = cold_world()
    topic = world.store.topic("t")
    world.fill(topic, 3)
    deleted = []

    def delete(operation: str, key: str) -> None:
        del key
        if operation == "put_file" and not deleted:
            deleted.append(topic.delete(match="odd"))
            deleted.append(topic.delete(before=31))

    world.objects.on_call = delete
    world.store.relocate()
    world.objects.on_call = None

    assert len(deleted) == 2
    assert seqs_of(topic) == list(range(32, 301, 2))
    topic.delete(before=301)
    assert topic.statistics().payload_bytes == 0


def test_readers_of_a_file_that_is_rewritten_go_on():
    world = cold_world()
    topic = world.cold_topic()
    page = topic.read(0, limit=110)
    topic.delete(match="odd")
    swept(world)

    assert [record.seq for record in topic.read(page.next, limit=5).records] == [
        112,
        114,
        116,
        118,
        120,
    ]


def test_a_topic_with_a_gap_and_nothing_left_in_a_file_is_read_across():
    world = cold_world()
    topic = world.store.topic("t")
    world.fill(topic, 2)
    topic.delete(match="odd")
    topic.delete(match="even")
    world.fill(topic, 2)

    world.store.relocate()

    assert list(topic._state.cold.rows) == [0, 0, 100]
    assert seqs_of(topic) == list(range(201, 401))
    assert seqs_of(topic, after=50) == list(range(201, 401))
