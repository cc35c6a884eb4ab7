"""Promise (D10): a delete takes exactly what it names, silently, for good, wherever records are."""

from __future__ import annotations

import pytest

from strandline.config.settings import SegmentSettings
from strandline.errors import Invalid
from tests.unit.store.world import World, payloads

TAGS = ["eu", "eu-1", None, "us", "eu"]
SETTLED = [lambda world: None, lambda world: world.store.checkpoint(), World.reopen, World.kill]
PLACES = pytest.mark.parametrize("settle", SETTLED, ids=["log", "segment", "reopened", "killed"])


def _world(**segment: object) -> World:
    world = World(segment=SegmentSettings(**segment))
    topic = world.store.topic("t")
    topic.append_many([b"%d" % number for number in range(1, 6)], tags=TAGS)
    return world


@PLACES
def test_below_a_seq(settle):
    world = _world()
    settle(world)
    topic = world.store.topic("t")

    done = topic.delete(before=4)

    assert (done.deleted, done.earliest_seq, done.head_seq) == (3, 4, 5)
    assert payloads(topic) == [b"4", b"5"]
    assert payloads(world.kill().topic("t")) == [b"4", b"5"]


@PLACES
@pytest.mark.parametrize("seal_bytes", [1, 1 << 30])
@pytest.mark.parametrize(
    ("match", "kept"),
    [
        ("eu", [b"2", b"3", b"4"]),
        ("eu*", [b"3", b"4"]),
        ("eu-*", [b"1", b"3", b"4", b"5"]),
        ("*", [b"3"]),
        ("e", [b"1", b"2", b"3", b"4", b"5"]),
    ],
)
def test_by_tag(settle, seal_bytes, match, kept):
    world = _world(seal_bytes=seal_bytes)
    settle(world)
    topic = world.store.topic("t")

    done = topic.delete(match=match)

    assert done.deleted == 5 - len(kept)
    assert payloads(topic) == kept
    assert payloads(world.kill().topic("t")) == kept
    world.store.checkpoint()
    assert payloads(world.reopen().topic("t")) == kept


def test_both_conditions_must_hold():
    topic = _world().store.topic("t")

    done = topic.delete(before=5, match="eu")

    assert (done.deleted, payloads(topic)) == (1, [b"2", b"3", b"4", b"5"])


def test_a_delete_does_not_reach_later_records():
    topic = _world().store.topic("t")
    topic.delete(match="eu")

    topic.append(b"again", tag="eu")

    assert payloads(topic) == [b"2", b"3", b"4", b"again"]


def test_a_delete_beyond_the_head_does_not_reach_later_records():
    world = _world()
    topic = world.store.topic("t")
    topic.delete(before=1000)

    topic.append(b"later")

    assert payloads(topic) == [b"later"]
    assert payloads(world.kill().topic("t")) == [b"later"]


def test_a_second_delete_of_the_same_records_does_nothing():
    topic = _world().store.topic("t")
    topic.delete(match="eu*")

    done = topic.delete(match="eu*")

    assert done.deleted == 0
    assert topic.statistics().payload_bytes == len(b"3") + len(b"4" + b"us")


def test_a_gap_of_deleted_records_is_silent_and_still_moves_the_cursor():
    topic = _world().store.topic("t")
    topic.delete(match="*")

    page = topic.read(3)

    assert (page.tombstone, page.data, page.next, page.caught_up) == (None, [], 5, True)
    assert topic.read(0).tombstone is None


def test_earliest_is_the_first_live_record_or_one_above_the_head():
    topic = _world().store.topic("t")

    earliest = [topic.delete(match=match).earliest_seq for match in ("eu", "eu-1", "us")]
    topic.delete(before=6)

    assert earliest == [2, 3, 3]
    assert topic.statistics().earliest_seq == 6


def test_earliest_steps_over_a_long_row_of_deleted_records():
    topic = World().store.topic("t")
    topic.append_many([b"x"] * 1000, tags=["a"] * 777 + ["b"] * 223)

    assert topic.delete(match="a").earliest_seq == 778


@pytest.mark.parametrize("before", [1, 3])
def test_a_delete_below_the_floor_does_nothing(before):
    topic = _world().store.topic("t")
    topic.delete(before=3)

    assert topic.delete(before=before).deleted == 0


def test_counts_and_bytes_follow_deletes_through_sealing():
    world = _world(seal_bytes=1, block_records=2)
    topic = world.store.topic("t")
    topic.delete(match="eu")
    before = topic.statistics()

    for _ in range(3):
        world.store.checkpoint()
        topic.append(b"x")
        topic = world.reopen().topic("t")

    found = topic.statistics()
    assert (found.count, found.payload_bytes) == (before.count + 3, before.payload_bytes + 3)


@pytest.mark.parametrize("match", ["", "a*b", "**", "*a"])
def test_a_match_that_is_no_tag_and_no_beginning_is_refused(match):
    topic = _world().store.topic("t")

    with pytest.raises(Invalid):
        topic.delete(match=match)

    assert len(payloads(topic)) == 5


@pytest.mark.parametrize(
    "options", [{}, {"before": 0}, {"before": -1}, {"before": "3"}, {"before": 1.5}, {"match": 5}]
)
def test_a_delete_that_says_nothing_sensible_is_refused(options):
    topic = _world().store.topic("t")

    with pytest.raises(Invalid):
        topic.delete(**options)

    assert len(payloads(topic)) == 5


def test_deleted_bytes_leave_the_segments_when_they_are_merged():
    world = World(segment=SegmentSettings(seal_bytes=1 << 30, shared_files_max=1))
    topic = world.store.topic("t")
    topic.append_many([b"secret" * 100, b"public"], tags=["x", "y"])
    world.store.checkpoint()
    topic.delete(match="x")

    for _ in range(8):
        topic.append(b"filler")
        world.store.checkpoint()

    stored = b"".join(world.disk.read(path) for path in world.files("segments"))
    assert b"secretsecret" not in stored
    assert payloads(topic) == [b"public"] + [b"filler"] * 8
