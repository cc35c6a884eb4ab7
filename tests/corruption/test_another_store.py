"""Promise (C3): a file that another store wrote is refused by name: whose it is, and what to do.

A file that is merely damaged may be anybody's; one that is whole and another's was put there by
somebody, who wants to know which of the two he meant.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.log.files import system_file
from strandline.log.repair.inspect import inspect_store
from strandline.log.repair.repair import repair_store
from strandline.log.repair.verify import verify_store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import (
    ROOT,
    closed_store,
    content_of,
    expected,
    fill,
    opened,
    paths,
    replaced,
    snapshot,
    wal_paths,
    without,
)

SYSTEM = f"{ROOT}/SYSTEM"


def _stranger() -> SimDisk:
    disk = SimDisk(seed=1)
    fill(disk, SimClock()).close()
    return disk


def _with_a_stranger(kind: str) -> SimDisk:
    stranger = _stranger()
    disk = closed_store().kill()
    for path in paths(stranger):
        if kind in path:
            disk.durable_replace(path, stranger.read(path))
    return disk


def _filled(disk: SimDisk) -> None:
    """A store with every kind of file."""
    fill(disk, SimClock()).close()


def _log_alone(disk: SimDisk) -> None:
    """A store that was never checkpointed."""
    with opened(disk, SimClock()) as store:
        store.topic("only").append(b"record")


def _ids(*disks: SimDisk) -> list[str]:
    return [system_file.read(disk, ROOT).hex() for disk in disks]


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", ["/meta/", "/segments/shared/", "/wal/"])
def test_the_refusal_names_both_stores_and_what_to_do(kind, readonly):
    disk = _with_a_stranger(kind)

    is_held = "/segments/" in kind or (readonly and kind != "/meta/")
    if is_held:  # the store opens without, and says so
        with opened(disk, SimClock(), readonly=readonly) as store:
            told = "\n".join(store.health().reasons)
    else:
        with pytest.raises(Corrupt) as caught:
            opened(disk, SimClock(), readonly=readonly)
        told = str(caught.value)

    for part in ("another store's", *_ids(_stranger(), closed_store()), "restore this store's own"):
        assert part in told


def test_a_sealed_segment_of_another_store_is_told_to_whoever_reads_it():
    disk = _with_a_stranger("/segments/0")

    with opened(disk, SimClock()) as store:
        errors = [found for found in content_of(store).values() if isinstance(found, Corrupt)]

    assert errors
    for error in errors:
        assert all(each in str(error) for each in _ids(_stranger(), closed_store()))


def test_a_checkpoint_of_another_store_is_passed_over_while_there_is_one_of_ours():
    newest = max(path for path in paths(closed_store()) if "/meta/" in path)
    disk = replaced(closed_store(), newest, _stranger().read(newest))

    with opened(disk, SimClock()) as store:
        assert content_of(store) == expected(closed_store())
        assert "another store's checkpoint" in "\n".join(store.health().reasons)


def test_a_log_file_of_another_shard_is_told_apart_from_one_of_another_store():
    disk = closed_store().kill()
    disk.make_dirs(f"{ROOT}/wal/shard-01")
    newest = wal_paths(disk)[-1]
    disk.durable_replace(newest.replace("shard-00", "shard-01"), disk.read(newest))

    with pytest.raises(Corrupt, match="belongs to shard 0, not to shard 1"):
        opened(disk, SimClock())


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("make", [_filled, _log_alone])
def test_when_system_is_the_stranger_it_is_the_one_that_is_named(make, readonly):
    disk = SimDisk()
    make(disk)
    own = _ids(disk)
    disk.durable_replace(SYSTEM, _stranger().read(SYSTEM))
    before = snapshot(disk)

    with pytest.raises(Corrupt) as caught:
        opened(disk, SimClock(), readonly=readonly)

    assert caught.value.path == SYSTEM
    for part in ("another store's SYSTEM", *own, *_ids(_stranger()), "put the right one back"):
        assert part in str(caught.value)
    assert snapshot(disk) == before


def test_a_strange_system_file_is_made_anew_by_a_repair_and_nothing_is_lost():
    disk = replaced(closed_store(), SYSTEM, _stranger().read(SYSTEM))

    found = verify_store(disk, ROOT, lake=False)
    report = repair_store(disk, ROOT, clock=SimClock(), lake=False)

    assert [problem.path for problem in found.problems] == [SYSTEM]
    assert report.lost == []
    assert _ids(disk) == _ids(closed_store())
    with opened(disk, SimClock()) as store:
        assert content_of(store) == expected(closed_store())


def test_inspect_tells_of_a_strange_system_file_and_shows_the_store():
    disk = replaced(closed_store(), SYSTEM, _stranger().read(SYSTEM))

    found = inspect_store(disk, ROOT)

    assert "another store's SYSTEM" in "\n".join(found.complaints)
    assert [found.store_id] == _ids(closed_store())


def test_a_system_file_alone_is_a_store_that_has_nothing_yet():
    disk = without(closed_store(), f"{ROOT}/CLOSED")
    for path in paths(disk):
        if path != SYSTEM:
            disk.remove(path)
    disk.durable_replace(SYSTEM, _stranger().read(SYSTEM))

    with opened(disk, SimClock()) as store:
        assert store.topics() == []
