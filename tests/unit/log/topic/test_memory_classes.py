"""Promise (D6, D7, D10, D14): what only memory holds is lost openly, and never comes back changed.

``memory`` topics survive a clean close, ``ephemeral`` ones do not; neither gives a seq out twice.
"""

from __future__ import annotations

import pytest

from strandline.records import Tombstone
from strandline.testing.crash_choices import Oldest
from tests.unit.store.world import World, payloads

CLASSES = pytest.mark.parametrize("durability", ["memory", "ephemeral"])


def _seqs(topic) -> list[int]:
    return [record.seq for record in topic.read(0, 1000).records]


def test_a_memory_topic_survives_a_clean_close():
    world = World()
    topic = world.store.topic("t", durability="memory")
    topic.append(b"1", tag="x")
    topic.append_many([b"2", b"3"])
    topic.append(b"4")

    again = world.reopen().topic("t")

    assert payloads(again) == [b"1", b"2", b"3", b"4"]
    assert (again.read().tombstone, again.epoch) == (None, topic.epoch)


def test_a_memory_topic_survives_a_kill_up_to_its_last_flush():
    world = World()
    topic = world.store.topic("t", durability="memory")
    topic.append(b"1")
    world.store.sync()
    topic.append(b"2")

    again = world.kill().topic("t")
    lost = again.read(1)

    assert payloads(again) == [b"1"]
    assert (lost.tombstone.gap_from, lost.tombstone.reason) == (2, "lost")
    assert again.epoch > topic.epoch
    assert again.append(b"3").first_seq == lost.tombstone.gap_to + 1


def test_an_ephemeral_topic_forgets_its_records_but_not_its_seqs():
    world = World()
    topic = world.store.topic("t", durability="ephemeral")
    topic.append(b"1")
    topic.append_many([b"2", b"3"])

    again = world.reopen().topic("t")

    assert again.read(0).tombstone == Tombstone(gap_from=1, gap_to=3, reason="lost")
    assert (payloads(again), again.append(b"4").first_seq) == ([], 4)
    assert again.epoch > topic.epoch


def test_an_ephemeral_topic_writes_no_records():
    world = World()
    topic = world.store.topic("t", durability="ephemeral")

    for _ in range(50):
        topic.append(b"very secret" * 10)
        topic.append_many([b"very secret" * 10] * 5)
    world.store.checkpoint()
    world.store.close()

    assert not any(b"very secret" in world.disk.read(path) for path in world.files())


@CLASSES
def test_seqs_given_out_before_a_kill_are_never_given_out_again(durability):
    world = World()
    given = set()

    for _ in range(4):
        topic = world.store.topic("t", durability=durability)
        for _ in range(300):
            seq = topic.append(b"x").first_seq
            assert seq not in given
            given.add(seq)
        world.kill()

    assert len(given) == 1200


@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_tail_that_a_power_loss_took_is_reported_and_its_seqs_are_not_reused(durability):
    world = World()
    topic = world.store.topic("t", durability=durability)
    topic.append_many([b"kept"] * 3)
    world.store.sync()
    last = topic.append_many([b"lost"] * 4).last_seq

    world.disk = world.disk.crash(Oldest())
    world.store = world.open()
    again = world.store.topic("t")
    page = again.read(3)

    assert payloads(again) == [b"kept"] * 3
    assert (page.tombstone.gap_from, page.tombstone.reason) == (4, "lost")
    assert page.tombstone.gap_to >= last
    assert again.append(b"new").first_seq == page.tombstone.gap_to + 1


def test_gaps_are_passed_one_per_page_and_stay_through_checkpoints():
    world = World()
    for number in range(3):
        topic = world.store.topic("t", durability="memory")
        topic.append_many([b"%d" % number] * 2)
        topic.append(b"lost")
        world.kill()
    world.store.topic("t").append_many([b"end"])
    expected = [b"0", b"0", b"1", b"1", b"2", b"2", b"end"]

    for _ in range(2):
        topic, stones, found, after = world.store.topic("t"), 0, [], 0
        while True:
            page = topic.read(after, 100)
            found += page.data
            stones += page.tombstone is not None
            after = page.next
            if page.caught_up:
                break
        assert (found, stones) == (expected, 3)
        assert topic.statistics().count == 7
        world.store.checkpoint()
        world.reopen()


def test_a_cursor_inside_a_gap_is_told_of_the_rest_of_it():
    world = World()
    topic = world.store.topic("t", durability="memory")
    topic.append(b"lost")
    again = world.kill().topic("t")
    again.append(b"x")

    page = again.read(100)

    assert page.tombstone == Tombstone(gap_from=101, gap_to=256, reason="lost")
    assert page.data == [b"x"]


