"""Promise: a topic of a server takes, gives and refuses what one of an open store does."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from strandline import (
    AppendResult,
    BatchNumber,
    BatchTooLarge,
    Conflict,
    Invalid,
    Page,
    Record,
    RecordsLost,
    StrandlineError,
    TooLarge,
    TopicConfig,
    TopicExists,
    TopicFull,
    TopicStatistics,
    UnknownTopic,
)

ODD_BYTES = [
    b"",
    b" 1 ",
    b"\0\xff",
    b'{"a": [1, 2.50, "\\u00e4"]}',
    b'"text"',
    b"null",
    b"[" * 100 + b"]" * 100,
    b"1" * 2000,
    b'{"a":1}\n',
    "ä".encode(),
    "ä".encode("latin-1"),
    b'"\xff"',
    b"NaN",
]


def test_a_record_comes_back_with_all_its_fields(store, name):
    topic = store.topic(name)

    appended = topic.append(b"\0data", key=b"\xff", tag="eu", node="n1", meta=b"\0meta")

    assert appended == AppendResult(1, 1, 1)
    (record,) = topic.read().records
    assert isinstance(record, Record)
    assert (record.seq, record.data, record.key) == (1, b"\0data", b"\xff")
    assert (record.tag, record.node, record.meta) == ("eu", "n1", b"\0meta")


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("data", ODD_BYTES)
def test_bytes_are_kept_as_they_are(store, name, data, count):
    topic = store.topic(name)

    topic.append_many([data] * count, keys=[b"k" + data] * count, metas=[data] * count)

    page = topic.read(0, 100)
    assert page.data == [data] * count
    assert [record.key for record in page.records] == [b"k" + data] * count
    assert [record.meta for record in page.records] == [data] * count


@pytest.mark.parametrize("count", [3, 300])
def test_a_list_shares_the_fields_of_its_append(store, name, count):
    topic = store.topic(name)

    topic.append([b"x"] * count, key="k", tag="t", node="n")

    found = {(each.key, each.tag, each.node) for each in topic.read(0, 1000).records}
    assert found == {(b"k", "t", "n")}


@pytest.mark.parametrize("count", [3, 300])
def test_columns_may_have_holes(store, name, count):
    topic = store.topic(name)
    keys = [None if place % 2 else f"k{place}" for place in range(count)]

    topic.append_many([b"x"] * count, keys=keys, tags=[None] * count)

    found = [record.key for record in topic.read(0, 1000).records]
    assert found == [None if key is None else key.encode() for key in keys]


def test_arrow_goes_in_and_comes_out(store, name):
    topic = store.topic(name)
    batch = pa.record_batch({"data": [b"a", b"b"], "key": ["x", None], "tag": ["t", None]})

    topic.append_arrow(batch)

    table = topic.read().arrow()
    assert table.column_names == ["seq", "ts", "key", "tag", "node", "meta", "data"]
    assert table["data"].to_pylist() == [b"a", b"b"]
    assert table["key"].to_pylist() == [b"x", None]
    assert str(table.schema.field("ts").type) == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("limit", [10, 100, 2500])
def test_pages_tell_where_to_go_on(store, name, limit):
    topic = store.topic(name)
    topic.append_many([b"%d" % number for number in range(3000)])

    page = topic.read(100, limit)

    assert isinstance(page, Page)
    assert (len(page), page.next, page.head_seq) == (limit, 100 + limit, 3000)
    assert page.data == [b"%d" % number for number in range(100, 100 + limit)]
    assert not page.caught_up
    assert page.tombstone is None
    columns = page.columns()
    assert columns.seqs == list(range(101, 101 + limit))
    assert columns.stamps == [record.ts for record in page.records]
    assert columns.data == page.data
    assert repr(page) == f"Page({limit} records, next={100 + limit}, head_seq=3000)"


def test_a_page_is_as_small_as_was_asked_for(store, name):
    topic = store.topic(name)
    topic.append_many([b"x" * 1000] * 10)

    page = topic.read(0, 10, size_max=2500)

    assert 1 <= len(page) < 10
    assert not page.caught_up


def test_the_last_page_is_caught_up(store, name):
    topic = store.topic(name)
    topic.append(b"x")

    assert topic.read().caught_up
    assert topic.read(1).caught_up
    assert topic.read(1).records == []


def test_a_node_is_spared_its_own_records(store, name):
    topic = store.topic(name)
    topic.append(b"mine", node="me")
    topic.append(b"yours", node="you")

    page = topic.read(0, node="me")

    assert page.data == [b"yours"]
    assert page.next == 2


def test_lost_records_are_told(store, name):
    topic = store.topic(name, cap_records=2)
    topic.append_many([b"1", b"2", b"3"])

    gap = topic.read().tombstone

    assert (gap.gap_from, gap.gap_to, gap.reason, gap.missed) == (1, 1, "cap", 1)
    with pytest.raises(RecordsLost) as lost:
        next(topic.follow(0, timeout_s=0))
    assert (lost.value.gap_from, lost.value.gap_to, lost.value.reason) == (1, 1, "cap")
    assert [each.data for each in topic.follow(0, timeout_s=0, lossy=True)] == [b"2", b"3"]


def test_a_cursor_of_another_life_is_told(store, name):
    topic = store.topic(name)
    topic.append(b"x")
    epoch = topic.epoch

    gap = topic.read(1, epoch=epoch - 1).tombstone

    assert gap.reason == "recreated"
    assert topic.read(1, epoch=epoch).tombstone is None
    with pytest.raises(RecordsLost) as lost:
        next(topic.follow(1, timeout_s=0, epoch=epoch - 1))
    assert lost.value.reason == "recreated"
    assert [each.data for each in topic.follow(0, timeout_s=0, epoch=epoch)] == [b"x"]


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("once", ["once", b"once", b"\xff\0", "ä&=?"])
def test_an_append_that_comes_twice_lands_once(store, name, once, count):
    topic = store.topic(name)
    first = topic.append_many([b"x"] * count, idempotency_key=once)

    again = topic.append_many([b"x"] * count, idempotency_key=once)

    assert not first.deduped
    assert again == AppendResult(1, count, count, True)
    assert topic.head_seq == count


def test_the_same_record_twice_lands_twice(store, name):
    topic = store.topic(name)

    first, second = topic.append(b"x"), topic.append(b"x")

    assert (first.first_seq, second.first_seq) == (1, 2)


@pytest.mark.parametrize("count", [1, 100])
def test_numbered_batches_are_taken_once(store, name, count):
    topic = store.topic(name)
    topic.append_many([b"x"] * count, idempotency_key=BatchNumber("p/1", 7))

    again = topic.append_many([b"x"] * count, idempotency_key=BatchNumber("p/1", 7))

    assert again.deduped
    assert topic.last_number("p/1") == 7
    assert topic.last_number("nobody") is None
    assert topic.producers() == ["p/1"]
    assert topic.producers("q") == []


def test_an_expected_head_that_is_not_is_a_conflict(store, name):
    topic = store.topic(name)
    topic.append(b"x", expected_head=0)

    with pytest.raises(Conflict):
        topic.append(b"y", expected_head=0)
    with pytest.raises(Conflict):
        topic.append_many([b"y"] * 100, expected_head=7)
    assert topic.head_seq == 1


def test_follow_gives_all_that_is_there_and_ends(store, name):
    topic = store.topic(name)
    topic.append_many([b"%d" % number for number in range(2500)])

    found = [record.data for record in topic.follow(10, timeout_s=0)]

    assert found == [b"%d" % number for number in range(10, 2500)]


def test_follow_sees_what_comes_later(store, name):
    topic = store.topic(name)
    topic.append(b"before")
    records = topic.follow(timeout_s=30)
    first = next(records)
    topic.append(b"later")

    second = next(records)

    assert [first.data, second.data] == [b"before", b"later"]
    records.close()


def test_waiting_for_what_is_there_ends_at_once(store, name):
    topic = store.topic(name)
    topic.append(b"x")

    assert topic.wait_for(0) is True
    assert topic.wait_for(1, timeout_s=0) is False
    assert topic.wait_for(1, timeout_s=0.01) is False


def test_records_are_picked_by_seq(store, name):
    topic = store.topic(name)
    topic.append_many([b"%d" % number for number in range(10)], tags=["t"] * 10)

    page = topic.get_many([7, 3, 3, 99])

    assert [(each.seq, each.data, each.tag) for each in page.records] == [
        (3, b"2", "t"),
        (7, b"6", "t"),
    ]
    assert page.next == page.head_seq == 10
    assert topic.get_many([]).records == []


def test_a_time_has_a_cursor(store, name):
    topic = store.topic(name)
    topic.append(b"1")
    topic.append(b"2")
    first, second = topic.read().records

    assert topic.cursor_at(0) == 0
    assert topic.cursor_at(first.ts) == 0
    assert topic.cursor_at(second.ts + 1) == 2
    assert topic.cursor_at(-(2**70)) == 0
    assert topic.cursor_at(2**70) == 2


def test_records_are_deleted_by_seq_and_by_tag(store, name):
    topic = store.topic(name)
    topic.append_many([b"x"] * 4, tags=["eu", "eu-1", "us", None])

    by_seq = topic.delete(before=2)
    by_tag = topic.delete(match="eu*")
    none = topic.delete(match="eu")

    assert (by_seq.deleted, by_seq.earliest_seq, by_seq.head_seq) == (1, 2, 4)
    assert by_tag.deleted == 1
    assert none.deleted == 0
    assert topic.statistics().count == 2


def test_a_topic_tells_its_numbers(store, name):
    topic = store.topic(name, durability="memory", ttl_ms=86_400_000)
    topic.append(b"abc", key=b"de")

    told = topic.statistics()

    assert isinstance(told, TopicStatistics)
    assert (told.name, told.head_seq, told.earliest_seq, told.count) == (name, 1, 1, 1)
    assert (told.evict_floor, told.payload_bytes, told.cold) == (1, 5, None)
    assert told.last_ts == topic.read().records[0].ts
    assert told.config == topic.config
    assert told.epoch == topic.epoch
    assert isinstance(told.config, TopicConfig)
    assert (told.config.durability, told.config.ttl_ms) == ("memory", 86_400_000)
    assert topic.name == name
    assert topic.gaps_below(10) == []
    assert topic.identity == store.existing_topic(name).identity


def test_a_topic_is_altered(store, name):
    topic = store.topic(name)

    config = topic.alter(cap_records=10, schema={"amount": "i64"})

    assert (config.cap_records, config.schema, config.schema_version) == (10, {"amount": "i64"}, 1)
    assert topic.config == config


def test_a_topic_is_found_made_and_deleted(store, name):
    with pytest.raises(UnknownTopic):
        store.existing_topic(name)

    store.create_topic(name, cap_records=5)

    assert store.existing_topic(name).config.cap_records == 5
    assert store.topics(name) == [name]
    assert store.topic(name, cap_records=5).name == name
    assert store.delete_topic(name) is True
    assert store.delete_topic(name) is False
    assert store.topics(name) == []


def test_a_deleted_topic_is_unknown_to_its_handle(store, name):
    topic = store.topic(name)
    store.delete_topic(name)

    for verb in (
        lambda: topic.append(b"x"),
        lambda: topic.append_many([b"x"] * 100),
        topic.read,
        topic.statistics,
        lambda: topic.alter(cap_records=1),
        lambda: topic.delete(before=1),
        lambda: topic.cursor_at(0),
    ):
        with pytest.raises(UnknownTopic):
            verb()
    assert topic.wait_for(0, timeout_s=0) is False


def test_a_topic_that_is_not_empty_stays(store, name):
    store.topic(name).append(b"x")

    with pytest.raises(StrandlineError) as refused:
        store.delete_topic(name, if_empty=True)

    assert refused.value.code == "conflict" or refused.type is Invalid
    assert store.topics(name) == [name]


def test_names_are_listed_in_order_and_all_of_them(store, name):
    names = [f"{name}.{number:04}" for number in range(1100)]
    for each in names:
        store.topic(each)

    assert store.topics(f"{name}.") == names


REFUSED = {
    "no bytes": (Invalid, lambda topic: topic.append("text")),
    "a number": (Invalid, lambda topic: topic.append(5)),
    "a list of text": (Invalid, lambda topic: topic.append_many(["text"])),
    "one record for many": (Invalid, lambda topic: topic.append_many(b"x")),
    "no records": (BatchTooLarge, lambda topic: topic.append_many([])),
    "unknown option": (Invalid, lambda topic: topic.append(b"x", colour="red")),
    "tag is bytes": (Invalid, lambda topic: topic.append(b"x", tag=b"t")),
    "meta is text": (Invalid, lambda topic: topic.append(b"x", meta="m")),
    "long tag": (TooLarge, lambda topic: topic.append(b"x", tag="t" * 257)),
    "long node": (TooLarge, lambda topic: topic.append(b"x", node="n" * 129)),
    "long key": (TooLarge, lambda topic: topic.append(b"x", key="k" * 4097)),
    "long meta": (TooLarge, lambda topic: topic.append(b"x", meta=b"m" * 16385)),
    "large record": (TooLarge, lambda topic: topic.append(b"x" * (2**20 + 1))),
    "too few keys": (Invalid, lambda topic: topic.append_many([b"x", b"y"], keys=["k"])),
    "lone surrogate": (Invalid, lambda topic: topic.append(b"x", tag="\ud800")),
    "head below 0": (Invalid, lambda topic: topic.append(b"x", expected_head=-1)),
    "head as text": (Invalid, lambda topic: topic.append(b"x", expected_head="1")),
    "empty once": (TooLarge, lambda topic: topic.append(b"x", idempotency_key=b"")),
    "once is a number": (Invalid, lambda topic: topic.append(b"x", idempotency_key=5)),
    "arrow without data": (Invalid, lambda topic: topic.append_arrow(pa.table({"x": [b""]}))),
    "arrow of numbers": (Invalid, lambda topic: topic.append_arrow(pa.table({"data": [1]}))),
    "no arrow": (Invalid, lambda topic: topic.append_arrow([b"x"])),
    "cursor as text": (Invalid, lambda topic: topic.read("1")),
    "cursor below 0": (Invalid, lambda topic: topic.read(-1)),
    "limit 0": (Invalid, lambda topic: topic.read(0, 0)),
    "limit of millions": (TooLarge, lambda topic: topic.read(0, 10_000_000)),
    "node is bytes": (Invalid, lambda topic: topic.read(0, node=b"n")),
    "follow from text": (Invalid, lambda topic: topic.follow("1")),
    "wait for text": (Invalid, lambda topic: topic.wait_for(0, timeout_s="1")),
    "delete nothing": (Invalid, lambda topic: topic.delete()),
    "delete before 0": (Invalid, lambda topic: topic.delete(before=0)),
    "delete bytes": (Invalid, lambda topic: topic.delete(match=b"t")),
    "time as text": (Invalid, lambda topic: topic.cursor_at("now")),
    "alter what is not": (Invalid, lambda topic: topic.alter(colour="red")),
    "alter to nonsense": (Invalid, lambda topic: topic.alter(durability="maybe")),
    "alter below 0": (Invalid, lambda topic: topic.alter(cap_records=-1)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(store, name, what):
    kind, verb = REFUSED[what]
    topic = store.topic(name)

    with pytest.raises(StrandlineError) as refused:
        verb(topic)

    assert refused.type is kind
    assert topic.head_seq == 0


REFUSED_BY_STORE = {
    "bad name": (Invalid, lambda store, name: store.topic("no spaces")),
    "empty name": (Invalid, lambda store, name: store.topic("")),
    "name is a number": (UnknownTopic, lambda store, name: store.existing_topic(5)),
    "unknown option": (Invalid, lambda store, name: store.topic(name, colour="red")),
    "prefix is bytes": (Invalid, lambda store, name: store.topics(b"")),
    "unknown": (UnknownTopic, lambda store, name: store.existing_topic(name)),
}


@pytest.mark.parametrize("what", REFUSED_BY_STORE)
def test_a_store_refuses_alike(store, name, what):
    kind, verb = REFUSED_BY_STORE[what]

    with pytest.raises(StrandlineError) as refused:
        verb(store, name)

    assert refused.type is kind


def test_other_options_than_it_has_are_refused(store, name):
    store.topic(name, cap_records=5)

    with pytest.raises(Invalid):
        store.topic(name, cap_records=6)
    with pytest.raises(TopicExists):
        store.create_topic(name, cap_records=5)


def test_a_full_topic_refuses(store, name):
    topic = store.topic(name, cap_records=1, discard="reject")
    topic.append(b"x")

    with pytest.raises(TopicFull):
        topic.append(b"y")


def test_many_threads_append_without_losing_any(store, name):
    from concurrent.futures import ThreadPoolExecutor

    topic = store.topic(name)

    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda number: topic.append(b"%d" % number), range(200)))

    assert sorted(each.first_seq for each in done) == list(range(1, 201))
    assert sorted(map(int, topic.read(0, 300).data)) == list(range(200))


def test_health_is_told(store):
    told = store.health()

    assert told.status in ("green", "yellow")
    assert {job.name for job in told.jobs} >= {"checkpoint", "retention"}
    assert store.id == store.id
    assert list(itertools.islice(store.id, 1))
