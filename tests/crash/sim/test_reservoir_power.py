"""Promise: a reservoir in a folder survives power losses; its cache need not.

Of a reservoir on a local folder the power is cut before every call of the disk: what was
acknowledged is there. Of the cache's disk anything may be left, torn or gone, full or failing:
pages are right, from the object store if need be.
"""

from __future__ import annotations

import contextlib
import errno
import random

import msgspec
import pytest

from strandline.errors import Corrupt, StrandlineError
from strandline.platform.objectstore.local import FolderObjects
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.reservoirs import CACHE, PAGES, ROUNDS, SETTINGS, World, opened, pages_of
from tests.crash.sim.watch import power_losses

FOLDER = "/far/reservoir"
GREEDY = msgspec.structs.replace(
    SETTINGS, file_bytes=1600, compact_share=0.5, snapshot_interval=2, retained_versions=0
)
"""Rewrites whatever it may."""
SEED = 20_261_116


class _Looker:
    """Before every call of a disk looks at what a crash would leave; the world goes on."""

    def __init__(self, world: World, *, kill: bool) -> None:
        self._world = world
        self._kill = kill
        self._rng = random.Random(SEED)
        self._calls = 0
        self.looks = 0
        self.wrong: list[str] = []
        """Told, not raised: the call may be one of an upload, whose errors are tried again."""
        world.disk.on_call = self._on_call

    def _on_call(self, operation: str, path: str) -> None:
        self._calls += 1
        disk = self._world.disk
        losses = [disk.crash(Oldest()), disk.crash(Newest()), *power_losses(disk, self._rng, 1)]
        for after in [disk.kill()] if self._kill else losses:
            self.looks += 1
            try:
                with opened(FolderObjects(FOLDER, after), disk=after) as found:
                    self._world.check_found(found)
            except Exception as error:  # noqa: BLE001 - all that is not as promised is told
                self.wrong.append(f"{self._calls}: {operation} {path}: {error!r}")


def _in_a_folder() -> World:
    disk = SimDisk(seed=SEED)
    return World(FolderObjects(FOLDER, disk), disk=disk)


@pytest.mark.parametrize("kill", [False, True], ids=["power loss", "kill"])
def test_what_was_acknowledged_survives_a_crash_before_any_call(kill):
    world = _in_a_folder()
    looker = _Looker(world, kill=kill)

    world.run(ROUNDS)

    assert looker.wrong == []
    assert looker.looks > 200


def test_an_opening_cut_off_again_and_again_loses_nothing():
    """The power fails in each opening in turn, a little later every time."""
    world = _in_a_folder()
    world.run(ROUNDS)
    disk = world.disk
    for at in range(1, 60, 3):
        disk = disk.crash(Oldest())
        disk.fail("*", at, errno=errno.EIO, once=False)
        with contextlib.suppress(OSError, StrandlineError):
            opened(FolderObjects(FOLDER, disk), disk=disk).close()

    last = disk.crash(Oldest())
    with opened(FolderObjects(FOLDER, last), disk=last) as found:
        world.check_found(found)


def _cached_world() -> World:
    world = World(SimObjects(), disk=SimDisk(seed=SEED), cached=True)
    world.run(ROUNDS)
    return world


def _read_through(world: World, disk: SimDisk) -> Reservoir:
    """Open on that disk and compare every page, twice: the second time from what was healed."""
    found = opened(world.objects.fork(), disk=disk, cache_folder=CACHE)
    world.check_found(found)
    assert pages_of(found) == world.shown
    return found


def test_a_cache_that_lost_power_gives_no_wrong_page():
    world = _cached_world()
    rng = random.Random(SEED)
    healed = 0

    for after in [world.disk.crash(Oldest()), *power_losses(world.disk, rng, 30)]:
        with _read_through(world, after) as found:
            assert found.cache is not None
            healed += found.cache.statistics().healed

    assert healed > 0


@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "gone", "another"])
def test_a_damaged_file_of_the_cache_is_replaced(damage):
    world = _cached_world()
    healed = 0
    for path in _cached_files(world.disk):
        disk = world.disk.kill()
        _damage(disk, path, damage)

        with _read_through(world, disk) as found:
            assert found.cache is not None
            healed += found.cache.statistics().healed
            downloads = found.cache.statistics().downloads
            assert pages_of(found) == world.shown
            assert found.cache.statistics().downloads == downloads

    if damage in ("flipped", "another"):
        assert healed


