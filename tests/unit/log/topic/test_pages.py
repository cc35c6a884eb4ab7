"""Promise: a page holds what lies behind its cursor, in any shape, and says where to go on.

Rules 2, 3 and 7 of the topic. ``caught_up`` is the only sign that there is no more.
"""

from __future__ import annotations

import pytest

from strandline.config.settings import LimitSettings, SegmentSettings
from strandline.errors import Invalid, TooLarge
from strandline.log.read.page import SCHEMA
from strandline.records import Tombstone
from strandline.testing.model import RecordValues, as_columns
from tests.unit.store.world import World, payloads, read_all

MIXED = [
    RecordValues(data=b"a", key=b"k", tag="eu", node="n1", meta=b"m"),
    RecordValues(data=b"", node="n2"),
    RecordValues(data=bytes(700), tag="", key=b""),
]


def _mixed(world: World) -> None:
    """Records in a segment, in batches of the log, and as single frames."""
    topic = world.store.topic("t")
    for step in range(3):
        topic.append_many([values.data for values in MIXED], **as_columns(MIXED))
        for values in MIXED:
            fields = {name: getattr(values, name) for name in ("key", "tag", "node", "meta")}
            topic.append(values.data, **fields)
        world.clock.advance(1)
        if step == 0:
            world.store.checkpoint()


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_records_data_and_arrow_agree(limit):
    world = World(segment=SegmentSettings(block_records=2))
    _mixed(world)
    topic = world.store.topic("t")

    for after in range(19):
        page = topic.read(after, limit)
        table = page.arrow()
        rows = table.to_pylist()
        assert table.schema == SCHEMA
        assert len(page) == len(page.records) == len(rows) == min(limit, 18 - after)
        assert page.data == [record.data for record in page.records] == [r["data"] for r in rows]
        for record, row in zip(page.records, rows, strict=True):
            assert row["ts"].timestamp() * 1e6 == pytest.approx(record.ts, abs=1)
            for name in ("seq", "key", "tag", "node", "meta"):
                assert row[name] == getattr(record, name)


def test_a_cursor_is_exclusive_and_next_is_the_following_one():
    topic = World().store.topic("t")
    topic.append_many([b"1", b"2", b"3"])

    pages = [topic.read(after, 2) for after in (0, 1, 2, 3)]

    assert [page.data for page in pages] == [[b"1", b"2"], [b"2", b"3"], [b"3"], []]
    assert [page.next for page in pages] == [2, 3, 3, 3]
    assert [page.caught_up for page in pages] == [False, True, True, True]


def test_an_empty_topic_is_caught_up_with():
    page = World().store.topic("t").read()

    assert (page.data, page.next, page.head_seq, page.caught_up) == ([], 0, 0, True)
    assert (page.tombstone, page.arrow().num_rows) == (None, 0)


def test_a_node_is_spared_its_own_records_and_the_cursor_still_moves():
    world = World()
    _mixed(world)
    topic = world.store.topic("t")

    page = topic.read(0, 100, node="n1")
    alone = topic.read(18 - 3, 1, node="n1")

    assert {record.node for record in page.records} == {None, "n2"}
    assert (len(page), page.next, page.caught_up) == (12, 18, True)
    assert [record.seq for record in alone.records] == [17]


@pytest.mark.parametrize("settle", ["log", "segment"])
def test_a_page_of_skipped_records_only_moves_on(settle):
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"x"] * 50, nodes=["n1"] * 50)
    for _ in range(50):
        topic.append(b"x", node="n1")
    if settle == "segment":
        world.store.checkpoint()

    page = topic.read(0, 10, node="n1")

    assert (len(page), page.next, page.caught_up) == (0, 100, True)


@pytest.mark.parametrize("settle", ["log", "segment"])
def test_deleted_records_and_those_of_the_node_are_both_left_out(settle):
    world = World()
    topic = world.store.topic("t")
    tags, nodes = ["x", "x", None, None], ["n1", "n2", "n1", "n2"]
    topic.append_many([b"1", b"2", b"3", b"4"], tags=tags, nodes=nodes)
    for tag, node in zip(tags, nodes, strict=True):
        topic.append(b"5", tag=tag, node=node)
    if settle == "segment":
        world.store.checkpoint()

    topic.delete(match="x")

    assert topic.read(node="n1").data == [b"4", b"5"]


def test_node_filtering_can_be_switched_off():
    topic = World().store.topic("t", dedupe_node=False)
    topic.append(b"x", node="n1")

    assert topic.read(0, node="n1").data == [b"x"]


