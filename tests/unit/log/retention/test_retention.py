"""Promise (B3, T1): caps and ttl take the oldest records, and a reader is told what it missed.

Rules 4, 5 and 8 of the topic: floors only rise, a tombstone appears only for involuntary loss, and
a topic that refuses at its cap never takes anything away.
"""

from __future__ import annotations

import errno

import pytest

from strandline.errors import TooLarge, TopicFull
from strandline.log.topic.gap_marker import report_loss
from strandline.records import Tombstone
from tests.unit.store.world import World, payloads


def test_a_cap_by_records_keeps_the_newest():
    topic = World().store.topic("t", cap_records=3)

    topic.append_many([b"%d" % number for number in range(10)])

    found = topic.statistics()
    assert payloads(topic) == [b"7", b"8", b"9"]
    assert (found.earliest_seq, found.evict_floor, found.count, found.head_seq) == (8, 8, 3, 10)


def test_a_cap_by_bytes_counts_every_field_and_keeps_what_fits():
    topic = World().store.topic("t", cap_bytes=30)

    for number in range(4):
        topic.append(b"%06d" % number, key=b"kk", tag="t", node="n")

    assert payloads(topic) == [b"000001", b"000002", b"000003"]
    assert topic.statistics().payload_bytes == 30


def test_a_record_larger_than_the_cap_leaves_nothing():
    topic = World().store.topic("t", cap_bytes=10)

    topic.append(b"x" * 11)

    assert payloads(topic) == []
    assert topic.statistics().earliest_seq == 2


def test_deleted_records_do_not_count_for_a_cap():
    topic = World().store.topic("t", cap_records=3)
    topic.append_many([b"a", b"b", b"c"], tags=["x", None, "x"])
    topic.delete(match="x")

    topic.append_many([b"d", b"e"])

    assert payloads(topic) == [b"b", b"d", b"e"]


def test_a_record_is_gone_when_it_is_strictly_older_than_the_ttl():
    world = World()
    topic = world.store.topic("t", ttl_ms=1000)
    topic.append(b"old")
    world.clock.advance(1.0)
    topic.append(b"new")

    at_the_edge = payloads(topic)
    world.clock.advance(0.000001)

    assert at_the_edge == [b"old", b"new"]
    assert payloads(topic) == [b"new"]


def test_a_clock_that_goes_back_brings_nothing_back_and_takes_nothing():
    world = World()
    topic = world.store.topic("t", ttl_ms=1000)
    topic.append(b"old")
    world.clock.advance(2)
    topic.append(b"new")
    assert payloads(topic) == [b"new"]

    world.clock.jump_wall(-3600)

    assert payloads(topic) == [b"new"]
    assert topic.append(b"newer").first_seq == 3
    records = topic.read().records
    assert records[0].ts == records[1].ts


def test_a_jump_forward_expires_and_the_way_back_does_not_undo_it_even_after_a_restart():
    world = World()
    topic = world.store.topic("t", ttl_ms=1000)
    topic.append(b"a")
    world.clock.jump_wall(10)
    topic.enforce_retention()

    world.clock.jump_wall(-10)
    found = payloads(topic)
    again = payloads(world.kill().topic("t"))

    assert found == again == []


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_ttl_finds_its_place_inside_a_batch_and_across_files(checkpointed):
    world = World()
    topic = world.store.topic("t", ttl_ms=10_000)
    for number in range(20):
        topic.append_many([b"%d" % number] * 3)
        world.clock.advance(1)
    if checkpointed:
        world.store.checkpoint()

    assert payloads(topic) == [b"%d" % number for number in range(10, 20) for _ in range(3)]


def test_lowering_a_cap_takes_the_excess_and_raising_it_brings_nothing_back():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"%d" % number for number in range(10)])

    topic.alter(cap_records=4)
    lowered = payloads(topic)
    topic.alter(cap_records=100)

    assert lowered == payloads(topic) == [b"6", b"7", b"8", b"9"]
    assert payloads(world.kill().topic("t")) == lowered


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [
        ({"cap_records": 2}, {"cap_records": 1}, "cap"),
        ({"cap_records": 2}, {"cap_bytes": 1}, "cap"),
        ({"ttl_ms": 1000}, {"ttl_ms": 1}, "ttl"),
        ({"cap_records": 2}, {"cap_records": 0, "ttl_ms": 1}, "mixed"),
    ],
)
def test_a_tombstone_says_why(first, then, reason):
    world = World()
    topic = world.store.topic("t", **first)
    topic.append_many([b"a", b"b"])
    world.clock.advance(0.5)
    topic.append_many([b"c", b"d"])
    topic.read()
    world.clock.advance(0.6)
    topic.read()

    topic.alter(**then)

    assert topic.read().tombstone.reason == reason


def test_a_tombstone_covers_the_gap_and_the_page_goes_on_behind_it():
    topic = World().store.topic("t", cap_records=3)
    topic.append_many([b"%d" % number for number in range(10)])

    early, late, fine = (topic.read(after) for after in (2, 6, 7))

    assert early.tombstone == Tombstone(gap_from=3, gap_to=7, reason="cap")
    assert late.tombstone == Tombstone(gap_from=7, gap_to=7, reason="cap")
    assert fine.tombstone is None
    assert early.data == late.data == fine.data == [b"7", b"8", b"9"]
    assert early.tombstone.missed == 5


def test_a_tombstone_appears_once_per_way_through_the_topic():
    topic = World().store.topic("t", cap_records=4)
    topic.append_many([b"%d" % number for number in range(10)])
    stones, after = [], 0

    while True:
        page = topic.read(after, limit=1)
        stones.append(page.tombstone)
        after = page.next
        if page.caught_up:
            break

    assert [stone is not None for stone in stones] == [True, False, False, False]