def test_a_damaged_file_of_the_cache_hinders_no_rewriting():
    """Files are rewritten from good bytes: those of the object store, when the cache has none."""
    world = _cached_world()
    world.settings = GREEDY
    world.close()
    world.open()
    assert world.reservoir is not None
    damaged = _cached_files(world.disk)
    for path in damaged:
        _damage(world.disk, path, "flipped")
    before = set(world.reservoir._state.files.live)

    for _ in range(6):
        world.checkpoint()

    assert world.reservoir.statistics().damaged_files == ()
    rewritten = before - set(world.reservoir._state.files.live)
    assert len(rewritten) > len(before) // 2
    world.check_shown()
    world.close()


def _cached_files(disk: SimDisk) -> list[str]:
    (folder,) = disk.list_dir(CACHE)
    return [f"{CACHE}/{folder}/{name}" for name in disk.list_dir(f"{CACHE}/{folder}")
            if name != "LOCK"]  # fmt: skip


def _damage(disk: SimDisk, path: str, damage: str) -> None:
    content = disk.read(path)
    others = [other for other in _cached_files(disk) if other != path]
    match damage:
        case "flipped":
            content = bytes(byte ^ 1 for byte in content)
        case "cut":
            content = content[:-1]
        case "longer":
            content += b"x"
        case "another":
            content = disk.read(others[0])[: len(content)].ljust(len(content), b"x")
    if damage == "gone":
        disk.remove(path)
    else:
        disk.durable_replace(path, content)


def test_a_cache_whose_files_are_removed_while_it_is_open_goes_on():
    world = _cached_world()
    assert world.reservoir is not None
    for path in _cached_files(world.disk):
        world.disk.remove(path)

    world.check_shown()

    with world.reservoir.session() as session:
        world.write(session, ROUNDS[0])
        world.commit(session, ROUNDS[0])
    world.checkpoint()
    world.check_shown()
    world.close()


def test_a_cache_whose_folder_is_removed_while_it_is_open_goes_on():
    world = _cached_world()
    (folder,) = world.disk.list_dir(CACHE)
    for name in world.disk.list_dir(f"{CACHE}/{folder}"):
        world.disk.remove(f"{CACHE}/{folder}/{name}")
    world.disk.remove(f"{CACHE}/{folder}")

    world.check_shown()
    assert world.reservoir is not None
    with world.reservoir.session() as session:
        world.write(session, ROUNDS[1])
        world.commit(session, ROUNDS[1])
    world.checkpoint()

    world.check_shown()
    world.close()
    with opened(world.objects, disk=world.disk, cache_folder=CACHE) as found:
        world.check_found(found)


@pytest.mark.parametrize("room", [0, 100, 400, 900])
def test_a_full_local_disk_makes_no_page_wrong_and_no_work_impossible(room):
    disk = SimDisk(seed=SEED)
    disk.capacity = room
    world = World(SimObjects(), disk=disk, cached=True)

    world.run(ROUNDS)

    world.close()
    with _read_through(world, disk) as found:
        assert found.cache is not None
        told = found.cache.statistics()
        assert told.failures or told.evictions


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_failing_local_disk_makes_no_page_wrong(code):
    """From any call on; an opening may refuse such a cache, and says so."""
    for at in range(1, 60, 2):
        world = _cached_world()
        world.disk.fail("*", at, errno=code, once=False)

        world.check_shown()
        assert world.reservoir is not None
        with world.reservoir.session() as session:
            world.write(session, ROUNDS[at % 7])
            world.commit(session, ROUNDS[at % 7])
        world.checkpoint()
        world.check_shown()
        world.close()

        with opened(world.objects) as found:
            world.check_found(found)


@pytest.mark.parametrize("cached", [False, True], ids=["bare", "cached"])
def test_a_data_file_removed_under_an_open_reservoir_is_named(cached):
    """Its pages are an error or, from the cache, right; all others are as they were."""
    source = World(SimObjects(), disk=SimDisk(seed=SEED), cached=cached)
    source.run(ROUNDS)
    doomed = [key for key in source.objects.snapshot() if key.startswith("data/")]
    told: list[bool] = []
    for key in doomed:
        objects = source.objects.fork()
        with opened(objects, disk=source.disk.kill(), cache_folder=CACHE if cached else None) as it:
            objects.delete([key])
            for page in PAGES:
                try:
                    assert it.read(page) == source.shown.get(page)
                except Corrupt as error:
                    told.append(key in str(error) and f"page {page} " in str(error))
            it.checkpoint()

    assert all(told)
    assert bool(told) == (not cached)
