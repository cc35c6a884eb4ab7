"""Promise: Spark reads the topics and views of a server over HTTP, in batch and as streams.

No Spark runs but in the last tests: the data source is asked as Spark asks it, tasks pickled.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from strandline.client.settings import ClientSettings
from strandline.errors import Forbidden, Invalid, ObjectStoreUnreachable, RecordsLost, UnknownTopic
from strandline.pipelines.splits.predicates import EPOCH
from strandline.spark import plain_errors, table
from strandline.spark.read import server_source
from strandline.spark.read.options import parse
from strandline.store import Store
from tests.server.running import Running, running
from tests.spark.viewing import batch, begin, drain, open_views, step, table_store

TOKENS = {"reader": "read", "follower": "read,metrics"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over a store that has a log of 500 records and a view of each kind. Only read."""
    folder = tmp_path_factory.mktemp("served")
    path = str(folder / "data")
    with open_views(path) as store:
        fill(store)
    table_store(path).close()
    with running(folder) as made:
        _wait_until_deletes_have_left_the_log(made.store)
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Running]:
    """A server over a store that has the log alone."""
    with running(tmp_path) as made:
        fill(made.store)
        yield made


def fill(store: Store) -> None:
    log = store.topic("log")
    log.append_many([b"%d" % n for n in range(500)], tags=[f"t{n % 5}" for n in range(500)])
    log.delete(match="t4")


def _wait_until_deletes_have_left_the_log(store: Store) -> None:
    """The table's upkeep does it soon: two reads of the log, one before and one after, differ."""
    store.table("pay")  # a view that nobody asked for yet has no upkeep
    deadline = time.monotonic() + 60
    while store.topic("pay").statistics().count != 330 + 2 + 33 - 33:  # events, versions, deletes
        assert time.monotonic() < deadline, store.topic("pay").statistics()
        time.sleep(0.05)


def test_a_batch_has_the_records_of_the_server_cut_into_tasks(server: Running, monkeypatch):
    monkeypatch.setattr(server_source, "PART_SEQS", 120)
    monkeypatch.setattr(server_source, "_PAGE_RECORDS", 50)
    tasks: list = []

    found = batch("", "log", tasks, url=server.url)

    wanted = [n for n in range(500) if n % 5 != 4]
    assert [int(row["data"]) for row in found] == wanted
    assert len(tasks) == 5
    some = batch("", "log", url=server.url, **{"from": "101", "to": "201", "columns": "seq"})
    assert [row["seq"] for row in some] == [n + 1 for n in wanted if 100 <= n < 200]


def test_a_time_narrows_what_is_asked_of_the_server(server: Running):
    records = server.store.topic("log").read(0, 500).records
    late = records[200]

    found = batch("", "log", url=server.url, **{"from": _iso(late.ts), "columns": "seq"})

    assert [row["seq"] for row in found] == [each.seq for each in records if each.ts >= late.ts]


def test_patterns_and_names_of_a_server(server: Running):
    found = batch("", "plai*,profiles", url=server.url, columns="topic,seq")

    assert {row["topic"] for row in found} == {"plain", "profiles"}
    with pytest.raises(UnknownTopic, match="nobody"):
        batch("", "nobody", url=server.url)


def test_a_stream_follows_a_server(own: Running):
    stream, start = begin("", "log", url=own.url)
    first, end = step(stream, start, ReadMaxRows(300))
    own.store.topic("log").append(b"new")

    stream_rows, _ = step(stream, end)
    stream.stop()

    assert [row["seq"] for row in first + stream_rows] == [
        *(n + 1 for n in range(500) if n % 5 != 4),
        501,
    ]


def test_a_checkpoint_of_a_folder_goes_on_at_the_server(server: Running):
    stream, start = begin(server.store.path, "log")
    _, end = step(stream, start, ReadMaxRows(300))
    stream.stop()
    there, _ = begin("", "log", url=server.url)

    rows, _ = step(there, end)
    there.stop()

    assert rows[0]["seq"] == 301


