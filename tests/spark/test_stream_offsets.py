"""Promise: a stream gives every record once, in order of offsets, and never loses one silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from strandline.errors import Invalid, RecordsLost, UnknownTopic
from strandline.pipelines.splits import split_planner
from strandline.spark.read.options import parse
from strandline.spark.source.streams import StreamReader
from tests.spark.stores import cold_store, fill, open_store, random_store, read, records

Offset = dict[str, Any]


def stream(path: str, topic: str = "t", **options: str) -> StreamReader:
    return StreamReader(parse({"store": path, "topic": topic, **options}))


def batch(made: StreamReader, start: Offset, limit: ReadLimit | None = None) -> tuple[list, Offset]:
    """One micro-batch, with offsets as a checkpoint keeps them."""
    end = made.latestOffset(start, limit or ReadAllAvailable())
    planned = made.partitions(start, end)
    executor = StreamReader(made.options)  # executors have a copy without the store
    return sorted(read(executor, planned)), json.loads(json.dumps(end))


def drain(made: StreamReader, limit: ReadLimit | None = None) -> list:
    """All batches until nothing comes."""
    start = json.loads(json.dumps(made.initialOffset()))
    found = []
    while True:
        rows, end = batch(made, start, limit)
        if end == start:
            made.stop()
            return found
        found.append(rows)
        start = end


@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_size_give_every_record_once(data_dir, seed, monkeypatch):
    monkeypatch.setattr(split_planner, "CARRIED_BYTES_MAX", -1 if seed % 2 else 1 << 20)
    with random_store(data_dir, seed) as store:
        store.topic("t").alter(cap_records=0)

        batches = drain(stream(data_dir), ReadMaxRows(17 + seed * 30))

        assert [row for rows in batches for row in rows] == records(data_dir)


def test_a_batch_is_no_larger_than_admitted(data_dir):
    with cold_store(data_dir):
        made = stream(data_dir, maxRecordsPerTrigger="64")

        batches = drain(made, made.getDefaultReadLimit())

    assert [len(rows) for rows in batches] == [64, 64, 64, 18]


def test_admission_is_shared_out_by_what_waits(data_dir):
    with open_store(data_dir) as store:
        store.topic("large").append_many([b"x"] * 900)
        store.topic("small").append_many([b"x"] * 100)
        made = stream(data_dir, "large,small", columns="topic,seq")

        rows, _ = batch(made, made.initialOffset(), ReadMaxRows(100))
        made.stop()

    assert sorted(dict(rows).items()) == [("large", 90), ("small", 10)]


def test_a_restart_goes_on_exactly_behind_the_checkpoint(data_dir):
    with cold_store(data_dir) as store:
        first = stream(data_dir)
        before, end = batch(first, first.initialOffset(), ReadMaxRows(120))
        first.stop()
        fill(store, store.topic("t"), 2)
        store.relocate()
        second = stream(data_dir)

        after, _ = batch(second, end)
        second.stop()

        assert before + after == records(data_dir)


def test_a_batch_that_is_planned_again_has_the_same_records(data_dir):
    with cold_store(data_dir) as store:
        first = stream(data_dir)
        start = first.initialOffset()
        rows, end = batch(first, start, ReadMaxRows(205))
        first.stop()
        fill(store, store.topic("t"), 3)
        store.relocate()
        second = stream(data_dir)

        again = sorted(read(StreamReader(second.options), second.partitions(start, end)))
        second.stop()

    assert again == rows


def test_nothing_new_is_no_new_offset(data_dir):
    with cold_store(data_dir) as store:
        made = stream(data_dir)
        _, end = batch(made, made.initialOffset())
        store.topic("other").append(b"x")

        assert made.latestOffset(end, ReadAllAvailable()) == end
        assert made.partitions(end, end) == []
        made.stop()


def test_a_topic_that_begins_to_match_joins_with_its_first_record(data_dir):
    with cold_store(data_dir, name="eu-1") as store:
        made = stream(data_dir, "eu-*", columns="topic,seq", **{"from": "latest"})
        start = made.initialOffset()
        made.latestOffset(start, ReadAllAvailable())
        store.topic("eu-2").append_many([b"a", b"b"])
        store.topic("us").append(b"c")

        rows, end = batch(made, start)
        made.stop()

    assert rows == [("eu-2", 1), ("eu-2", 2)]
    assert sorted(end["topics"]) == ["eu-1", "eu-2"]


def test_what_a_new_topic_lost_before_it_was_seen_is_told(data_dir):
    with cold_store(data_dir, name="eu-1", batches=1) as store:
        made = stream(data_dir, "eu-*", onLoss="report", columns="topic,seq,lost")
        _, end = batch(made, made.initialOffset())
        topic = store.topic("eu-2", cap_records=3)
        topic.append_many([b"x"] * 10)
        topic.enforce_retention()

        rows, _ = batch(made, end)
        made.stop()

    loss = {"first": 1, "last": 7, "reason": "cap"}
    assert rows == [("eu-2", 1, loss), *(("eu-2", seq, None) for seq in (8, 9, 10))]


def test_available_now_ends_where_it_began_to_count(data_dir):
    with cold_store(data_dir) as store:
        made = stream(data_dir)
        made.prepareForTriggerAvailableNow()
        store.topic("t").append_many([b"later"] * 50)
        store.topic("t2").append(b"later")

        batches = drain(made, ReadMaxRows(100))

    assert [len(rows) for rows in batches] == [100, 100, 10]


@pytest.mark.parametrize(
    ("begin", "first"), [("", 1), ("earliest", 1), ("101", 101), ("latest", 0)]
)
def test_a_stream_begins_where_it_is_told(data_dir, begin, first):
    with cold_store(data_dir):
        options = {"from": begin} if begin else {}

        seqs = [row[0] for rows in drain(stream(data_dir, **options)) for row in rows]

    assert seqs == ([] if not first else list(range(first, 211)))


def test_what_was_evicted_before_the_beginning_is_not_lost(data_dir):
    with cold_store(data_dir) as store:
        store.topic("t").alter(cap_records=30)
        store.topic("t").enforce_retention()

        (rows,) = drain(stream(data_dir))

    assert [row[0] for row in rows] == list(range(181, 211))


def test_deletes_on_request_are_not_lost(data_dir):
    with cold_store(data_dir) as store:
        store.topic("t").delete(match="t00*")
        store.topic("t").delete(before=150)

        batches = drain(stream(data_dir))

        assert [row for rows in batches for row in rows] == records(data_dir)


def _evict_under(store) -> None:
    store.topic("t").alter(cap_records=30)
    store.topic("t").enforce_retention()


def test_eviction_under_a_stream_ends_it_by_default(data_dir):
    with cold_store(data_dir) as store:
        made = stream(data_dir)
        _, end = batch(made, made.initialOffset(), ReadMaxRows(100))
        _evict_under(store)

        with pytest.raises(RecordsLost, match=r"records 101 to 180 .*\(cap\): set onLoss=report"):
            batch(made, end)
        made.stop()


def test_eviction_under_a_stream_can_be_reported_as_a_row(data_dir):
    with cold_store(data_dir) as store:
        made = stream(data_dir, onLoss="report", columns="seq,data,lost")
        _, end = batch(made, made.initialOffset(), ReadMaxRows(100))
        _evict_under(store)

        (loss, *rows), _ = batch(made, end)
        made.stop()

    assert loss == (101, None, {"first": 101, "last": 180, "reason": "cap"})
    assert [row[0] for row in rows] == list(range(181, 211))
    assert {row[2] for row in rows} == {None}


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_was_deleted_is_a_loss(data_dir, anew):
    with cold_store(data_dir) as store:
        failing = stream(data_dir)
        _, end = batch(failing, failing.initialOffset(), ReadMaxRows(100))
        store.delete_topic("t")
        if anew:
            store.topic("t").append_many([b"new"] * 5)
        reporting = stream(data_dir, onLoss="report", columns="seq,data,lost")

        with pytest.raises(RecordsLost, match="recreated" if anew else "deleted"):
            batch(failing, end)
        rows, after = batch(reporting, end)

        reason = "recreated" if anew else "deleted"
        loss = (101, None, {"first": 101, "last": None, "reason": reason})
        assert sorted(rows, key=lambda row: row[0]) == [
            *((seq, b"new", None) for seq in range(1, 6) if anew),
            loss,
        ]
        assert batch(reporting, after) == ([], after)
        failing.stop()
        reporting.stop()


def test_a_checkpoint_of_another_store_is_refused(data_dir, tmp_path):
    other = str(tmp_path / "other")
    with cold_store(data_dir), cold_store(other):
        made, foreign = stream(data_dir), stream(other)
        _, end = batch(foreign, foreign.initialOffset())

        with pytest.raises(Invalid, match=r"is of store .*: name the right store"):
            made.latestOffset(end, ReadAllAvailable())
        with pytest.raises(Invalid, match="use a new one"):
            made.latestOffset({"index": 3}, ReadAllAvailable())
        made.stop()
        foreign.stop()


def test_a_stream_of_a_topic_that_is_not_there_does_not_begin(data_dir):
    with cold_store(data_dir, batches=1):
        made = stream(data_dir, "ordres")

        with pytest.raises(UnknownTopic, match="there is no topic 'ordres'"):
            made.initialOffset()
        made.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "9"}, "a stream has no end"),
        ({"onLoss": "ignore"}, "onLoss is fail or report"),
        ({"maxRecordsPerTrigger": "many"}, "is a number"),
        ({"onLoss": "report", "columns": "seq"}, "in the column lost: add it"),
    ],
)
def test_a_wrong_option_of_a_stream_is_named(data_dir, options, message):
    with pytest.raises(Invalid, match=message):
        stream(data_dir, **options)
