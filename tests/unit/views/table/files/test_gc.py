"""Promise: what left goes, rows and indexes alike; what a snapshot names stays while it is held."""

from __future__ import annotations

import gc

from strandline.lake import object_keys
from strandline.testing.sim_objects import SimObjects
from strandline.views.table.files import layout
from tests.unit.views.table.files.small_table import SCHEMA, TABLE_ID, Table, rows_of, told


def merged(**options: object) -> Table:
    """Four files that became one."""
    table = Table(**options)
    for number in range(4):
        table.add(number * 8 + 1, number * 8 + 8)
    while table.segments.compact_once(SCHEMA):
        pass
    return table


def names_in(objects: SimObjects, folder: str) -> set[str]:
    listed = (info.key for info in objects.list(folder))
    return {object_keys.last_part(key).removesuffix(".zones") for key in listed}


def data_in(table: Table) -> set[str]:
    return names_in(table.objects, object_keys.data_folder(TABLE_ID))


def sides_in(table: Table) -> set[str]:
    return names_in(table.objects, layout.index_folder(TABLE_ID))


def sweep_all(table: Table, *, orphans: bool = False) -> None:
    for _ in range(4):
        table.clock.advance(1)
        table.segments.sweep(orphans=orphans)


def live(table: Table) -> set[str]:
    return {file.name() for file in table.segments.files}


def test_files_that_left_go_with_their_indexes():
    table = merged()
    assert len(data_in(table)) == 5

    sweep_all(table)

    assert data_in(table) == sides_in(table) == live(table)
    assert table.rows() == table.reopened().rows() == rows_of(range(1, 33))


def test_a_snapshot_keeps_its_files_as_long_as_it_is_held():
    table = Table()
    for number in range(4):
        table.add(number * 8 + 1, number * 8 + 8)
    reading = table.read()
    while table.segments.compact_once(SCHEMA):
        pass

    sweep_all(table)
    rows = told(reading)
    kept = data_in(table)
    del reading
    gc.collect()
    sweep_all(table)

    assert rows == rows_of(range(1, 33))
    assert len(kept) == 5
    assert data_in(table) == live(table)


def test_indexes_without_rows_go_and_those_of_live_files_stay():
    table = merged()
    sweep_all(table)
    table.objects.put(layout.index_key(TABLE_ID, f"{40:020d}-{50:020d}-{'0' * 16}.parquet"), b"x")

    sweep_all(table)
    assert len(sides_in(table)) == 2
    sweep_all(table, orphans=True)

    assert sides_in(table) == data_in(table) == live(table)


def test_what_a_commit_is_about_to_list_is_left_alone_for_the_grace_period():
    table = merged()
    table.segments._settings = table.segments._settings.__class__(
        manifest_retention_s=0, grace_s=3600
    )
    side = layout.index_key(TABLE_ID, f"{40:020d}-{50:020d}-{'0' * 16}.parquet")
    table.objects.put(side, b"x")

    sweep_all(table, orphans=True)

    assert side in table.objects.snapshot()


def test_a_dropped_table_leaves_nothing():
    table = merged()

    table.segments.drop()
    sweep_all(table)

    assert data_in(table) == sides_in(table) == set()


def test_a_sweep_of_a_table_without_files_does_nothing():
    table = Table()

    assert table.segments.sweep() is None
    assert table.objects.snapshot() == {}
