"""Promise: when a request fails nothing is lost, commits and reads go on, and the next checkpoint
makes up for it; a lost reply is no second version."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid, ObjectStoreDenied, ObjectStoreUnreachable
from strandline.reservoir import object_keys
from strandline.reservoir.checkpoint_codec import META_BYTES_MAX
from tests.unit.reservoir.small_reservoir import FULL, World, commit, pages_of

LOST = ("before", "after")


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize(
    ("folder", "data"),
    [
        (object_keys.DATA, FULL),
        (object_keys.CHECKPOINTS, b"small"),
        (object_keys.CHECKPOINTS, FULL),
    ],
)
def test_a_checkpoint_that_failed_is_made_up_for_by_the_next(world, folder, data, how):
    reservoir = world.open()
    world.objects.fail("create", how=how, once=False, key_contains=folder)
    commit(reservoir, {1: data})
    with pytest.raises(ObjectStoreUnreachable):
        reservoir.checkpoint(b"first")
    world.objects.heal()
    commit(reservoir, {2: b"later"})

    reservoir.checkpoint(b"second")

    reopened = world.open()
    assert reopened.meta == b"second"
    assert pages_of(reopened) == {1: data, 2: b"later"}


def test_commits_and_reads_go_on_while_nothing_can_be_stored(world):
    reservoir = world.open()
    world.objects.fail("create", once=False)

    commit(reservoir, {1: FULL, 2: b"two"})
    for _ in range(3):
        with pytest.raises(ObjectStoreUnreachable):
            reservoir.checkpoint()
        commit(reservoir, {2: b"two again", 3: b"three"})

    assert pages_of(reservoir) == {1: FULL, 2: b"two again", 3: b"three"}
    assert reservoir.version == 1


@pytest.mark.parametrize("how", LOST)
def test_a_checkpoint_that_waits_for_its_object_is_created_again_with_the_same_bytes(world, how):
    reservoir = world.open()
    bodies = {}
    commit(reservoir, {1: b"one"})
    world.objects.fail("create", how=how, key_contains=object_keys.CHECKPOINTS)
    with pytest.raises(ObjectStoreUnreachable):
        reservoir.checkpoint(b"first")
    bodies.update(world.objects.snapshot())
    commit(reservoir, {1: b"one again"})

    assert reservoir.checkpoint(b"second") == 3

    for key, stored in bodies.items():
        assert world.objects.snapshot()[key].data == stored.data
    second = world.open(at=2)
    assert (second.meta, pages_of(second)) == (b"first", {1: b"one"})


def test_a_version_is_told_only_when_its_object_is_there(world):
    reservoir = world.open()
    commit(reservoir, {1: b"one"})
    world.objects.fail("create", key_contains=object_keys.CHECKPOINTS)

    with pytest.raises(ObjectStoreUnreachable):
        reservoir.checkpoint(b"first")

    assert (reservoir.version, reservoir.meta) == (1, b"")


def test_pages_for_a_bundle_wait_while_the_file_of_another_session_cannot_be_stored(world):
    reservoir = world.open()
    commit(reservoir, {1: b"one"})
    world.objects.fail("create", once=False, key_contains=object_keys.DATA)
    other = reservoir.session()
    other.write(9, FULL)
    with pytest.raises(ObjectStoreUnreachable):
        reservoir.checkpoint()
    world.objects.heal()
    commit(reservoir, {2: b"two"})

    reservoir.checkpoint()

    assert pages_of(world.open()) == {1: b"one", 2: b"two"}


@pytest.mark.parametrize("meta", [b"m" * (META_BYTES_MAX + 1), "text", None, 7])
def test_a_checkpoint_that_refuses_its_meta_has_done_nothing(world, meta):
    reservoir = world.open()
    commit(reservoir, {1: b"one"})

    with pytest.raises(Invalid):
        reservoir.checkpoint(meta)

    assert reservoir.checkpoint(b"fine") == 2
    assert pages_of(world.open()) == {1: b"one"}


def test_a_checkpoint_carries_the_largest_meta(world):
    reservoir = world.open()

    reservoir.checkpoint(b"m" * META_BYTES_MAX)

    assert world.open().meta == b"m" * META_BYTES_MAX


def test_a_delete_that_fails_costs_no_page_and_is_made_up_for(world):
    reservoir = world.open(snapshot_interval=2, retained_versions=0)
    commit(reservoir, {1: FULL})
    reservoir.checkpoint()
    commit(reservoir, {1: b"small"})
    fault = world.objects.fail("delete", once=False)
    for _ in range(6):
        try:
            reservoir.checkpoint()
        except ObjectStoreUnreachable:
            pass
    assert fault.fired
    assert world.data_keys()
    world.objects.heal()

    reservoir.checkpoint()

    assert not world.data_keys()
    assert pages_of(world.open()) == {1: b"small"}


def test_an_opening_that_got_no_answer_is_repeated(world):
    reservoir = world.open()
    commit(reservoir, {1: b"one"})
    reservoir.checkpoint()

    for operation in ("list", "get_ranges", "create"):
        for how in LOST:
            world.objects.fail(operation, how=how)
            with pytest.raises(ObjectStoreUnreachable):
                world.open()

    assert pages_of(world.open()) == {1: b"one"}


def test_a_store_that_refuses_is_no_damage(world):
    reservoir = world.open()
    commit(reservoir, {1: b"one"})
    reservoir.checkpoint()
    world.objects.denied = True

    with pytest.raises(ObjectStoreDenied):
        world.open()

    world.objects.heal()
    assert world.open().recovered.passed_over == ()


def test_a_commit_that_could_not_send_shows_nothing_and_can_be_repeated():
    world = World(uploads_waiting_max=1)
    reservoir = world.open()
    commit(reservoir, {1: b"o" * 600})
    commit(reservoir, {2: b"t" * 600})
    world.objects.fail("create", once=False, key_contains=object_keys.DATA)
    session = reservoir.session()
    session.write(7, FULL)
    session.write(1, b"one again")
    with pytest.raises(ObjectStoreUnreachable):
        session.commit()
    assert pages_of(reservoir) == {1: b"o" * 600, 2: b"t" * 600}

    world.objects.heal()
    session.commit()

    assert pages_of(reservoir) == {1: b"one again", 2: b"t" * 600, 7: FULL}
