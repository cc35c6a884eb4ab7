"""Guarantee: a lake that lacks the newest manifest of a table is reported; no row is missing or
returns without an error, and nothing that is still there is deleted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from strandline.errors import Corrupt
from strandline.lake import object_keys
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from strandline.views.table.condition import Compare
from strandline.views.table.fold import TableFold
from tests.corruption.lakes import opened
from tests.unit.views.table.world import NAME, fill, host_of, numbers, table_of

KEPT = list(range(21, 101))
"""Events after the delete."""


def written() -> tuple[SimDisk, SimObjects, SimObjects]:
    """A table in files with deleted rows, closed cleanly; and its lake before the delete."""
    (disk, objects), (_, yesterday) = histories()
    return disk, objects, yesterday


def histories() -> tuple[tuple[SimDisk, SimObjects], tuple[SimDisk, SimObjects]]:
    """A store and its lake after a delete, and a copy of both from before it."""
    disk, objects = SimDisk(), SimObjects()
    with opened(disk, objects) as store:
        table = table_of(store)
        fill(table, 1, 100)
        table.flush()
        store.checkpoint()
        yesterday = disk.kill(), objects.fork()
        table.delete(Compare("n", "<=", 20))
        store.checkpoint()
        store.checkpoint()
        assert numbers(table) == KEPT
    return (disk, objects), yesterday


def manifests(objects: SimObjects) -> list[str]:
    return [info.key for info in objects.list("topics") if "/manifest/" in info.key]


def without_newest(objects: SimObjects, yesterday: SimObjects) -> None:
    objects.delete(manifests(objects)[-1:])


def without_any(objects: SimObjects, yesterday: SimObjects) -> None:
    objects.delete(manifests(objects))


def as_yesterday(objects: SimObjects, yesterday: SimObjects) -> None:
    objects.restore(yesterday.snapshot())


ACCIDENTS = [without_newest, without_any, as_yesterday]
Accident = Callable[[SimObjects, SimObjects], None]


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_missing_newest_manifest_is_named(accident: Accident, readonly: bool):
    disk, objects, yesterday = written()
    newest = manifests(objects)[-1]
    accident(objects, yesterday)

    with opened(disk, objects, readonly=readonly) as store:
        for _ in range(2):
            with pytest.raises(Corrupt) as raised:
                numbers(table_of(store))

            assert newest in raised.value.path
        if not readonly:
            assert [newest in reason for reason in store.health().reasons] == [True]


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_table_is_whole_when_the_newest_manifest_is_back(accident: Accident):
    disk, objects, yesterday = written()
    whole = objects.snapshot()
    accident(objects, yesterday)
    with opened(disk, objects) as store:
        with pytest.raises(Corrupt):
            table_of(store)
        store.relocate()
        store.checkpoint()

    objects.restore(whole)

    with opened(disk, objects) as store:
        assert numbers(table_of(store)) == KEPT


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_rebuild_folds_the_table_from_the_log_instead(accident: Accident):
    disk, objects, yesterday = written()
    accident(objects, yesterday)

    with opened(disk, objects) as store:
        store.rebuild("table", NAME)
        assert numbers(table_of(store)) == KEPT
        store.checkpoint()

    with opened(disk, objects) as store:
        assert numbers(table_of(store)) == KEPT


def test_a_manifest_of_another_history_is_named():
    (disk, objects), (other_disk, other) = histories()
    with opened(other_disk, other) as store:
        table = table_of(store)
        for first in (101, 201):
            fill(table, first, first + 99)
            table.flush()
    assert len(manifests(other)) >= len(manifests(objects))

    with opened(disk, other) as store, pytest.raises(Corrupt, match="another history"):
        numbers(table_of(store))


def test_a_listing_that_lags_is_not_taken_for_a_missing_manifest():
    disk, objects, _ = written()
    objects.lagging_list = 1_000_000

    with opened(disk, objects) as store:
        assert numbers(table_of(store)) == KEPT


def test_a_table_of_an_earlier_version_opens_and_has_its_manifest_after_a_save():
    disk, objects, _ = written()
    with opened(disk, objects) as store:
        table_of(store)
        host = host_of(store)
        state = msgspec.msgpack.decode(host.saved.state)
        recorded = state.pop("manifest"), state.pop("manifest_checksum")
        older = TableFold(host.fold.config, host.world)
        older.load(host.session, host.saved.space, msgspec.msgpack.encode(state))

        again = msgspec.msgpack.decode(older.save(host.session))

        assert older.snapshot().rows == len(KEPT)
    assert (again["manifest"], again["manifest_checksum"]) == recorded
    assert recorded[0] == object_keys.number_of(manifests(objects)[-1])
