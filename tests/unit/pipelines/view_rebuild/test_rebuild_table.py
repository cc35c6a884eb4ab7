"""Promise: an event table is compared with its log row by row, whatever files its rows are in."""

from __future__ import annotations

import json

import pytest
from pyroaring import BitMap64

from strandline.pipelines import Embedded, rebuild
from strandline.store import Store
from strandline.views.view import FoldColumns
from tests.unit.pipelines.lives import host, open_lively
from tests.unit.pipelines.test_rebuild_killed import Counting, Ended, Ending, notes_in
from tests.unit.pipelines.view_rebuild.test_rebuild_view import SMALL, Meanwhile, left_in_the_lake

NAME = "table"


def make(path: str) -> None:
    """Files of two versions, rows in the lake and in the log, deletes of both, a row of nothing."""
    with open_lively(path) as store:
        fill(store)


def fill(store: Store) -> None:
    table = store.table(NAME, flush_rows=100, zone_rows=256)
    table.define({"n": "i64", "kind": ["a", "b"], "x": "f64 | null"})
    for n in range(250):
        event = {"n": n, "kind": "a" if n % 3 else "b", "x": None if n % 5 else n / 7}
        table.store(f"user-{n % 9}", event)
    table.flush()
    store.run(f"DELETE {NAME} WHERE n < 20")
    store.checkpoint()
    table.define({"n": "f64", "kind": ["a", "b", "c"], "x": "f64 | null", "note": "string | null"})
    for n in range(250, 400):
        table.store(f"user-{n % 9}", {"n": n + 0.5, "kind": "c", "note": "late" if n % 2 else None})
    table.flush()
    store.checkpoint()
    store.relocate()
    for n in range(400, 430):
        table.store(f"user-{n % 9}", {"n": n, "kind": "a"})
    store.run(f"DELETE {NAME} WHERE note = late AND n < 300")
    store.topic(NAME).append(b"no event at all", key=b"user-1")
    store.views.registry.save()


def test_a_table_is_the_same_as_its_log(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        count = len(store.sql(f'select seq from tables."{NAME}"').tuples())

    found = rebuild(data_dir, NAME, NAME, rows_max=SMALL)

    assert found.same, found.differences
    assert found.parts == count > 350
    assert found.ranges > 5
    assert rebuild(data_dir, NAME, NAME).same
    assert left_in_the_lake(data_dir) == []


def test_rows_that_are_missing_wrong_or_made_up_are_named(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        found = host(store, NAME)
        fold, head = found.fold, found.topics[0].head_seq
        fold.hidden = fold.hidden | BitMap64([100])  # a row of a file is lost
        event = json.dumps({"n": 1, "kind": "a"}).encode()
        fold.apply(0, FoldColumns([head], [2000], [b"ghost"], [None], [None], [event]))
        store.table(NAME).store("last", {"n": 0, "kind": "c"})  # so that it is saved

    told = rebuild(data_dir, NAME, NAME, rows_max=SMALL)

    assert [name for each in told.differences for name in each.names] == ["seq 100", f"seq {head}"]
    assert [each.rebuilt - each.live for each in told.differences] == [1, -1]
    assert len(told.differences) < told.ranges


def test_deletes_while_it_is_compared_are_no_difference(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        table = store.table(NAME)

        def act() -> None:
            store.run(f"DELETE {NAME} WHERE n >= 390")
            table.store("last", {"n": 0, "kind": "c"})
            for _ in range(2):
                store.checkpoint()
                table.maintain()

        found = rebuild(data_dir, NAME, NAME, rows_max=SMALL, engine=Meanwhile(act))

        assert found.same, found.differences
        assert store.topic(NAME).statistics().count < 430, "records have left"


def test_a_comparison_that_was_killed_goes_on_where_it_was(data_dir):
    make(data_dir)
    whole = Counting(1)
    rebuild(data_dir, NAME, NAME, rows_max=SMALL, engine=whole)
    with pytest.raises(Ended):
        rebuild(data_dir, NAME, NAME, rows_max=SMALL, engine=Ending(whole.tasks - 1))

    rest = Counting(1)
    found = rebuild(data_dir, NAME, NAME, rows_max=SMALL, engine=rest)

    assert found.same
    assert (found.taken_over, rest.tasks) == (whole.tasks - 1, 1)
    assert notes_in(data_dir) == []


def test_a_table_without_rows_is_the_same_as_its_log(data_dir):
    with open_lively(data_dir) as store:
        store.table(NAME).define({"n": "i64"})

    found = rebuild(data_dir, NAME, NAME, engine=Embedded(2))

    assert (found.same, found.parts) == (True, 0)
