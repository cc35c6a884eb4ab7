"""Promise: a rebuild finds and does the same on threads of this process and on Spark."""

from __future__ import annotations

import shutil

import pytest
from pyroaring import BitMap64

from strandline.pipelines import Embedded, Engine, rebuild, rollup
from strandline.spark.engine import SparkEngine
from tests.unit.pipelines.lives import KINDS, host, live, open_lively
from tests.unit.pipelines.test_rollup import by_itself as rolled_by_itself
from tests.unit.pipelines.test_rollup import made as rolled
from tests.unit.pipelines.test_rollup import make as rollup_life
from tests.unit.pipelines.view_rebuild.test_rebuild_table import make as make_table

pytestmark = pytest.mark.spark


@pytest.fixture(params=["embedded", "spark"])
def engine(request) -> Engine:
    if request.param == "embedded":
        return Embedded(threads=2)
    return SparkEngine(request.getfixturevalue("spark"))


def test_every_engine_folds_the_view_that_the_store_has(engine, data_dir):
    with open_lively(data_dir) as store:
        for kind in KINDS:
            live(store, kind)
        store.relocate()
        expected = {kind: store.views.digest(kind, kind) for kind in KINDS}

    found = {kind: rebuild(data_dir, kind, kind, engine=engine, rows_max=100) for kind in KINDS}

    assert all(each.same for each in found.values())
    assert found["kv"].engine == engine.name
    assert found["kv"].ranges > 1
    shutil.rmtree(f"{data_dir}/views")
    for kind in KINDS:
        rebuild(data_dir, kind, kind, engine=engine, replace=True, rows_max=100)
    with open_lively(data_dir) as store:
        assert {kind: store.views.digest(kind, kind) for kind in KINDS} == expected
        assert all(host(store, kind).saved.state for kind in KINDS)


def test_every_engine_compares_a_table_row_by_row(engine, data_dir):
    make_table(data_dir)
    same = rebuild(data_dir, "table", "table", engine=engine, rows_max=200)
    with open_lively(data_dir) as store:
        fold = host(store, "table").fold
        fold.hidden = fold.hidden | BitMap64([100])
        store.table("table").store("last", {"n": 0, "kind": "c"})

    found = rebuild(data_dir, "table", "table", engine=engine, rows_max=200)

    assert same.same
    assert same.engine == engine.name
    assert [each.names for each in found.differences] == [["seq 100"]]


def test_every_engine_names_the_same_differences(engine, data_dir):
    with open_lively(data_dir) as store:
        live(store, "kv")
        fold = host(store, "kv").fold
        gone = [seen.name for seen in fold.visible_items()][7]
        fold._live.delete(gone)
        store.topic("kv").append(b"so that there is something to save")
        store.views.registry.save()

    found = rebuild(data_dir, "kv", "kv", engine=engine, rows_max=100)

    assert [each.names for each in found.differences] == [[gone.decode()]]


def test_every_engine_makes_the_same_windows(engine, data_dir):
    rollup_life(data_dir)
    expected = rolled_by_itself(data_dir)

    done = rollup(data_dir, engine=engine)

    assert rolled(data_dir) == expected
    assert {rule.into for rule in done.rules} == {"load_20s", "load_2m"}
