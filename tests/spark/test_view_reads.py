"""Promise: Spark reads a topic as any of its views, in batch, as the view itself tells it.

The data source is asked as Spark asks it, tasks pickled as for executors; no Spark runs.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import strandline
from strandline.errors import Invalid, NotFound, TooLarge, UnknownTopic
from strandline.spark.read import view_state
from strandline.store import Store
from tests.spark.viewing import batch, drain, open_views, table_store


@pytest.fixture
def store(data_dir: str):
    with open_views(data_dir) as opened:
        yield opened


def asked(store: Store, sql: str) -> list[dict[str, Any]]:
    """The same by SQL."""
    return store.sql(sql).arrow().to_pylist()


def test_a_map_has_the_keys_that_have_a_value(store: Store):
    found = batch(store.path, "profiles", view="kv")

    assert {row["key"]: row["value"] for row in found} == {
        "ada": b"second",
        "bob": b"first",
        "eve": b"first",
    }
    kv = store.kv("profiles")
    assert all(row["version"] == kv.entry(row["key"]).version for row in found)
    assert {row["deleted"] for row in found} == {False}


def test_a_map_can_be_read_as_of_a_position(store: Store):
    then = strandline.spark.position(store.path, "profiles")
    store.kv("profiles").put("ada", b"third")
    store.kv("profiles").delete("bob")

    found = batch(store.path, "profiles", view="kv", as_of=then)

    assert {row["key"]: row["value"] for row in found}["ada"] == b"second"
    assert "bob" in {row["key"] for row in found}


def test_the_history_of_a_map_has_every_version_and_delete(store: Store):
    found = batch(store.path, "profiles", view="kv_history")

    wanted = asked(store, "select * from kv_history.profiles order by version")
    assert sorted(found, key=lambda row: row["version"]) == wanted
    assert [row["key"] for row in found if row["deleted"]] == ["ann"]


def test_from_and_to_are_for_the_log_of_a_map(store: Store):
    found = batch(store.path, "profiles", view="kv_history", **{"from": "2", "to": "4"})

    assert [row["version"] for row in found] == [2, 3]
    with pytest.raises(Invalid, match="from and to are for records"):
        batch(store.path, "profiles", view="kv", **{"from": "2"})


def test_a_series_has_its_points(store: Store):
    found = batch(store.path, "gps", view="series")

    wanted = asked(store, "select * from series.gps order by seq")
    told = [{("at" if name == "tick" else name): row[name] for name in row} for row in wanted]
    assert sorted(found, key=lambda row: row["seq"]) == told
    assert len(found) == 30


def test_a_queue_has_its_jobs_and_their_states(store: Store):
    found = batch(store.path, "jobs", view="queue")

    assert found == asked(store, "select * from queue.jobs")
    assert [row["state"] for row in found] == ["claimed", "waiting", "waiting"]


def test_a_queue_without_dead_letters_has_none(store: Store):
    assert batch(store.path, "jobs", view="dead") == []


def test_dead_letters_tell_what_became_of_a_job(data_dir: str):
    with strandline.open(data_dir) as store:
        queue = store.queue("jobs", deliveries_max=1)
        queue.put(b"bad")
        queue.nack(*queue.claim())
        queue.claim()

        found = batch(data_dir, "jobs", view="dead")

        assert found == asked(store, "select * from dead.jobs")
        assert [(row["job_seq"], row["data"]) for row in found] == [(1, b"bad")]


def test_dead_letters_in_a_shared_topic_are_those_of_the_queue(data_dir: str):
    with strandline.open(data_dir) as store:
        for name in ("wash", "dry"):
            queue = store.queue(name, deliveries_max=1, dead_letter="morgue")
            queue.put(name.encode())
            queue.nack(*queue.claim())
            queue.claim()

        found = batch(data_dir, "dry", view="dead")

        assert [row["data"] for row in found] == [b"dry"]
        assert [[row["data"] for row in rows] for rows in drain(data_dir, "wash", view="dead")] == [
            [b"wash"]
        ]
        assert store.topic("morgue").statistics().count == 2


def test_metrics_are_points_or_one_measurement_by_columns(store: Store):
    points = batch(store.path, "telemetry", view="metrics")
    wide = batch(store.path, "telemetry", view="metrics", measurement="cpu")

    assert points == asked(store, "select * from metrics.telemetry")
    assert wide == asked(store, 'select * from metrics."telemetry/cpu"')
    assert {row["host"] for row in wide} == {"web-0", "web-1"}


def test_a_table_has_rows_of_files_of_every_version_and_of_memory(data_dir: str):
    with table_store(data_dir) as store:
        found = batch(data_dir, "pay", view="table")

        wanted = asked(store, "select * from tables.pay order by seq")
        assert sorted(found, key=lambda row: row["seq"]) == wanted
        assert len(found) == 330 - 33
        assert {type(row["n"]) for row in found} == {float}, "the newest version says so"


def test_a_table_as_of_a_position_has_no_later_rows(data_dir: str):
    with table_store(data_dir) as store:
        then = strandline.spark.position(data_dir, "pay")
        before = asked(store, "select seq from tables.pay")
        store.table("pay").store("late", {"n": 1.5, "cur": "EUR", "day": "2026-01-04"})
        store.table("pay").flush()

        found = batch(data_dir, "pay", view="table", as_of=then, columns="seq")

        assert sorted(row["seq"] for row in found) == sorted(row["seq"] for row in before)


@pytest.mark.parametrize(("view", "topic"), [("kv", "profiles"), ("series", "gps")])
def test_what_is_too_large_to_travel_is_read_by_executors(
    store: Store, monkeypatch: pytest.MonkeyPatch, view: str, topic: str
):
    wanted = batch(store.path, topic, view=view)
    monkeypatch.setattr(view_state, "SENT_BYTES_MAX", 1)
    monkeypatch.setattr(view_state, "_SLICE_ROWS", 1)
    tasks: list[Any] = []

    found = batch(store.path, topic, tasks, view=view)

    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert {type(part).__name__ for task in tasks for part in task.parts} == {"StatePart"}


def test_a_queue_that_is_too_large_to_travel_says_what_to_do(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(view_state, "COPIED_BYTES_MAX", 1)

    with pytest.raises(TooLarge, match="view=log"):
        batch(store.path, "jobs", view="queue")


@pytest.mark.parametrize(
    ("topic", "options", "error", "told"),
    [
        ("profiles", {"view": "map"}, Invalid, "view is one of log, table, kv"),
        ("profiles", {"view": "queue"}, NotFound, "has no queue view: it has kv; .*view=log"),
        ("plain", {"view": "kv"}, NotFound, "it has no view"),
        ("nobody", {"view": "kv"}, UnknownTopic, "nobody"),
        ("profiles,gps", {"view": "kv"}, Invalid, "one topic"),
        ("profiles", {"view": "kv", "columns": "key,colour"}, Invalid, "'colour'.*key_bytes"),
        ("profiles", {"view": "kv", "measurement": "cpu"}, Invalid, "view=metrics"),
        ("telemetry", {"view": "metrics", "measurement": "disk"}, NotFound, "there are cpu"),
        ("jobs", {"view": "queue", "as_of": "2026-01-01T00:00:00Z"}, Invalid, "past"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_can(store: Store, topic, options, error, told):
    with pytest.raises(error, match=told):
        batch(store.path, topic, **options)


def test_a_table_that_is_written_meanwhile_is_read_at_one_position(data_dir: str):
    """Rows go from memory into files all the time: none is missing, and none is there twice."""
    with strandline.open(data_dir) as store:
        table = store.table("pay", flush_rows=64, zone_rows=256)
        table.define({"n": "i64"})
        table.store("first", {"n": 0})
        done = threading.Event()
        writing = threading.Thread(target=_store_rows, args=(store, done))
        writing.start()
        found: dict[int, list[int]] = {}
        try:
            while len(found) < 8 and writing.is_alive():
                rows = batch(data_dir, "pay", view="table", columns="seq")
                found[len(rows)] = sorted(row["seq"] for row in rows)
        finally:
            done.set()
            writing.join()

    assert len(found) == 8
    assert all(seqs == list(range(2, size + 2)) for size, seqs in found.items())


def _store_rows(store: Store, done: threading.Event) -> None:
    number = 0
    while not done.is_set():
        number += 1
        store.table("pay").store_many(f"user-{number % 7}", [{"n": number}] * 10)
        if number % 20 == 0:
            store.table("pay").flush()
            store.views.registry.save()