@pytest.mark.parametrize("on_loss", ["fail", "report"])
def test_what_the_server_no_longer_has_is_told(own: Running, on_loss: str):
    stream, start = begin("", "log", url=own.url, onLoss=on_loss)
    _, end = step(stream, start, ReadMaxRows(100))
    own.store.topic("log").alter(cap_records=50)
    own.store.topic("log").append(b"new")

    if on_loss == "fail":
        with pytest.raises(RecordsLost, match="onLoss=report"):
            step(stream, end)
    else:
        rows, _ = step(stream, end)
        (lost,) = [row["lost"] for row in rows if row["lost"]]
        assert lost["first"] == 101
        assert len(rows) == 51
    stream.stop()


def test_records_that_go_while_a_batch_is_read_are_told(own: Running):
    source_rows: list = []
    batch("", "log", source_rows, url=own.url)
    (task,) = source_rows
    own.store.topic("log").alter(cap_records=5)
    own.store.topic("log").append(b"new")

    with pytest.raises(RecordsLost):
        list(server_source.read(task.parts[0], ("seq",), ()))


@pytest.mark.parametrize(
    ("view", "topic", "sql"),
    [
        ("kv", "profiles", "kv.profiles"),
        ("series", "gps", "series.gps"),
        ("queue", "jobs", "queue.jobs"),
        ("metrics", "telemetry", "metrics.telemetry"),
        ("table", "pay", "tables.pay"),
        ("kv_history", "profiles", "kv_history.profiles"),
    ],
)
def test_every_view_of_a_server_is_as_in_its_folder(server: Running, view, topic, sql):
    found = batch("", topic, url=server.url, view=view)

    wanted = batch(server.store.path, topic, view=view)
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert len(found) == server.store.sql(f"select count(*) from {sql}").tuples()[0][0]


@pytest.mark.parametrize(
    ("view", "topic"),
    [("kv", "profiles"), ("series", "gps"), ("metrics", "telemetry"), ("table", "pay")],
)
def test_a_stream_of_a_view_of_a_server_is_as_of_its_folder(server: Running, view, topic):
    found = drain("", topic, ReadMaxRows(100), url=server.url, view=view)

    assert found == drain(server.store.path, topic, ReadMaxRows(100), view=view)


def test_url_and_store_exclude_each_other():
    with pytest.raises(Invalid, match="leave out store"):
        batch("/data", "t", url="http://127.0.0.1:4000")


def test_a_server_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(server_source, "SETTINGS", ClientSettings(retry_s_max=0))

    with pytest.raises(ObjectStoreUnreachable, match=r"127\.0\.0\.1:9"):
        batch("", "t", url="http://127.0.0.1:9")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_executors_read_a_server_with_a_token_that_nobody_sees(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with open_views(str(tmp_path / "data")):
        pass
    with running(tmp_path, tokens=TOKENS) as server:
        token = server.tokens["reader"]
        frame = table(spark, server.url, "profiles", view="kv", token=token)
        log = table(spark, server.url, "gps", token=token)

        assert {row.key for row in frame.collect()} == {"ada", "bob", "eve"}
        assert log.count() == 30
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            log.explain(mode="extended")
        assert told.getvalue().count("strandline") > 0
        assert token not in told.getvalue()
        options = parse({"url": server.url, "topic": "gps", "token": token})
        assert token not in repr(options)
        assert token in pickle.dumps(options).decode("latin-1"), "executors need it"
        with pytest.raises(Forbidden) as refused, plain_errors():
            table(spark, server.url, "gps", token=token[:-4] + "beef").count()
        assert token[:-4] not in str(refused.value)
        with pytest.raises(Forbidden, match="metrics besides read"):
            begin("", "gps", url=server.url, token=token)
        _stream_into_memory(spark, server, server.tokens["follower"])


def _stream_into_memory(spark: SparkSession, server: Running, token: str) -> None:
    reading = spark.readStream.format("strandline").option("url", server.url)
    reading = reading.option("token", token).option("topic", "gps").option("view", "series")
    writing = reading.load().writeStream.format("memory").queryName("served_points")
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.table("served_points").count() == 30
    assert token not in str(query.lastProgress)


def _iso(ts: int) -> str:
    return (EPOCH + timedelta(microseconds=ts)).isoformat()
