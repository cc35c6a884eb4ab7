"""Promise: with reservoir and lake in a real S3, Spark reads views without the folder of the store:
as they were saved last, and what the lake has behind that; never something else."""

from __future__ import annotations

import shutil
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

import strandline
from strandline.config.settings import Settings, ViewSettings
from strandline.errors import Conflict, Invalid, NotFound
from strandline.platform.objectstore.cloud import open_objects
from strandline.spark.read import view_state
from strandline.spark.read.tasks import StatePart
from strandline.store import Store
from tests.integration.conftest import Remote
from tests.integration.spark_lake import Cloud
from tests.spark.stores import BATCH, settings
from tests.spark.viewing import Rows, batch, open_views

pytestmark = [
    pytest.mark.spark,
    pytest.mark.parametrize("remote", ["moto"], indirect=True),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
JOBS = "seq,state,priority,attempts,due,expires"


@pytest.fixture
def cloud(
    spark: SparkSession, remote: Remote, data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    return Cloud(spark, remote, data_dir, monkeypatch)


def place_of(cloud: Cloud) -> str:
    return cloud.url.replace("/some/prefix", "/views")


def settings_of(cloud: Cloud) -> Settings:
    views = ViewSettings(url=place_of(cloud))
    return msgspec.structs.replace(settings(url=cloud.url, hot_segments=0), views=views)


def open_both(cloud: Cloud) -> Store:
    return strandline.open(cloud.path, settings=settings_of(cloud), start_jobs=False)


def ordered(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(map(str, (row[name] for name in names or row))) for row in rows)


def pushed(store: Store, topic: str, count: int = BATCH) -> None:
    """Fill up a segment, and move it to the lake."""
    store.kv(topic).put_many({f"filler-{n}": b"%d" % n for n in range(count)})
    store.checkpoint()
    store.relocate()


def test_every_view_is_read_as_it_was_saved_without_the_folder(cloud: Cloud):
    with open_views(cloud.path, settings=settings_of(cloud), start_jobs=False) as store:
        pushed(store, "others")  # so that there is a lake
    views: list[tuple[str, dict[str, str]]] = [
        ("profiles", {"view": "kv"}),
        ("gps", {"view": "series"}),
        ("telemetry", {"view": "metrics"}),
        ("telemetry", {"view": "metrics", "measurement": "cpu"}),
        ("jobs", {"view": "queue", "columns": JOBS}),
    ]
    beside = {"lake": cloud.url, "reservoir": place_of(cloud)}
    wanted = [ordered(batch(cloud.path, name, **beside, **asked)) for name, asked in views]
    shutil.rmtree(cloud.path)

    there = {"reservoir": place_of(cloud)}
    found = [ordered(batch(cloud.url, name, **there, **asked)) for name, asked in views]

    assert found == wanted
    assert [len(rows) for rows in found] == [3, 30, 20, 10, 3]
    jobs = batch(cloud.url, "jobs", view="queue", **there)
    assert [(row["data"], row["ts"]) for row in jobs] == [(None, None)] * 3, "not in the lake yet"


def test_what_the_lake_has_behind_the_checkpoint_is_folded_in(cloud: Cloud):
    older = f"{place_of(cloud)}-older"
    with open_both(cloud) as store:
        profiles = store.kv("profiles")
        profiles.put_many({"ada": b"first", "bob": b"first", "eve": b"first"})
        jobs = store.queue("jobs")
        jobs.put_many([b"wash"] * 3)
        pushed(store, "others")
        copied(place_of(cloud), older)
        profiles.put("ada", b"second")
        profiles.delete("bob")
        jobs.put_many([b"dry"] * (2 * BATCH))
        pushed(store, "profiles")
        profiles.put("late", b"only in the store")
    shutil.rmtree(cloud.path)

    at_first = batch(cloud.url, "profiles", view="kv", reservoir=older)
    newest = batch(cloud.url, "profiles", view="kv", reservoir=place_of(cloud))
    queued = batch(cloud.url, "jobs", view="queue", reservoir=older)

    told = {row["key"]: row["text"] for row in at_first}
    assert (told["ada"], told["eve"], "bob" in told) == ("second", "first", False)
    assert {row["key"]: row["text"] for row in newest} == told | {"late": "only in the store"}
    assert len(queued) == 3, "jobs without their leases mean nothing"
    assert {row["text"] for row in queued} == {"wash"}, "which are in the lake by now"


def test_a_large_map_is_read_by_executors(cloud: Cloud, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(view_state, "SENT_BYTES_MAX", 1000)
    monkeypatch.setattr(view_state, "_SLICE_ROWS", 500)
    with open_both(cloud) as store:
        store.kv("profiles").put_many({f"key-{n:05}": b"%d" % n for n in range(5000)})
        pushed(store, "others")
    shutil.rmtree(cloud.path)
    tasks: list[Any] = []

    found = batch(cloud.url, "profiles", tasks, view="kv", reservoir=place_of(cloud))

    assert [row["key"] for row in found] == [f"key-{n:05}" for n in range(5000)]
    assert len(tasks) > 2
    assert all(isinstance(task.parts[0], StatePart) for task in tasks)


def test_a_value_that_is_only_in_the_log_is_told_of_until_it_has_moved(cloud: Cloud):
    large = b"x" * 100_000  # a map keeps such a value in the log alone
    with open_both(cloud) as store:
        pushed(store, "others")
        store.kv("profiles").put("ada", large)
    reading = {"view": "kv", "reservoir": place_of(cloud)}

    with pytest.raises(NotFound, match=r"1 records of topic 'profiles'.*columns value and text"):
        batch(cloud.url, "profiles", **reading)
    keys = batch(cloud.url, "profiles", columns="key,version", **reading)
    with open_both(cloud) as store:
        pushed(store, "profiles")
    moved = batch(cloud.url, "profiles", **reading)

    assert keys == [{"key": "ada", "version": 1}]
    assert next(row["value"] for row in moved if row["key"] == "ada") == large


def test_another_place_another_store_and_another_moment_are_refused(cloud: Cloud, data_dir: str):
    with open_both(cloud) as store:
        store.kv("profiles").put("ada", b"x")
        pushed(store, "others")
    foreign = f"{place_of(cloud)}-foreign"
    views = Settings(views=ViewSettings(url=foreign))
    with strandline.open(f"{data_dir}-other", settings=views) as other:
        other.kv("profiles").put("eve", b"x")
    reading = {"view": "kv", "reservoir": place_of(cloud)}

    with pytest.raises(Conflict, match="belong to store"):
        batch(cloud.url, "profiles", view="kv", reservoir=foreign)
    with pytest.raises(NotFound, match=r"no views are saved in .*views\.url"):
        batch(cloud.url, "profiles", view="kv", reservoir=f"{foreign}-none")
    with pytest.raises(NotFound, match="no kv view of topic 'nobody'"):
        batch(cloud.url, "nobody", **reading)
    with pytest.raises(Invalid, match="leave as_of out"):
        batch(cloud.url, "profiles", as_of="2026-01-01T00:00:00Z", **reading)


def copied(source: str, target: str) -> None:
    """All objects of a place, under another."""
    old, new = open_objects(source), open_objects(target)
    for info in old.list(""):
        new.create(info.key, old.get(info.key))
