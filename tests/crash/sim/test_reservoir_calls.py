"""Promise: whatever call of a reservoir's work fails, what was acknowledged is there, whole.

Every call to the object store fails once, or from then on, before or after it took effect, with
refused credentials or with damaged bytes; or the connection is cut and the process dies there. Who
repeats what failed ends as if nothing had; who opens instead finds the last version that was
acknowledged or the one that was just being made, and no third.
"""

from __future__ import annotations

import contextlib
import functools

import msgspec
import pytest

from strandline.errors import Invalid, ObjectStoreUnreachable, StrandlineError
from strandline.reservoir.checkpoint_codec import META_BYTES_MAX
from strandline.reservoir.reservoir import Reservoir
from strandline.reservoir.session import Session
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import How, SimObjects
from tests.crash.sim.reservoirs import (
    CACHE,
    ROUNDS,
    SETTINGS,
    Round,
    Stubborn,
    World,
    changed,
    opened,
    pages_of,
)

WAYS: list[How] = ["before", "after", "denied", "flipped", "truncated"]


@functools.cache
def _undisturbed() -> SimObjects:
    """The object store after all rounds, when nothing fails; not at import, for mutants."""
    objects = SimObjects()
    world = World(objects)
    world.run(ROUNDS)
    world.close()
    return objects


def _every() -> range:
    """Each call of the work, by its number."""
    return range(1, _undisturbed().calls_total + 1)


def test_the_work_uses_every_kind_of_request():
    assert {"create", "get_ranges", "list", "delete"} <= _undisturbed().calls.keys()
    assert len(_every()) > 40


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("how", WAYS)
def test_who_repeats_a_failed_call_loses_and_invents_nothing(how, once):
    for at in _every():
        objects = SimObjects()
        objects.fail("*", at, how=how, once=once)
        world = Stubborn(objects)

        world.run(ROUNDS)

        objects.heal()
        world.close()
        with opened(objects) as found:
            assert int(found.meta) == world.kept == len(ROUNDS), (at, how)
            world.check_found(found)


@pytest.mark.parametrize("how", WAYS)
def test_who_dies_at_a_failed_call_leaves_what_was_acknowledged(how):
    for at in _every():
        objects = SimObjects()
        objects.fail("*", at, how=how, once=False)
        world = World(objects)
        with contextlib.suppress(StrandlineError):
            world.run(ROUNDS)

        _check_after_death(world, objects)


@pytest.mark.parametrize("lands", [Oldest(), Newest()], ids=["lost", "lands"])
def test_who_is_cut_off_in_the_middle_of_a_call_leaves_what_was_acknowledged(lands):
    """What was in flight may have happened or not; no other call did."""
    for at in _every():
        objects = SimObjects()
        _cut_at(objects, at, lands)
        world = World(objects)
        with contextlib.suppress(StrandlineError):  # there are fewer calls when uploads are quick
            world.run(ROUNDS)

        objects.on_call = None
        in_flight = len(world.states) - 1 - world.kept
        assert in_flight <= 1
        _check_after_death(world, objects)


def _cut_at(objects: SimObjects, at: int, lands: Oldest | Newest) -> None:
    def hook(_operation: str, _key: str) -> None:
        if objects.calls_total == at:
            objects.cut(lands)

    objects.on_call = hook


def _check_after_death(world: World, objects: SimObjects) -> None:
    """Another process opens it as it is now, works on, and loses nothing either."""
    heir = objects.fork()
    with opened(heir) as found:
        world.check_found(found)
        state = pages_of(found)
        with found.session() as session:
            session.write(1, b"of the heir")
            session.commit()
        found.checkpoint(b"7")
    with opened(heir, readonly=True) as again:
        assert pages_of(again) == state | {1: b"of the heir"}
    objects.heal()
    world.close()


def test_a_half_shown_commit_is_never_seen():
    """A commit that fails shows nothing; repeated it shows everything."""
    failed = 0
    for at in range(1, 6):
        objects = SimObjects()
        world = World(objects, settings=msgspec.structs.replace(SETTINGS, uploads_waiting_max=1))
        reservoir = world.open()
        _fail_uploads(objects, at)
        for change in ROUNDS:
            session = reservoir.session()
            _write_in_spite(session, change)
            try:
                session.commit()
            except StrandlineError:
                failed += 1
                assert pages_of(reservoir) == world.shown, at
                objects.heal()
                session.commit()
            world.shown = changed(world.shown, change)

            assert pages_of(reservoir) == world.shown, at
        world.close()
    assert failed


def _fail_uploads(objects: SimObjects, nth: int) -> None:
    """Of data files, by whichever request they are stored, the nth and all later ones."""
    for operation in ("put", "create"):
        objects.fail(operation, nth, once=False, key_contains="data/")


def _write_in_spite(session: Session, change: Round) -> None:
    """A page that is written is the session's, also when its file could not be sent."""
    written, deleted = change
    for page_id, data in written.items():
        with contextlib.suppress(StrandlineError):
            session.write(page_id, data)
    for page_id in deleted:
        session.delete(page_id)


def test_a_rolled_back_session_leaves_neither_pages_nor_files():
    for at in range(1, 12):
        objects = SimObjects()
        objects.fail("*", 2 + at, how="after")
        world = Stubborn(objects)
        world.again(world.open)
        assert world.reservoir is not None
        session = world.reservoir.session()
        world.write(session, (dict.fromkeys(range(1, 10), b"x" * 200), ()))

        session.rollback()
        world.checkpoint()
        world.checkpoint()

        assert pages_of(world.reservoir) == {}
        assert [key for key in objects.snapshot() if key.startswith("data/")] == []
        world.close()


def test_a_checkpoint_that_fails_behind_its_pages_keeps_them_for_the_next():
    """Whatever ends a checkpoint after its pages were gathered, the next one has them."""
    objects = SimObjects()
    world = World(objects)
    reservoir = world.open()
    _fail_a_stranger_s_upload(objects, reservoir)
    with reservoir.session() as session:
        session.write(1, b"small")
        session.commit()

    with pytest.raises(StrandlineError):
        reservoir.checkpoint()
    with pytest.raises(Invalid):
        reservoir.checkpoint(bytes(META_BYTES_MAX + 1))
    objects.heal()
    with reservoir.session() as session:
        session.write(2, b"later")
        session.commit()
    reservoir.checkpoint()
    world.close()

    with opened(objects) as found:
        assert pages_of(found) == {1: b"small", 2: b"later"}


def _fail_a_stranger_s_upload(objects: SimObjects, reservoir: Reservoir) -> None:
    """A file of a session that never commits waits, and cannot be stored."""
    _fail_uploads(objects, 1)
    stranger = reservoir.session()
    for page in range(3, 6):
        stranger.write(page, b"s" * 150)


def test_an_opening_that_fails_lets_go_of_its_cache():
    """Its last question is for a file that the list does not show."""
    objects, disk = SimObjects(), SimDisk()
    with opened(objects) as reservoir:
        with reservoir.session() as session:
            session.write(1, b"x" * 400)
            session.commit()
        reservoir.checkpoint()
    objects.delete([key for key in objects.snapshot() if key.startswith("data/")])
    objects.fail("head")

    with pytest.raises(ObjectStoreUnreachable):
        opened(objects, disk=disk, cache_folder=CACHE)

    with opened(objects, disk=disk, cache_folder=CACHE) as found:
        assert len(found.recovered.missing) == 1
