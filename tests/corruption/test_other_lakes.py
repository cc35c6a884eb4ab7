"""Guarantee: a store remembers its lake. Opened with another one, or with none, it hides no row and
writes nothing there; what it has on its own disk is served."""

from __future__ import annotations

import msgspec
import pytest

from strandline.errors import StrandlineError
from strandline.lake.manifest import fencing
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files import system_file
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.repair.verify import verify_store
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.corruption.lakes import BATCH, opened, settings
from tests.corruption.stores import ROOT
from tests.unit.views.table.world import fill, numbers, table_of

EVENTS = list(range(1, 101))


def written() -> tuple[SimDisk, SimObjects]:
    """A store with records and a table in its lake, closed cleanly."""
    disk, objects = SimDisk(), SimObjects(name="sim://first")
    with opened(disk, objects) as store:
        store.topic("old").append_many([b"%d" % number for number in range(BATCH)])
        store.checkpoint()
        store.topic("old").append_many([b"%d" % number for number in range(BATCH)])
        store.checkpoint()
        store.relocate()
        table = table_of(store)
        fill(table, 1, 100)
        table.flush()
        store.checkpoint()
        assert store.topic("old").statistics().cold is not None
    return disk, objects


def newest_root(disk: SimDisk) -> StoreCheckpoint:
    number = root_file.numbers_in(disk, f"{ROOT}/meta")[-1]
    path = root_file.path_of(f"{ROOT}/meta", number)
    return root_file.decode(disk.read(path), path)


def refused(store: Store) -> list[str]:
    """What each use of the lake says; empty for one that is served."""
    told = []
    for use in (
        lambda: store.topic("old").read(0),
        lambda: numbers(table_of(store)),
        store.relocate,
    ):
        try:
            use()
        except StrandlineError as error:
            told.append(str(error))
        else:
            told.append("")
    return told


@pytest.mark.parametrize("readonly", [False, True])
def test_a_store_opened_without_its_lake_refuses_and_loses_nothing(readonly: bool):
    disk, objects = written()
    empty = SimObjects(name="sim://nowhere")

    with opened(disk, empty, readonly=readonly) as store:
        told = refused(store)
        assert store.topic("old").read(BATCH).data[-1] == b"%d" % (BATCH - 1)
        if not readonly:
            store.topic("old").append(b"goes on")
            store.checkpoint()

    for text in told[: 2 if readonly else 3]:
        assert "sim://nowhere holds no lake" in text
        assert "sim://first" in text
        assert "lake.url" in text
    assert not empty.snapshot()
    with opened(disk, objects) as store:
        assert numbers(table_of(store)) == EVENTS
        assert store.topic("old").read(0).data[0] == b"0"


def test_another_lake_of_the_same_store_is_refused():
    disk, objects = written()
    other, clock = SimObjects(name="sim://second"), SimClock()
    clock.advance(60.0)
    fencing.claim_lake(other, system_file.read(disk, ROOT), clock)

    with opened(disk, other) as store:
        told = refused(store)

    assert all("sim://second holds another lake" in text for text in told)
    with opened(disk, objects) as store:
        assert numbers(table_of(store)) == EVENTS


def test_a_lake_that_was_copied_as_a_whole_is_the_same_lake():
    disk, objects = written()
    moved = SimObjects(name="sim://moved")
    moved.restore(objects.snapshot())

    with opened(disk, moved) as store:
        assert refused(store) == ["", "", ""]
        store.topic("old").append(b"more")
        store.checkpoint()

    lake = newest_root(disk).lake
    assert lake is not None
    assert lake.place == "sim://moved"


def test_a_store_of_an_earlier_version_opens_and_remembers_its_lake_at_the_next_checkpoint():
    disk, objects = written()
    named = newest_root(disk)
    older = msgspec.structs.replace(named, lake=None)
    disk.durable_replace(root_file.path_of(f"{ROOT}/meta", older.number), root_file.encode(older))

    with opened(disk, objects) as store:
        assert refused(store) == ["", "", ""]
        store.topic("old").append(b"more")
        store.checkpoint()

    assert newest_root(disk).lake == named.lake


def test_opening_asks_the_lake_nothing():
    disk, objects = written()
    objects.calls.clear()

    with opened(disk, objects):
        pass

    assert not objects.calls


def test_verify_names_a_lake_that_is_not_the_stores():
    disk, _ = written()
    empty = SimObjects(name="sim://nowhere")

    report = verify_store(disk, ROOT, settings(), objects=empty)

    assert any("holds no lake" in problem.reason for problem in report.problems)