def test_a_tombstone_reaches_over_records_that_were_deleted_behind_the_floor():
    topic = World().store.topic("t", cap_records=3)
    topic.append_many([b"%d" % number for number in range(6)])
    topic.read()
    topic.delete(before=6)

    page = topic.read(0)

    assert page.tombstone == Tombstone(gap_from=1, gap_to=5, reason="cap")
    assert topic.read(4).tombstone is None


def test_a_topic_that_refuses_takes_nothing_and_assigns_no_seq():
    topic = World().store.topic("t", cap_records=2, discard="reject")
    topic.append_many([b"a", b"b"])

    with pytest.raises(TopicFull, match="2 records"):
        topic.append(b"c")

    assert (payloads(topic), topic.head_seq) == ([b"a", b"b"], 2)


def test_a_topic_that_refuses_by_bytes_counts_what_is_live():
    world = World()
    topic = world.store.topic("t", cap_bytes=10, discard="reject")
    topic.append(b"x" * 6)

    for _ in range(2):
        with pytest.raises(TopicFull, match="10 bytes"):
            topic.append(b"y" * 5)
        topic = world.reopen().topic("t")
    topic.delete(before=2)

    assert topic.append(b"y" * 10).first_seq == 2


def test_room_comes_back_with_a_delete():
    topic = World().store.topic("t", cap_records=2, discard="reject")
    topic.append_many([b"a", b"b"], tags=["x", "y"])

    topic.delete(match="x")

    assert topic.append(b"c").first_seq == 3


@pytest.mark.parametrize("cap", [{"cap_records": 2}, {"cap_bytes": 2}])
def test_a_batch_that_can_never_fit_is_too_large_rather_than_too_early(cap):
    topic = World().store.topic("t", discard="reject", **cap)

    with pytest.raises(TooLarge):
        topic.append_many([b"a", b"b", b"c"])

    assert topic.append_many([b"a", b"b"]).last_seq == 2


def test_a_topic_that_refuses_never_evicts_by_its_cap_even_with_a_ttl():
    topic = World().store.topic("t")
    topic.append_many([b"%d" % number for number in range(10)])

    topic.alter(cap_records=3, cap_bytes=3, discard="reject", ttl_ms=60_000)

    assert len(payloads(topic)) == 10


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
@pytest.mark.parametrize("cap", [{"cap_records": 2}, {"cap_bytes": 2}])
def test_records_whose_ttl_is_over_keep_no_append_out(cap, durability):
    world = World()
    options = {"discard": "reject", "ttl_ms": 1000, "durability": durability}
    topic = world.store.topic("t", **options, **cap)
    topic.append_many([b"a", b"b"])
    with pytest.raises(TopicFull):
        topic.append(b"x")

    world.clock.advance(1.1)
    placed = [topic.append(b"c"), topic.append_nowait([b"d"]).wait()]

    assert [appended.first_seq for appended in placed] == [3, 4]
    assert payloads(topic) == [b"c", b"d"]
    with pytest.raises(TopicFull):
        topic.append_many([b"e"])


def test_what_an_append_found_to_be_over_stays_so_after_a_kill_and_a_clock_set_back():
    world = World()
    topic = world.store.topic("t", cap_records=2, discard="reject", ttl_ms=1000)
    topic.append_many([b"a", b"b"])
    world.clock.jump_wall(3600)
    topic.append(b"c")

    world.clock.jump_wall(-3600)
    topic = world.kill().topic("t")

    assert payloads(topic) == [b"c"]


@pytest.mark.parametrize("cap", [{"cap_records": 2}, {"cap_bytes": 2}])
def test_an_append_under_way_counts_for_the_cap(cap):
    topic = World().store.topic("t", durability="fsync", discard="reject", **cap)
    pending = [topic.append_nowait(b"a"), topic.append_nowait(b"b")]

    with pytest.raises(TopicFull):
        topic.append_nowait(b"c")

    assert [placed.wait().last_seq for placed in pending] == [1, 2]


def test_floors_survive_restarts_and_only_rise():
    world = World()
    topic = world.store.topic("t", cap_records=3)
    floors = []

    for step in range(6):
        topic.append_many([b"x"] * 2)
        if step % 2:
            topic.delete(before=topic.head_seq - 1)
        found = topic.statistics()
        floors.append((found.evict_floor, found.earliest_seq))
        topic = (world.kill if step % 2 else world.reopen)().topic("t")
        again = topic.statistics()
        assert (again.evict_floor, again.earliest_seq) == floors[-1]

    assert floors == sorted(floors)


def test_retention_is_put_on_the_log_once():
    world = World()
    topic = world.store.topic("t", cap_records=1)
    topic.append_many([b"a", b"b"])
    topic.enforce_retention()
    world.store.sync()
    before = world.disk.calls["store"]

    topic.enforce_retention()

    assert world.disk.calls["store"] == before


def test_a_reader_that_retention_overtakes_after_a_gap_learns_of_both_losses():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"1")
    catalog = world.store._state.catalog
    state = catalog.get("t")
    report_loss(state, catalog.shard_of(state), 3, "lost")
    for number in range(3):
        topic.append(b"%d" % number)

    def overtake(operation: str, path: str) -> None:
        if operation == "pread":  # the reader is past the gap, and about to read the records
            world.disk.on_call = None
            topic.alter(cap_records=1)
            topic.enforce_retention()
            for _ in range(3):
                world.store.checkpoint()
            raise OSError(errno.ENOENT, "the file is gone", path)

    world.disk.on_call = overtake
    page = topic.read(1)

    assert page.tombstone == Tombstone(gap_from=2, gap_to=6, reason="cap")
    assert page.data == [b"2"]
