"""Promise: one damaged file holds what is in it, and the store opens all the same.

Each file of a store with every feature in use is damaged in turn: at its beginning, in the middle,
in its index and at its end. The store opens, unless the whole store rests on the file: SYSTEM, the
root when no older one is whole, the log with acknowledged records. Such a refusal names the file.
Reading what is held raises ``Corrupt`` with the file, health names it, everything else goes on, and
nothing of the file is given up: when it is put back, all records are there.
"""

from __future__ import annotations

import contextlib
import functools

import pytest

from strandline.errors import Corrupt
from strandline.log.repair.verify import verify_store
from strandline.store import Store
from strandline.testing.sim_disk import SimDisk
from tests.corruption.test_held_parts import MARK, PARTS, HeldWorld, _files

RESTS_ON = ("/data/SYSTEM", "/data/wal/", "/data/meta/")
PLACES = {
    "beginning": lambda size: min(20, size - 1),
    "middle": lambda size: size // 2,
    "index": lambda size: max(0, size - 100),
    "end": lambda size: size - 1,
}
Records = dict[str, list[bytes]]


@functools.cache
def _killed() -> HeldWorld:
    """Shared: only ever damage a copy."""
    world = HeldWorld()
    for make in PARTS.values():
        make(world.store)
    world.store.topic("large", durability="fsync").append_many([b"large %d" % n for n in range(40)])
    world.forward()
    world.store.checkpoint()
    world.store.relocate()
    world.reopen()
    for name in ("from", "other", "large"):
        world.store.topic(name).append(b"in a second segment")
    world.forward()
    world.store.checkpoint()
    world.store.topic("other").append(b"in the log")
    world.disk = world.disk.kill()
    return world


def _copy(disk: SimDisk) -> HeldWorld:
    world = HeldWorld.__new__(HeldWorld)
    world.__dict__.update(_killed().__dict__)
    world.disk = disk.kill()
    return world


def _damaged(path: str, place: str) -> HeldWorld:
    whole = _killed().disk
    content = bytearray(whole.read(path))
    content[PLACES[place](len(content))] ^= 0x55
    world = _copy(whole)
    world.disk.durable_replace(path, bytes(content))
    return world


def _paths() -> list[str]:
    disk = _killed().disk
    return [path for path in _files(disk, "/data") if disk.read(path)]


def _records(store: Store) -> tuple[Records, list[Corrupt]]:
    """What can be read of every topic, and what was raised by those that cannot."""
    found: Records = {}
    errors: list[Corrupt] = []
    for name in store.topics():
        topic, after = store.existing_topic(name), 0
        found[name] = []
        while after < topic.head_seq:
            try:
                page = topic.read(after, 100)
            except Corrupt as error:
                errors.append(error)
                after = max(after + 1, error.last_seq or 0)
                continue
            assert page.tombstone is None or page.tombstone.reason != "damaged"
            found[name] += page.data
            after = page.next
            if page.caught_up:
                break
    return found, errors


def _held_views(store: Store) -> list[Corrupt]:
    """What views raise whose topic is held; the others are opened and folded."""
    errors = []
    for kind, name in store.views.names():
        try:
            store.views.digest(kind, name)
        except Corrupt as error:
            errors.append(error)
    return errors


@functools.cache
def _whole() -> Records:
    with _copy(_killed().disk).opened() as store:
        return _records(store)[0]


@pytest.mark.parametrize("place", PLACES)
def test_a_damaged_file_holds_what_is_in_it_and_gives_up_nothing(place):
    expected = _whole()
    held = 0
    for path in _paths():
        if path.startswith(RESTS_ON):
            continue
        world = _damaged(path, place)
        with world.opened() as store:
            found, errors = _records(store)
            held += len(errors)
            for error in [*errors, *_held_views(store)]:
                assert error.path == path
                assert f"{path} at byte" in str(error)
            if not errors:
                assert found == expected, path
            elif path in str(errors[0]) and "/segments/shared/" in path:
                assert any(path in reason for reason in store.health().reasons) or place == "middle"
            store.topic("new", durability="fsync").append(b"new")
            store.topic("other").append(b"more")
            with contextlib.suppress(Corrupt):  # what is held stays as it is
                store.checkpoint()
            with contextlib.suppress(Corrupt):
                store.checkpoint()
        with world.opened() as store:
            again = _records(store)[1]
            assert {error.path for error in again} == {error.path for error in errors}
        if errors:
            report = verify_store(world.disk, "/data")
            assert path in {problem.path for problem in report.problems}
            world.disk.durable_replace(path, _killed().disk.read(path))
        with world.opened() as store:
            found, errors = _records(store)
        assert errors == [], path
        for name, data in expected.items():
            if not name.startswith("strandline."):
                assert found[name][: len(data)] == data, (path, name)
        assert found["new"] == [b"new"]
        assert found["other"][-1] == b"more"
    assert held > 5


@pytest.mark.parametrize("place", PLACES)
def test_damage_in_what_the_whole_store_rests_on_is_refused_by_name_or_harmless(place):
    refused: dict[str, Corrupt] = {}
    for path in _paths():
        if not path.startswith(RESTS_ON):
            continue
        world = _damaged(path, place)
        try:
            with world.opened() as store:
                assert MARK % 0 in store.topic("from").read().data
        except Corrupt as error:
            refused[path] = error
    assert refused
    for path, error in refused.items():
        assert error.path == path
        assert f"{path} at byte" in str(error)


def test_without_any_whole_root_the_newest_is_named():
    world = _copy(_killed().disk)
    roots = [path for path in _paths() if "/meta/" in path]
    for path in roots:
        content = bytearray(world.disk.read(path))
        content[60] ^= 1
        world.disk.durable_replace(path, bytes(content))

    with pytest.raises(Corrupt) as raised:
        world.opened()

    assert raised.value.path == roots[-1]
    assert raised.value.offset > 0


def test_two_damaged_segments_are_both_kept_until_they_are_put_back():
    whole = _killed().disk
    paths = [path for path in _paths() if "/segments/shared/" in path]
    world = _copy(whole)
    for path in paths:
        world.disk.durable_replace(path, bytes(len(whole.read(path))))

    for _ in range(3):
        with world.opened() as store:
            errors = _records(store)[1]
            store.topic("other").append(b"more")
            with contextlib.suppress(Corrupt):
                store.checkpoint()
    for path in paths:
        world.disk.durable_replace(path, whole.read(path))

    assert len(paths) > 1
    assert errors
    with world.opened() as store:
        found, errors = _records(store)
        assert errors == []
        assert found["from"] == _whole()["from"]
        assert found["other"] == [*_whole()["other"], *[b"more"] * 3]


def test_a_held_topic_can_be_trimmed_and_deleted():
    world = _damaged(next(path for path in _paths() if "/segments/shared/" in path), "end")
    with world.opened() as store:
        _, errors = _records(store)
        names = ["from", "to", "other", "large"]
        for name in names:
            store.existing_topic(name).delete(before=store.existing_topic(name).head_seq)
        store.checkpoint()
        readable = [store.existing_topic(name).read(0, 10).caught_up for name in names]
        store.delete_topic("from")
        store.checkpoint()

    assert errors
    assert all(readable)
    with world.opened() as store:
        held = {error.topic_id for error in _records(store)[1]}
        assert held.isdisjoint(store.existing_topic(name).identity[0] for name in names[1:])
