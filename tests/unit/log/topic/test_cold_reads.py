"""Promise: a reader goes from lake to segments to log without a gap or an overlap."""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.testing.sim_clock import WALL_US_START
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of


@pytest.mark.parametrize("limit", [1, 7, 25, 26, 100, 1000])
def test_pages_of_any_size_cross_every_border(limit):
    world = ColdWorld()
    topic = world.cold_topic()
    for seq in range(501, 511):
        topic.append(b"%d" % seq, tag="odd" if seq % 2 else "even", key=b"k%d" % seq)

    assert seqs_of(topic, limit=limit) == list(range(1, 511))


def test_any_cursor_gives_what_lies_behind_it():
    world = ColdWorld()
    topic = world.cold_topic()

    for after in range(0, 501, 13):
        assert seqs_of(topic, after, limit=1000) == list(range(after + 1, 501))


def test_a_short_read_fetches_one_zone():
    world = ColdWorld()
    topic = world.cold_topic()
    world.objects.calls.clear()

    page = topic.read(130, limit=10)

    assert [record.seq for record in page.records] == list(range(131, 141))
    assert world.objects.calls["get_ranges"] == 2  # the index of the file, and one zone


def test_a_range_over_a_border_fetches_the_other_zone_and_two_ahead():
    world = ColdWorld()
    topic = world.cold_topic()
    topic.read(130, limit=1)
    world.objects.calls.clear()

    topic.read(145, limit=10)

    assert world.objects.calls["get_ranges"] <= 4  # the next file's index is one more


def test_the_cache_is_bounded_and_spares_the_store():
    world = ColdWorld(cache_bytes=4_000)
    topic = world.cold_topic()
    seqs_of(topic)
    lake = topic._state.lake
    assert sum(zone.size for zone in lake._zones.values()) <= 4_000 + 3_000

    world.objects.calls.clear()
    topic.read(390, limit=5)
    topic.read(390, limit=5)

    assert world.objects.calls["get_ranges"] <= 1


def test_a_cursor_by_time_finds_its_place_in_the_lake():
    world = ColdWorld()
    topic = world.cold_topic()  # a record each millisecond
    stamps = {record.seq: record.ts for record in topic.read(0, limit=1000).records}

    for seq in (1, 2, 25, 26, 100, 101, 333, 400, 401, 500):
        assert topic.cursor_at(stamps[seq]) == seq - 1
        assert topic.cursor_at(stamps[seq] + 1) == seq

    assert topic.cursor_at(WALL_US_START - 1) == 0
    assert topic.cursor_at(1 << 60) == 500


def test_a_cursor_by_time_opens_one_file():
    world = ColdWorld()
    topic = world.cold_topic()
    stamp = topic.read(250, limit=1).records[0].ts
    world.reopen()
    world.objects.calls.clear()

    world.store.topic("t").cursor_at(stamp)

    assert world.objects.calls["get_ranges"] == 2


def test_a_node_is_spared_its_own_records_in_the_lake_too():
    world = ColdWorld()
    topic = world.store.topic("t")
    for seq in range(1, 301):
        topic.append(b"%d" % seq, node="a" if seq % 3 else "b")
        if seq % 100 == 0:
            world.store.checkpoint()
    world.store.relocate()

    page = topic.read(0, limit=1000, node="a")

    assert [record.seq for record in page.records] == list(range(3, 301, 3))


def test_pages_of_the_lake_have_the_columns_of_any_page():
    world = ColdWorld()
    topic = world.cold_topic()

    table = topic.read(0, limit=1000).arrow()

    hot = topic.read(400, limit=1000).arrow()
    assert table.schema == hot.schema
    assert table["seq"].to_pylist() == list(range(1, 501))
    assert table.slice(400).equals(hot)


def test_damage_in_the_lake_costs_its_zone_and_nothing_else():
    world = ColdWorld()
    topic = world.cold_topic()
    key = world.data_keys()[1]
    kept = world.objects.snapshot()
    data = bytearray(kept[key].data)
    data[len(data) // 4] ^= 1
    world.objects.delete([key])
    world.objects.put(key, bytes(data))

    topic = world.reopen().topic("t")

    damaged = {}
    for seq in range(1, 501):
        try:
            assert topic.read(seq - 1, limit=1).data == [b"%d" % seq]
        except Corrupt as error:
            damaged[seq] = error.path
    assert {path.partition("topics")[2] for path in damaged.values()} == {
        key.partition("topics")[2]
    }
    assert 0 < len(damaged) <= 25
    assert set(damaged) <= set(range(101, 201))


def test_a_missing_file_is_told_with_its_name_and_range():
    world = ColdWorld()
    topic = world.cold_topic()
    key = world.data_keys()[1]
    world.objects.delete([key])

    with pytest.raises(Corrupt, match="missing") as told:
        topic.read(100)

    assert (told.value.first_seq, told.value.last_seq) == (101, 200)
    assert topic.read(0, limit=100).data[-1] == b"100"
