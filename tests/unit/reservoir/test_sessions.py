"""Promise: a session sees its own changes at once, all others see them after its commit, whole; the
last change of a page wins; and what a checkpoint has is there after reopening."""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Conflict
from tests.unit.reservoir.small_reservoir import FILE_BYTES, FULL, World, commit, pages_of


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=[b"small", FULL, b""], ids=["small", "full", "empty"])
def data(request) -> bytes:
    return request.param


def test_a_write_is_seen_by_its_session_at_once_and_by_others_after_the_commit(world, data):
    with world.open() as reservoir:
        session, other = reservoir.session(), reservoir.session()

        session.write(1, data)

        assert (session.read(1), other.read(1), reservoir.read(1)) == (data, None, None)
        session.commit()
        assert (session.read(1), other.read(1), reservoir.read(1)) == (data, data, data)


def test_the_last_write_of_a_page_wins_within_a_session(world, data):
    with world.open() as reservoir:
        session = reservoir.session()

        session.write(1, FULL)
        session.write(1, b"between")
        session.write(1, data)

        assert session.read(1) == data
        session.commit()
        assert reservoir.read(1) == data


def test_the_last_of_several_full_files_with_a_page_wins(world):
    with world.open() as reservoir:
        session = reservoir.session()

        for letter in (b"a", b"b", b"c"):
            session.write(1, letter * FILE_BYTES)
            assert session.read(1) == letter * FILE_BYTES

        session.commit()
        assert reservoir.read(1) == b"c" * FILE_BYTES
        reservoir.checkpoint()
    assert pages_of(world.open()) == {1: b"c" * FILE_BYTES}


def test_the_last_commit_of_a_page_wins(world, data):
    with world.open() as reservoir:
        for earlier in (b"small one", FULL, b"another"):
            commit(reservoir, {1: earlier})

        commit(reservoir, {1: data})

        assert reservoir.read(1) == data
        assert len(reservoir) == 1
        reservoir.checkpoint()
    assert pages_of(world.open()) == {1: data}


def test_a_delete_hides_the_page_from_its_session_at_once(world, data):
    with world.open() as reservoir:
        commit(reservoir, {1: data})
        session = reservoir.session()

        session.delete(1)

        assert (session.read(1), reservoir.read(1)) == (None, data)
        session.commit()
        assert reservoir.read(1) is None
        assert len(reservoir) == 0


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_deleted_page_stays_away_after_reopening(world, data, checkpointed):
    with world.open() as reservoir:
        commit(reservoir, {1: data, 2: b"two"})
        if checkpointed:
            reservoir.checkpoint()
        commit(reservoir, {1: None})
        reservoir.checkpoint()

    assert pages_of(world.open()) == {2: b"two"}


def test_a_page_can_be_written_after_it_was_deleted(world, data):
    with world.open() as reservoir:
        commit(reservoir, {1: b"old"})
        session = reservoir.session()

        session.delete(1)
        session.write(1, data)

        assert session.read(1) == data
        session.commit()
        assert reservoir.read(1) == data


def test_a_page_that_left_in_a_full_file_can_be_deleted_and_written_again(world):
    with world.open() as reservoir:
        session = reservoir.session()
        session.write(1, FULL)
        session.write(2, FULL)

        session.delete(1)
        session.delete(2)
        session.write(2, b"again")

        assert (session.read(1), session.read(2)) == (None, b"again")
        session.commit()
        reservoir.checkpoint()
    assert pages_of(world.open()) == {2: b"again"}


def test_deleting_a_page_that_is_not_there_is_fine(world):
    with world.open() as reservoir:
        commit(reservoir, {1: None})

        assert len(reservoir) == 0


def test_a_rollback_forgets_all_changes_since_the_commit(world, data):
    with world.open() as reservoir:
        commit(reservoir, {1: b"old", 2: b"two"})
        session = reservoir.session()
        session.write(1, data)
        session.write(3, FULL)
        session.delete(2)

        session.rollback()
        session.commit()

        assert pages_of(reservoir) == {1: b"old", 2: b"two"}


def test_leaving_a_session_without_a_commit_forgets_its_changes(world):
    with world.open() as reservoir:
        with reservoir.session() as session:
            session.write(1, b"small")
            session.write(2, FULL)

        assert pages_of(reservoir) == {}


def test_files_of_a_rollback_are_deleted(world):
    with world.open() as reservoir:
        session = reservoir.session()
        session.write(1, FULL)
        session.rollback()

        for _ in range(2):
            reservoir.checkpoint()

        assert world.data_keys() == set()