@pytest.mark.parametrize("settle", ["log", "segment"])
def test_a_page_ends_when_its_size_is_reached_but_never_empty(settle):
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"x" * 100] * 20)
    for _ in range(20):
        topic.append(b"y" * 100)
    if settle == "segment":
        world.store.checkpoint()

    assert len(topic.read(0, size_max=1)) == 1
    assert len(topic.read(0, size_max=1000)) == 10
    assert len(topic.read(15, size_max=1000)) == 10
    assert len(topic.read(30, size_max=1000)) == 10
    assert len(topic.read(0, size_max=1 << 30)) == 40


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_cursor_above_the_head_begins_again_and_loses_nothing(limit):
    topic = World().store.topic("t")
    topic.append_many([b"1", b"2", b"3"])

    page = topic.read(1000, limit)
    rest = topic.read(page.next, 10)

    assert page.tombstone == Tombstone(gap_from=1, gap_to=3, reason="recreated")
    assert page.data + rest.data == [b"1", b"2", b"3"]
    assert rest.tombstone is None


def test_a_cursor_of_an_earlier_life_begins_again():
    world = World()
    old = world.store.topic("t")
    old.append_many([b"old"] * 5)
    epoch = old.read().epoch
    world.store.delete_topic("t")
    world.clock.advance(1)
    new = world.store.topic("t")
    new.append_many([b"1", b"2", b"3", b"4", b"5", b"6"])

    page = new.read(5, 2, epoch=epoch)
    same = new.read(5, 2, epoch=new.epoch)

    assert (page.tombstone.reason, page.data) == ("recreated", [b"1", b"2"])
    assert (same.tombstone, same.data) == (None, [b"6"])
    assert new.read(page.next, epoch=page.epoch).data == [b"3", b"4", b"5", b"6"]


def test_a_page_is_not_changed_by_what_happens_later():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"1", b"2"])
    topic.append(b"3")
    page = topic.read()

    topic.delete(before=4)
    world.store.checkpoint()
    world.store.checkpoint()

    assert page.data == [b"1", b"2", b"3"]
    assert len(page.records) == page.arrow().num_rows == 3


def test_a_page_never_reaches_beyond_the_head_it_saw():
    topic = World().store.topic("t")
    topic.append_many([b"1", b"2"])

    page = topic.read()
    topic.append(b"3")

    assert (page.head_seq, page.data) == (2, [b"1", b"2"])


@pytest.mark.parametrize(
    "options",
    [
        {"after": -1},
        {"limit": 0},
        {"size_max": 0},
        {"after": 1.0},
        {"after": None},
        {"limit": "5"},
        {"node": 5},
        {"node": b"n"},
    ],
)
def test_a_read_that_makes_no_sense_is_refused(options):
    topic = World().store.topic("t")

    with pytest.raises(Invalid):
        topic.read(**options)


def test_a_page_larger_than_allowed_is_refused():
    topic = World(limits=LimitSettings(page_records_max=10)).store.topic("t")

    with pytest.raises(TooLarge, match="page_records_max"):
        topic.read(0, 11)

    assert topic.read(0, 10).caught_up


@pytest.mark.parametrize("settle", ["log", "segment", "reopened"])
def test_a_time_is_found_wherever_its_records_are(settle):
    world = World(segment=SegmentSettings(block_records=3))
    topic = world.store.topic("t")
    start = world.clock.now_us()
    for number in range(10):
        topic.append_many([b"%d" % number] * 2)
        topic.append(b"%d" % number)
        world.clock.advance(1)
    if settle == "segment":
        world.store.checkpoint()
    elif settle == "reopened":
        topic = world.reopen().topic("t")

    for number in range(10):
        for offset in (-999_999, -1, 0):
            after = topic.cursor_at(start + number * 1_000_000 + offset)
            assert topic.read(after, 1).data == [b"%d" % number]
    assert topic.cursor_at(start + 9_000_001) == topic.head_seq
    assert topic.cursor_at(2**80) == topic.head_seq
    assert topic.cursor_at(-(2**80)) == 0


def test_a_time_before_the_floor_begins_at_the_floor():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"a", b"b", b"c"])

    topic.delete(before=3)

    assert topic.cursor_at(0) == 2


@pytest.mark.parametrize("ts", ["now", None, 1.5])
def test_a_time_that_is_no_number_is_refused(ts):
    with pytest.raises(Invalid):
        World().store.topic("t").cursor_at(ts)


def test_pages_of_any_size_give_the_same_records():
    world = World(segment=SegmentSettings(block_records=4))
    _mixed(world)
    topic = world.store.topic("t")
    topic.delete(match="eu")
    expected = read_all(topic)

    for limit in range(1, 20):
        found, after = [], 0
        while not (page := topic.read(after, limit)).caught_up:
            found += page.records
            after = page.next
        assert found + page.records == expected
    assert len(payloads(topic)) == 12
