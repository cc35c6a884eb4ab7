"""Promise: a pipeline does the same on threads of this process and on Spark, row by row.

The one suite that every engine passes: ``Embedded`` and ``SparkEngine``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from strandline.config.settings import GIB, LakeSettings
from strandline.errors import Corrupt, NotInstalled
from strandline.lake import external_reader
from strandline.pipelines import Embedded, Engine, choose, compact, scrub
from strandline.pipelines.compaction.compaction_planner import groups_of
from strandline.spark.engine import SparkEngine
from strandline.store import Store
from tests.unit.lake.small_lake import fill, open_small

pytestmark = pytest.mark.spark


@pytest.fixture(params=["embedded", "spark"])
def engine(request) -> Engine:
    if request.param == "embedded":
        return Embedded(threads=2)
    return SparkEngine(request.getfixturevalue("spark"))


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    with open_small(str(tmp_path / "data")) as opened:
        yield opened


def rows_in(store: Store, topic: str) -> pa.Table:
    return external_reader.dataset(f"{store.path}/lake", topic).to_table()


def files_in(store: Store, topic: str) -> list[tuple[int, int, int]]:
    files = external_reader.files(f"{store.path}/lake", topic).files
    return [(file.first_seq, file.last_seq, file.rows) for file in files]


def damage(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(300)
        byte = file.read(1)
        file.seek(300)
        file.write(bytes([byte[0] ^ 1]))


def double(number: int) -> int:
    return number * 2


def unlucky(number: int) -> int:
    if number == 3:
        raise Corrupt("task three is damaged", path="here")
    return number


def patient(number: int) -> tuple[int, float]:
    """The first is quick, the last is not."""
    time.sleep(0.0 if number == 0 else 1.5)
    return number, time.time()


def test_every_task_is_told_once_with_its_place(engine):
    found = sorted(engine.run(double, list(range(20))))

    assert found == [(place, place * 2) for place in range(20)]


def test_no_tasks_are_no_work(engine):
    assert list(engine.run(double, [])) == []


def test_results_come_while_others_still_run(engine):
    arrived = {place: (time.time(), ended) for place, (_, ended) in engine.run(patient, [0, 1])}

    assert arrived[0][0] < arrived[1][1], "the first was told before the last had ended"


def test_the_error_of_a_task_is_what_it_was_there(engine):
    with pytest.raises(Corrupt, match="task three is damaged"):
        list(engine.run(unlucky, list(range(5))))


def test_a_compaction_of_a_table_keeps_every_row(engine, store):
    table = store.table("pay")
    table.define({"amount": "u64"})
    for first in (0, 100, 200):
        contexts = [f"user-{row % 7}" for row in range(100)]
        table.store_many(contexts, [b'{"amount":%d}' % (first + row) for row in range(100)])
        table.flush()
    before = store.run("QUERY pay").rows()

    summary = compact(store, ["pay:table"], engine=engine)

    assert (summary.engine, summary.files_after, summary.skipped) == (engine.name, 1, [])
    assert files_in(store, "pay:table") == [(1, 301, 300)]
    assert store.run("QUERY pay").rows() == before


def test_a_compaction_keeps_every_row(engine, store):
    for name in ("orders", "users"):
        topic = fill(store, name, batches=7)
        topic.delete(match="odd")
        topic.delete(before=151)
    store.relocate()
    before = {name: rows_in(store, name) for name in ("orders", "users")}
    records = store.topic("orders").read(0, limit=1000).records

    summary = compact(store, engine=engine)

    assert (summary.engine, summary.groups, summary.skipped) == (engine.name, 2, [])
    assert summary.rows_dropped == 2 * 275
    for name, rows in before.items():
        assert rows_in(store, name).equals(rows)
        assert len(files_in(store, name)) == 1
    store._relocator._read_s.clear()
    store.relocate()
    assert store.topic("orders").read(0, limit=1000).records == records


def test_each_planned_group_becomes_one_file(engine, store):
    fill(store, batches=11)
    wanted = LakeSettings(file_bytes=2500, zone_rows=70)
    manifest = external_reader.newest_of(
        store.lake_objects, external_reader.owner_of(store.lake_objects), 1
    )
    planned = groups_of(manifest, file_bytes=2500, dead_share=wanted.dead_share)

    compact(store, engine=engine, settings=wanted)

    assert len(planned) > 1
    assert files_in(store, "orders") == [
        (group.first_seq, group.last_seq, group.rows) for group in planned
    ]


def test_damage_is_told_and_holds_up_no_other_group(engine, store):
    fill(store, "bad", batches=4)
    fill(store, "good", batches=4)
    damage(external_reader.files(f"{store.path}/lake", "bad").files[1].url)

    summary = compact(store, engine=engine)

    [skipped] = summary.skipped
    assert (skipped.topic, skipped.damaged) == ("bad", True)
    assert len(files_in(store, "good")) == 1
    assert len(files_in(store, "bad")) == 3


def test_a_scrub_finds_every_damaged_file_and_no_other(engine, store):
    fill(store, "orders", batches=6)
    fill(store, "users", batches=6)
    bad = [external_reader.files(f"{store.path}/lake", "orders").files[place] for place in (0, 3)]
    for file in bad:
        damage(file.url)

    summary = scrub(store, engine=engine)

    assert summary.files == 10
    found = [(each.topic, each.first_seq, each.last_seq, each.path) for each in summary.findings]
    assert sorted(found) == [("orders", file.first_seq, file.last_seq, file.url) for file in bad]


def test_auto_takes_spark_above_the_threshold_and_when_it_is_there(spark):
    def there() -> Engine:
        return SparkEngine(spark)

    def absent() -> Engine:
        raise NotInstalled("no pyspark: pip install 'strandline[spark]'")

    assert choose(GIB, threshold=2 * GIB, spark=there).name == "embedded"
    assert choose(2 * GIB, threshold=2 * GIB, spark=there).name == "spark"
    assert choose(2 * GIB, threshold=2 * GIB, spark=absent).name == "embedded"
    assert choose(9 * GIB, requested="embedded", threshold=1, spark=there).name == "embedded"
    assert choose(0, requested="spark", spark=there).name == "spark"
    with pytest.raises(NotInstalled, match="pip install"):
        choose(0, requested="spark", spark=absent)