@pytest.mark.parametrize("change", ["write", "write_many", "delete"])
def test_a_page_with_changes_that_are_not_committed_belongs_to_one_session(world, change):
    with world.open() as reservoir:
        session, other = reservoir.session(), reservoir.session()
        changes = {
            "write": lambda: other.write(1, b"other"),
            "write_many": lambda: other.write_many([2, 1], [b"two", b"other"]),
            "delete": lambda: other.delete(1),
        }
        session.write(1, b"mine")

        with pytest.raises(Conflict, match="page 1"):
            changes[change]()

        other.commit()
        session.commit()
        assert pages_of(reservoir) == {1: b"mine"}


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
@pytest.mark.parametrize("data_of_owner", [b"small", FULL, None])
def test_a_page_is_free_again_after_commit_rollback_and_close(world, how, data_of_owner):
    with world.open() as reservoir:
        session, other = reservoir.session(), reservoir.session()
        if data_of_owner is None:
            session.delete(1)
        else:
            session.write(1, data_of_owner)

        getattr(session, how)()

        other.write(1, b"other")
        other.commit()
        assert reservoir.read(1) == b"other"


def test_a_refused_write_many_claims_none_of_its_pages(world):
    with world.open() as reservoir:
        owner, session, third = reservoir.session(), reservoir.session(), reservoir.session()
        owner.write(3, b"owner")
        with pytest.raises(Conflict):
            session.write_many([1, 2, 3], [b"one", b"two", b"three"])

        third.write_many([1, 2], [b"1", b"2"])

        third.commit()
        assert pages_of(reservoir) == {1: b"1", 2: b"2"}


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_page_has_one_owner_although_another_writes_it_while_many_are_claimed(world, turn):
    refused, turns = [], itertools.count(1)

    class Ids(list):
        """Page ids; when they were gone through so often, another session writes the last."""

        def __iter__(self):
            yield from super().__iter__()
            if next(turns) == turn:
                attempt(lambda: other.write(3, b"other"))

    def attempt(write):
        try:
            write()
        except Conflict as error:
            refused.append(error)

    with world.open() as reservoir:
        session, other = reservoir.session(), reservoir.session()

        attempt(lambda: session.write_many(Ids([1, 2, 3]), [b"1", b"2", b"3"]))

        assert len(refused) == (next(turns) > turn)
        other.commit()
        session.commit()
        assert pages_of(reservoir) in ({3: b"other"}, {1: b"1", 2: b"2", 3: b"3"})


def test_write_many_is_as_many_writes(world, data):
    ids = [5, 1, 9, 1, 7]
    pages = [b"five", b"first", data, b"second", FULL]
    with world.open() as reservoir:
        session = reservoir.session()
        session.write(5, b"old")
        session.delete(9)

        session.write_many(ids, pages)

        session.commit()
        assert pages_of(reservoir) == dict(zip(ids, pages, strict=True))


def test_write_many_fills_files_as_writes_do(world):
    pages = {page_id: b"%03d" % page_id * 33 for page_id in range(1, 100)}
    with world.open() as reservoir:
        with reservoir.session() as session:
            session.write_many(list(pages), list(pages.values()))
            session.commit()
        reservoir.checkpoint()
        stored = world.objects.snapshot()

        assert pages_of(reservoir, range(1, 100)) == pages
        assert all(len(stored[key].data) < 2 * FILE_BYTES + 500 for key in world.data_keys())


def test_leftovers_of_several_sessions_share_one_file(world):
    with world.open() as reservoir:
        sessions = [reservoir.session() for _ in range(5)]
        for number, session in enumerate(sessions, 1):
            session.write(number, b"%d" % number)
            session.write(number + 10, b"%d" % number)
        for session in sessions:
            session.commit()
        before = world.objects.calls["create"]

        reservoir.checkpoint()

        assert world.objects.calls["create"] == before + 1
        assert len({reservoir.place(page_id).file_id for page_id in range(1, 6)}) == 1


def test_what_no_checkpoint_has_is_gone_after_reopening(world, data):
    with world.open() as reservoir:
        commit(reservoir, {1: b"durable"})
        reservoir.checkpoint()
        commit(reservoir, {1: data, 2: data, 3: FULL})
        uncommitted = reservoir.session()
        uncommitted.write(4, FULL)

    reopened = world.open()

    assert pages_of(reopened) == {1: b"durable"}
    assert world.data_keys() == set()


def test_an_uncommitted_change_is_not_in_a_checkpoint(world, data):
    with world.open() as reservoir:
        session = reservoir.session()
        session.write(1, data)
        session.write(2, FULL)

        reservoir.checkpoint()

        assert pages_of(world.open(readonly=True)) == {}
        session.commit()
        reservoir.checkpoint()
    assert pages_of(world.open()) == {1: data, 2: FULL}


def test_a_page_larger_than_a_file_is_a_file_of_its_own(world):
    large = bytes(range(256)) * 40
    with world.open() as reservoir:
        commit(reservoir, {1: large, 2: b"small"})
        reservoir.checkpoint()

    assert pages_of(world.open()) == {1: large, 2: b"small"}


def test_empty_pages_are_pages(world):
    with world.open() as reservoir:
        commit(reservoir, {1: b""})
        before = world.objects.calls["create"]
        reservoir.checkpoint()

        assert world.objects.calls["create"] == before + 1
    assert pages_of(world.open()) == {1: b""}
