"""Promise (V1): seqs are contiguous, a batch is whole or absent, a repeated append is one append.

Rules 1 and 10 of the topic, conditional appends, and what each form of append stores.
"""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from strandline.config.settings import SpaceSettings
from strandline.errors import Conflict, DiskFull
from strandline.log.files import checkpoint_codec as root_file
from strandline.records import AppendResult, Record
from strandline.testing.model import RecordValues, as_arrow, as_columns
from tests.unit.store.world import World, payloads, read_all

DEADLINE_S = 30
BATCH = [
    RecordValues(data=b"one", key=b"k", tag="eu", node="n1", meta=b"m"),
    RecordValues(data=b"", key=None, tag=None, node=None, meta=None),
    RecordValues(data=b"three", key=b"", tag="", node="", meta=b""),
]


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_every_form_stores_the_same_records(durability):
    world = World()
    topic = world.store.topic("t", durability=durability)
    data = [values.data for values in BATCH]

    for values in BATCH:
        topic.append(
            values.data, key=values.key, tag=values.tag, node=values.node, meta=values.meta
        )
    topic.append_many(data, **as_columns(BATCH))
    topic.append_arrow(as_arrow(BATCH))
    topic.append_arrow(pa.Table.from_batches([as_arrow(BATCH[:1]), as_arrow(BATCH[1:])]))

    found = read_all(topic)
    assert [record.seq for record in found] == list(range(1, 13))
    for start in (0, 3, 6, 9):
        assert [_values(record) for record in found[start : start + 3]] == BATCH


def _values(record: Record) -> RecordValues:
    return RecordValues(**{name: getattr(record, name) for name in RecordValues.__struct_fields__})


def test_a_list_shares_the_fields():
    topic = World().store.topic("t")

    topic.append([b"a", b"b"], key="k", tag="eu", node="n", meta=b"m")

    shared = {"key": b"k", "tag": "eu", "node": "n", "meta": b"m"}
    expected = [RecordValues(data=b"a", **shared), RecordValues(data=b"b", **shared)]
    assert [_values(record) for record in read_all(topic)] == expected


def test_seqs_begin_at_one_and_never_leave_a_gap():
    topic = World().store.topic("t")

    answers = [topic.append(b"x"), topic.append_many([b"x"] * 3), topic.append([b"x", b"y"])]

    assert answers == [AppendResult(1, 1, 1), AppendResult(2, 4, 4), AppendResult(5, 6, 6)]


def test_seqs_go_on_across_the_reservations_of_a_fast_topic():
    world = World()
    topic = world.store.topic("t")

    for _ in range(2000):
        topic.append(b"x")
    again = world.kill().topic("t")

    assert topic.head_seq == 2000
    assert again.append(b"x").first_seq == 2001


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_record_keeps_its_stamp_through_every_place(durability):
    world = World()
    topic = world.store.topic("t", durability=durability)
    for _ in range(5):
        topic.append(b"x")
        topic.append_many([b"y", b"z"])
        world.clock.advance(0.5)
    before = read_all(topic)

    world.store.checkpoint()
    moved = read_all(topic)
    again = read_all(world.reopen().topic("t"))

    assert before == moved == again
    assert len({record.ts for record in before}) == 5


def test_a_conditional_append_needs_the_head_it_names():
    topic = World().store.topic("t")

    topic.append(b"a", expected_head=0)
    for wrong in (0, 2):
        with pytest.raises(Conflict):
            topic.append(b"b", expected_head=wrong)
        with pytest.raises(Conflict):
            topic.append_many([b"b"], expected_head=wrong)
        with pytest.raises(Conflict):
            topic.append_arrow(as_arrow(BATCH), expected_head=wrong)
    topic.append_many([b"b"], expected_head=1)

    assert payloads(topic) == [b"a", b"b"]