def test_retention_counts_no_seqs_that_lie_in_a_gap():
    world = World()
    topic = world.store.topic("t", durability="memory")
    topic.append_many([b"1", b"2"])
    topic.append(b"lost")
    again = world.kill().topic("t")
    again.append_many([b"3", b"4"])

    again.alter(cap_records=3)

    assert payloads(again) == [b"2", b"3", b"4"]
    assert again.cursor_at(0) == 1


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("flushed", [False, True])
@CLASSES
def test_deletes_of_records_in_memory_are_replayed_exactly(durability, flushed, count):
    world = World()
    topic = world.store.topic("t", durability=durability)
    for number in range(count):
        topic.append(b"x", tag="a" if number % 2 else "b")
    if flushed:
        world.store.sync()
    topic.delete(match="a")
    topic.delete(before=2)
    before = _seqs(topic)
    assert before == [seq for seq in range(2, count + 1) if seq % 2][:1000]

    again = world.reopen().topic("t")

    assert _seqs(again) == ([] if durability == "ephemeral" else before)


@pytest.mark.parametrize("count", [5, 5000])
@pytest.mark.parametrize("logged", [False, True])
@CLASSES
def test_retention_of_records_in_memory_is_replayed_exactly(durability, logged, count):
    world = World()
    topic = world.store.topic("t", durability=durability, cap_records=2)
    for number in range(count):
        topic.append(b"%d" % number)
    if logged:
        topic.enforce_retention()
    before = topic.read(0)
    assert len(before) == 2
    assert topic.statistics().payload_bytes == sum(map(len, before.data))
    world.store.sync()

    again = world.reopen().topic("t")

    if durability == "memory":
        assert again.read(0).records == before.records
        assert again.statistics().payload_bytes == sum(map(len, before.data))
    assert again.append(b"x").first_seq == count + 1
    assert len(again.read(0)) == (2 if durability == "memory" else 1)


@CLASSES
def test_bytes_in_memory_are_counted_once_whatever_happens(durability):
    world = World()
    topic = world.store.topic("t", durability=durability, cap_bytes=100)
    for _ in range(50):
        topic.append(b"x" * 10)
    assert topic.statistics().payload_bytes == 100
    world.store.checkpoint()

    again = world.reopen().topic("t")

    kept = 100 if durability == "memory" else 0
    assert again.statistics().payload_bytes == kept
    for _ in range(30):
        again.append(b"y" * 10)
    assert again.statistics().payload_bytes == 100
    assert len(payloads(again)) == 10


def test_memory_of_an_ephemeral_topic_is_given_back_when_records_go():
    world = World()
    topic = world.store.topic("t", durability="ephemeral", cap_records=10)

    for _ in range(20):
        topic.append_many([b"x" * 100] * 100)
        topic.read(0)

    assert len(topic._state.memory.pieces) <= 2


@CLASSES
def test_every_reading_verb_sees_records_in_memory(durability):
    world = World()
    topic = world.store.topic("t", durability=durability)
    start = world.clock.now_us()
    for number in range(10):
        topic.append(b"%d" % number, node="n1" if number % 2 else None, tag="t")
        world.clock.advance(1)

    assert topic.read(0, 3).data == [b"0", b"1", b"2"]
    assert topic.read(0, 3, node="n1").data == [b"0", b"2", b"4"]
    assert topic.read(8).arrow()["data"].to_pylist() == [b"8", b"9"]
    assert topic.cursor_at(start + 5_000_000) == 5
    assert topic.delete(match="t").deleted == 10
    assert topic.statistics().payload_bytes == 0


@pytest.mark.parametrize("looked_at", [True, False])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_what_an_ephemeral_topic_evicted_is_not_counted_once_it_is_on_the_log(
    checkpointed, looked_at
):
    world = World()
    topic = world.store.topic("t", durability="ephemeral", cap_records=3)
    for number in range(1, 6):
        topic.append_many([b"x" * number] * 2)
        topic.append(b"y" * number)
        if looked_at:
            topic.read()

    topic.alter(durability="disk")
    topic.append(b"z" * 20)
    before = (payloads(topic), topic.statistics().payload_bytes)
    if checkpointed:
        world.store.checkpoint()
    topic = world.kill().topic("t")

    assert before == ([b"x" * 5, b"y" * 5, b"z" * 20], 30)
    assert (payloads(topic), topic.statistics().payload_bytes) == before


@pytest.mark.parametrize("checkpointed", [True, False])
def test_records_that_ephemeral_ones_displaced_do_not_come_back_after_a_kill(checkpointed):
    world = World()
    topic = world.store.topic("t", durability="disk")
    topic.append_many([b"0", b"1", b"2", b"3"])
    if checkpointed:
        world.store.checkpoint()
    topic.alter(durability="ephemeral", cap_records=3)
    topic.append_many([b"lost"] * 2)
    found = payloads(topic)

    topic = world.kill().topic("t")

    assert found == [b"3", b"lost", b"lost"]
    assert payloads(topic) == [b"3"]
    assert topic.statistics().payload_bytes == 1


def test_a_delete_in_an_ephemeral_tail_is_not_counted_against_the_records_below_it():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"123456")
    topic.alter(durability="ephemeral")
    topic.append(b"abcde", tag="a")
    topic.append_many([b"fg", b"h"], tags=["a", None])
    topic.delete(match="a")
    world.store.checkpoint()

    topic = world.kill().topic("t")

    found = topic.statistics()
    assert payloads(topic) == [b"123456"]
    assert (found.count, found.payload_bytes) == (1, 6)
