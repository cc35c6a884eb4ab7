"""Promise: a batch read gives exactly what the topic gives, whatever has become of the records."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from pyspark.sql import datasource

from strandline.errors import Conflict, Invalid, NotFound, RecordsLost, Unavailable, UnknownTopic
from strandline.pipelines.splits import split_planner
from strandline.spark import position
from strandline.spark.read import read_plan
from strandline.testing.sim_clock import SimClock
from tests.spark.stores import (
    BATCH,
    cold_store,
    fill,
    open_store,
    random_store,
    read,
    read_where,
    reader,
    records,
)


@pytest.fixture(params=["carried", "by executors"])
def hot(request, monkeypatch) -> str:
    """How records that are not in the lake get to the query."""
    if request.param == "by executors":
        monkeypatch.setattr(split_planner, "CARRIED_BYTES_MAX", -1)
        monkeypatch.setattr(split_planner, "TASK_ROWS", 15)  # files are cut too
        monkeypatch.setattr(split_planner, "_HOT_TASK_SEQS", 30)
    return request.param


@pytest.mark.parametrize("seed", range(12))
def test_a_random_life_reads_row_by_row_as_the_topic_does(data_dir, hot, seed):
    with random_store(data_dir, seed):
        expected = records(data_dir)

        found = read(reader(data_dir))

    assert sorted(found) == expected


def test_every_state_of_relocation_reads_the_same(data_dir, hot):
    with open_store(data_dir) as store:
        topic = store.topic("t")
        for batches in (1, 1, 2):
            fill(store, topic, batches)
            assert sorted(read(reader(data_dir))) == records(data_dir)
            store.relocate()
            assert sorted(read(reader(data_dir))) == records(data_dir)
        topic.delete(match="t003")

        store.relocate()

        assert sorted(read(reader(data_dir))) == records(data_dir)


def test_expired_rows_of_a_lake_file_are_hidden(data_dir, hot):
    clock = SimClock()
    with open_store(data_dir, clock) as store:
        topic = store.topic("t")
        fill(store, topic, 4, clock=clock)
        store.relocate()
        border_us = topic.read(54, limit=1).records[0].ts + 1_800_000_000  # half an hour behind it
        topic.alter(ttl_ms=(time.time_ns() // 1000 - border_us) // 1000)

        found = read(reader(data_dir))

        assert min(found)[0] == 56
        assert sorted(found) == records(data_dir)


def test_what_comes_after_the_plan_is_not_seen(data_dir, hot):
    with cold_store(data_dir) as store:
        made = reader(data_dir)
        before = records(data_dir)
        planned = made.partitions()
        topic = store.topic("t")
        fill(store, topic, 3)
        store.relocate()

        found = read(made, planned)

    assert sorted(found) == before


def test_what_was_deleted_since_is_hidden_where_its_bytes_are_gone(data_dir, monkeypatch):
    monkeypatch.setattr(split_planner, "CARRIED_BYTES_MAX", -1)
    with open_store(data_dir, hot_segments=100) as store:
        topic = store.topic("t")
        topic.append_many([b"%d" % number for number in range(30)], tags=["a", "b", "c"] * 10)
        made = reader(data_dir)
        planned = made.partitions()
        topic.delete(match="b")
        store.checkpoint()  # leaves empty rows

        found = read(made, planned)

        assert found == records(data_dir)


def test_what_was_deleted_before_stays_hidden_when_the_floor_rises(data_dir, monkeypatch):
    monkeypatch.setattr(split_planner, "CARRIED_BYTES_MAX", -1)
    with open_store(data_dir) as store:
        topic = store.topic("t")
        for number in range(30):
            topic.append(b"%d" % number, tag="abc"[number % 3])
        topic.delete(match="b")
        before = records(data_dir)
        made = reader(data_dir)
        planned = made.partitions()
        topic.alter(cap_records=5)
        topic.enforce_retention()

        found = read(made, planned)

        assert found == before


def test_records_that_were_evicted_since_are_told_when_their_bytes_are_gone(data_dir, monkeypatch):
    monkeypatch.setattr(split_planner, "CARRIED_BYTES_MAX", -1)
    with open_store(data_dir, hot_segments=100) as store:
        topic = store.topic("t")
        fill(store, topic, 2)
        made = reader(data_dir)
        planned = made.partitions()
        topic.alter(cap_records=10)
        topic.enforce_retention()
        fill(store, topic, 2)
        store.checkpoint()

        with pytest.raises(RecordsLost, match="records 1 to"):
            read(made, planned)


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({"from": "50"}, 50, 210),
        ({"to": "50"}, 1, 49),
        ({"from": "41", "to": "81"}, 41, 80),
        ({"from": "205", "to": "300"}, 205, 210),
        ({"from": "300"}, 1, 0),
    ],
)
def test_a_range_of_seqs_is_half_open(data_dir, options, first, last):
    with cold_store(data_dir):
        found = read(reader(data_dir, **options))

    assert sorted(row[0] for row in found) == list(range(first, last + 1))


def test_a_range_of_times_is_half_open(data_dir):
    with cold_store(data_dir):
        stamps = {row[0]: row[1] for row in records(data_dir)}
        begin, end = (_iso(stamps[seq]) for seq in (45, 199))

        found = read(reader(data_dir, **{"from": begin, "to": end}))

    expected = [seq for seq, ts in stamps.items() if stamps[45] <= ts < stamps[199]]
    assert sorted(row[0] for row in found) == expected


def test_as_of_a_position_or_a_time_hides_what_came_later(data_dir):
    with cold_store(data_dir) as store:
        topic = store.topic("t")
        token = position(data_dir, "t")
        stamp = topic.statistics().last_ts
        topic.append_many([b"later"] * 100)

        by_position = read(reader(data_dir, as_of=token))
        by_time = read(reader(data_dir, as_of=_iso(stamp)))

    assert len(by_position) == len(by_time) == 210


def test_a_position_of_an_earlier_life_is_refused(data_dir):
    with cold_store(data_dir) as store:
        token = position(data_dir, "t")
        store.delete_topic("t")
        store.topic("t").append(b"new")

        with pytest.raises(Conflict, match="re-created"):
            reader(data_dir, as_of=token).partitions()


def test_columns_are_as_chosen(data_dir, hot):
    with cold_store(data_dir):
        found = read(reader(data_dir, columns="tag,seq"))

        assert sorted(found, key=lambda row: row[1]) == [
            (row[3], row[0]) for row in records(data_dir)
        ]


def test_several_topics_have_a_column_for_their_name(data_dir):
    with cold_store(data_dir, name="eu-1") as store:
        store.topic("eu-2").append(b"two")
        store.topic("us").append(b"three")

        found = read(reader(data_dir, "eu-*,us", columns="topic,seq,data"))

    assert [row for row in found if row[0] != "eu-1"] == [("eu-2", 1, b"two"), ("us", 1, b"three")]
    assert len(found) == 212


def test_files_are_skipped_by_what_the_manifest_says(data_dir):
    with cold_store(data_dir):
        by_tag = read_plan.plan(data_dir, "t", where=[("tag", "=", "t005")])
        by_seq = read_plan.plan(data_dir, "t", where=[("seq", "in", [50, 55])])
        by_key = read_plan.plan(data_dir, "t", where=[("key", ">", b"z")])
        whole = read_plan.plan(data_dir, "t")

    # Four files of two zones; a tag has twenty records, of which a zone ends one before.
    assert (whole.files, whole.files_skipped, whole.zones, whole.zones_skipped) == (4, 0, 8, 0)
    assert (by_tag.files, by_tag.files_skipped) == (1, 3)
    assert (by_seq.files, by_seq.zones, by_seq.zones_skipped, by_seq.rows) == (1, 1, 1, 20)
    assert (by_key.files, by_key.hot_seqs) == (0, BATCH + 10)


@pytest.mark.parametrize(
    ("column", "operator", "value"),
    [
        ("seq", "EqualTo", 77),
        ("seq", "In", (3, 77, 205, 9999)),
        ("seq", "LessThan", 41),
        ("seq", "GreaterThanOrEqual", 199),
        ("tag", "EqualTo", "t004"),
        ("tag", "In", ("t001", "hot", "none")),
        ("tag", "GreaterThan", "t008"),
        ("key", "EqualTo", b"k07919"),
        ("key", "LessThanOrEqual", b"k00999"),
        ("node", "EqualTo", "nobody"),
    ],
)
def test_filters_that_are_taken_over_keep_exactly_their_rows(
    data_dir, hot, column, operator, value
):
    place = {"seq": 0, "key": 2, "tag": 3, "node": 4}[column]
    holds = {
        "EqualTo": lambda found: found == value,
        "In": lambda found: found in value,
        "LessThan": lambda found: found < value,
        "LessThanOrEqual": lambda found: found <= value,
        "GreaterThan": lambda found: found > value,
        "GreaterThanOrEqual": lambda found: found >= value,
    }[operator]
    with cold_store(data_dir):
        expected = [
            row for row in records(data_dir) if row[place] is not None and holds(row[place])
        ]

        found = read_where(data_dir, getattr(datasource, operator)((column,), value))

    assert sorted(found) == expected


def test_a_filter_by_time_keeps_exactly_its_rows(data_dir, hot):
    with cold_store(data_dir):
        stamps = [row[1] for row in records(data_dir)]
        moment = datetime.fromtimestamp(stamps[100] / 1e6, UTC)

        found = read_where(data_dir, datasource.GreaterThan(("ts",), moment))

    assert len(found) == sum(ts > stamps[100] for ts in stamps)


def test_filters_that_are_not_ours_are_left_to_spark(data_dir):
    foreign = [
        datasource.EqualTo(("data",), b"x"),
        datasource.Not(datasource.EqualTo(("tag",), "eu")),
        datasource.StringStartsWith(("tag",), "eu"),
        datasource.EqualTo(("seq",), "text"),
        datasource.IsNull(("tag",)),
    ]

    assert list(reader(data_dir).pushFilters(foreign)) == foreign


def test_a_vanished_lake_file_is_told_with_its_manifest(data_dir, tmp_path):
    with cold_store(data_dir):
        made = reader(data_dir)
        planned = made.partitions()
        for file in sorted(tmp_path.rglob("*.parquet"))[1:2]:
            file.unlink()

        with pytest.raises(NotFound, match=r"41-.*of manifest \d+ of topic 't' no longer exists"):
            read(made, planned)


def test_an_executor_without_the_lake_says_so(data_dir, tmp_path):
    with cold_store(data_dir):
        made = reader(data_dir)
        planned = made.partitions()
    (tmp_path / "data" / "lake").rename(tmp_path / "elsewhere")

    with pytest.raises(Unavailable, match=r"cannot read the lake at .*: every executor needs"):
        read(made, planned)


def test_an_executor_without_the_store_says_so(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(split_planner, "CARRIED_BYTES_MAX", -1)
    with open_store(data_dir) as store:
        store.topic("t").append_many([b"x"] * 5)
        made = reader(data_dir)
        planned = made.partitions()
    (tmp_path / "data").rename(tmp_path / "elsewhere")

    with pytest.raises(Unavailable, match=r"cannot read the store at .*on every executor"):
        read(made, planned)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"topic": "ordres"}, UnknownTopic, "no topic 'ordres' in .*: it has t"),
        ({"columns": "seq,payload"}, Invalid, "no column 'payload': columns are seq, ts"),
        ({"colums": "seq"}, Invalid, "unknown option 'colums': known are"),
        ({"store": "data"}, Invalid, "by its absolute path, not 'data'"),
        ({"from": "yesterday"}, Invalid, "neither a seq nor a time"),
        ({"as_of": "{}"}, Invalid, "is not a position"),
    ],
)
def test_a_wrong_option_is_named(data_dir, options, kind, message):
    with cold_store(data_dir, batches=1), pytest.raises(kind, match=message):
        reader(data_dir, **options).partitions()


def _iso(us: int) -> str:
    return datetime.fromtimestamp(us // 10**6, UTC).replace(microsecond=us % 10**6).isoformat()