def test_a_conditional_append_sees_appends_that_are_under_way():
    topic = World().store.topic("t", durability="fsync")
    pending = topic.append_nowait(b"a")

    with pytest.raises(Conflict):
        topic.append_nowait(b"b", expected_head=0)
    topic.append_nowait(b"b", expected_head=1).wait()

    assert (pending.wait().first_seq, payloads(topic)) == (1, [b"a", b"b"])


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
@pytest.mark.parametrize("settle", ["nothing", "checkpoint", "reopen", "checkpoint and reopen"])
def test_a_repeated_key_gives_the_first_answer(durability, settle):
    world = World()
    topic = world.store.topic("t", durability=durability)
    topic.append(b"before")
    topic.append_many([b"a", b"b"], idempotency_key="once")
    topic.append(b"after")

    if "checkpoint" in settle:
        world.store.checkpoint()
    if "reopen" in settle:
        topic = world.reopen().topic("t")
    again = topic.append(b"a", idempotency_key=b"once", expected_head=99)

    assert again == AppendResult(2, 3, 4, True)
    assert topic.head_seq == 4


def test_a_key_survives_a_kill_right_after_its_append():
    world = World()
    world.store.topic("t").append(b"a", idempotency_key="once")

    again = world.kill().topic("t").append(b"a", idempotency_key="once")

    assert again.deduped


def test_a_key_that_was_only_in_memory_is_logged_with_its_records():
    world = World()
    topic = world.store.topic("t", durability="ephemeral")
    topic.append_many([b"a", b"b"], idempotency_key="once")
    topic.alter(durability="disk")

    again = world.kill().topic("t").append(b"a", idempotency_key="once")

    assert again == AppendResult(1, 2, 2, True)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_key_is_forgotten_when_its_window_is_over(restarted):
    world = World()
    topic = world.store.topic("t", idempotency_window_ms=1000)
    topic.append(b"a", idempotency_key="once")
    world.clock.advance(1.0)
    inside = topic.append(b"a", idempotency_key="once")
    world.clock.advance(0.000001)
    if restarted:
        world.store.checkpoint()
        topic = world.reopen().topic("t")

    outside = topic.append(b"a", idempotency_key="once")

    assert (inside.deduped, outside.deduped, outside.first_seq) == (True, False, 2)


def test_keys_that_are_over_are_not_kept():
    world = World()
    topic = world.store.topic("t", idempotency_window_ms=1000)
    for number in range(100):
        topic.append(b"x", idempotency_key=b"%d" % number)
    world.clock.advance(2)

    topic.append(b"x", idempotency_key=b"new")
    world.store.checkpoint()

    newest = max(world.files("meta"))
    (entry,) = root_file.decode(world.disk.read(newest), newest).topics
    assert [key for key, *_ in entry.idempotency] == [b"new"]


def test_a_key_belongs_to_its_topic():
    store = World().store

    first = store.topic("a").append(b"x", idempotency_key="k")
    second = store.topic("b").append(b"x", idempotency_key="k")

    assert (first.deduped, second.deduped) == (False, False)


def test_a_refused_append_does_not_remember_its_key():
    topic = World().store.topic("t")

    with pytest.raises(Conflict):
        topic.append(b"a", expected_head=5, idempotency_key="k")

    assert not topic.append(b"a", idempotency_key="k").deduped


def test_a_record_of_an_fsync_topic_is_seen_only_after_its_sync():
    topic = World().store.topic("t", durability="fsync")

    pending = topic.append_nowait(b"a")
    before = (topic.head_seq, payloads(topic))
    pending.wait()

    assert before == (0, [])
    assert (topic.head_seq, payloads(topic)) == (1, [b"a"])


def test_a_coroutine_can_wait_for_an_append():
    world = World(start_jobs=True)
    topic = world.store.topic("t", durability="fsync")

    async def append() -> list[AppendResult]:
        pending = [topic.append_nowait(b"%d" % number) for number in range(20)]
        durable = asyncio.gather(*(placed.durable() for placed in pending))
        return await asyncio.wait_for(durable, DEADLINE_S)

    found = asyncio.run(append())
    world.store.close()

    assert [answer.first_seq for answer in found] == list(range(1, 21))


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_batch_cut_off_by_a_full_disk_leaves_nothing(durability):
    world = World(space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0))
    topic = world.store.topic("t", durability=durability)
    topic.append_many([b"x" * 1000] * 10)
    world.disk.capacity = 80_000

    with pytest.raises(DiskFull):
        topic.append_many([b"y" * 1000] * 200)
    world.disk.capacity = None
    topic.append(b"z")

    assert payloads(topic) == [b"x" * 1000] * 10 + [b"z"]
    assert payloads(world.reopen().topic("t")) == [b"x" * 1000] * 10 + [b"z"]
