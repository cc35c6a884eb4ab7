"""Promise: a stream of a view gives the rows of its records, typed, each once, and no silent loss.

The data source is asked as Spark asks it, tasks pickled as for executors; no Spark runs.
"""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import strandline
from strandline.errors import Invalid, RecordsLost
from strandline.store import Store
from tests.spark.viewing import START, begin, drain, open_views, step, table_store


def joined(batches: list[list[dict]]) -> list[dict]:
    return [row for rows in batches for row in rows]


@pytest.fixture
def store(data_dir: str):
    with open_views(data_dir) as opened:
        yield opened


def test_a_stream_of_a_map_gives_changes_and_deletes(store: Store):
    stream, start = begin(store.path, "profiles", view="kv")
    first, end = step(stream, start)
    store.kv("profiles").put("ada", b"third", ttl=1000)
    store.kv("profiles").delete("bob")

    second, _ = step(stream, end)
    stream.stop()

    assert [row["version"] for row in first] == [1, 2, 3, 4, 5, 6]
    told = [(row["key"], row["value"], row["deleted"], row["expires"] is None) for row in second]
    assert told == [("ada", b"third", False, False), ("bob", None, True, True)]


def test_batches_of_a_series_give_every_point_once(store: Store):
    batches = drain(store.path, "gps", ReadMaxRows(7), view="series")

    assert [len(rows) for rows in batches] == [7, 7, 7, 7, 2]
    found = [(row["source"], row["at"], row["payload"], row["version"]) for row in joined(batches)]
    assert found == [(f"bus-{n % 3}", START + n, b"point %d" % n, n % 2) for n in range(30)]


def test_a_plain_record_is_a_point_at_its_time(store: Store):
    store.topic("gps").append(b"plain", key=b"bus-9")

    (row,) = [row for row in joined(drain(store.path, "gps", view="series")) if row["seq"] > 30]

    assert (row["source"], row["payload"]) == ("bus-9", b"plain")
    assert row["at"] == store.topic("gps").read(30).records[0].ts


def test_a_stream_of_metrics_gives_points_as_they_were_written(store: Store):
    store.metrics("telemetry").write("cpu", {"host": "web-0"}, {"load": 9.5}, at=START * 1000)
    store.topic("telemetry").append(b"disk,host=web-1 used=7i 1767225600000000000")

    found = joined(drain(store.path, "telemetry", view="metrics"))

    loads = [row["value"] for row in found if row["field"] == "load"]
    assert loads == [*(n / 4 for n in range(10)), 9.5], "what was replaced came, too"
    assert [row["whole"] for row in found if row["measurement"] == "disk"] == [7]
    assert dict(found[0]["tags"]) == {"host": "web-0"}


def test_a_stream_of_a_table_reads_each_row_in_the_version_of_its_time(data_dir: str):
    with table_store(data_dir) as store:
        batches = drain(data_dir, "pay", ReadMaxRows(60), view="table")
        there = store.sql("select * from tables.pay order by seq").arrow().to_pylist()

    found = {row["seq"]: row for row in joined(batches)}
    assert len(found) == sum(map(len, batches)), "each once"
    assert [found[row["seq"]] for row in there] == there
    assert len(batches) > 4


def test_what_does_not_fit_the_table_is_no_row_of_its_stream(data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("pay").append(b'{"n": 1}', key=b"before")
        table = store.table("pay")
        table.define({"n": "i64"})
        table.store("good", {"n": 2})
        store.topic("pay").append(b'{"n": "three", "m": 4}', key=b"bad")
        store.topic("pay").append(b'{"n": 5, "m": 6}', key=b"early")
        table.define({"n": "i64", "m": "i64 | null"})
        table.store("new", {"n": 7, "m": 8})

        found = joined(drain(data_dir, "pay", view="table"))

        assert [(row["context"], row["n"], row["m"]) for row in found] == [
            ("good", 2, None),
            ("new", 7, 8),
        ]
        assert table.statistics().misfits == 3


def test_a_field_that_comes_while_a_stream_runs_is_not_in_its_columns(data_dir: str):
    with strandline.open(data_dir) as store:
        table = store.table("pay")
        table.define({"n": "i64"})
        table.store("a", {"n": 1})
        stream, start = begin(data_dir, "pay", view="table")
        _, end = step(stream, start)
        table.define({"n": "i64", "m": "i64 | null"})
        table.store("b", {"n": 2, "m": 3})

        rows, end = step(stream, end)

        assert [(row["context"], row["n"], "m" in row) for row in rows] == [("b", 2, False)]
        table.define({"n": "f64", "m": "i64 | null"})
        table.store("c", {"n": 2.5, "m": 3})
        with pytest.raises(Invalid, match=r"'n'.*start it again, with the same checkpoint"):
            step(stream, end)
        stream.stop()
        again, _ = begin(data_dir, "pay", view="table")
        rows, _ = step(again, end)
        again.stop()
        assert [(row["context"], row["n"], row["m"]) for row in rows] == [("c", 2.5, 3)]


def test_a_queue_is_no_stream_and_says_what_is(store: Store):
    with pytest.raises(Invalid, match=r"batch.*view=log.*view=dead"):
        begin(store.path, "jobs", view="queue")
    with pytest.raises(Invalid, match="leave measurement out"):
        begin(store.path, "telemetry", view="metrics", measurement="cpu")


def test_dead_letters_join_a_stream_that_began_before_the_first(data_dir: str):
    with strandline.open(data_dir) as store:
        queue = store.queue("jobs", deliveries_max=1)
        stream, start = begin(data_dir, "jobs", view="dead")
        nothing, start = step(stream, start)
        queue.put(b"bad")
        queue.nack(*queue.claim())
        queue.claim()

        rows, _ = step(stream, start)
        stream.stop()

    assert nothing == []
    assert [(row["job_seq"], row["data"]) for row in rows] == [(1, b"bad")]


@pytest.mark.parametrize("on_loss", ["fail", "report"])
def test_what_is_lost_of_a_map_is_told_as_of_a_log(store: Store, on_loss: str):
    stream, start = begin(store.path, "profiles", view="kv", onLoss=on_loss)
    _, end = step(stream, start)
    store.delete_topic("profiles")
    store.kv("profiles").put("ada", b"anew")

    if on_loss == "fail":
        with pytest.raises(RecordsLost, match="onLoss=report"):
            step(stream, end)
    else:
        rows, _ = step(stream, end)
        assert [row["lost"] for row in rows if row["key"] is None] == [
            {"first": 7, "last": None, "reason": "recreated"}
        ]
        assert [row["value"] for row in rows if row["key"] == "ada"] == [b"anew"]
    stream.stop()
