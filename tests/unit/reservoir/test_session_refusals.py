"""Promise: what cannot be written is refused by name before anything is changed, and nothing is
written by who may only read or has closed."""

from __future__ import annotations

import pytest

from strandline.errors import Closed, Conflict, Invalid, NotFound, TooLarge
from strandline.reservoir import object_keys
from strandline.reservoir import session as sessions
from strandline.reservoir.data_files import page_compression
from strandline.reservoir.data_files.data_file_codec import PAGE_ID_MAX
from tests.unit.reservoir.small_reservoir import FULL, World, commit, pages_of

NO_IDS = [0, -1, PAGE_ID_MAX + 1, 1 << 64, "1", 1.0, None, True, b"1"]
NO_PAGES = ["text", 5, [1, 2], None, {1: 2}]


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("page_id", NO_IDS, ids=repr)
def test_what_is_no_page_id_is_refused(world, page_id):
    with world.open() as reservoir:
        session = reservoir.session()

        for change in (
            lambda: session.write(page_id, b"data"),
            lambda: session.write_many([1, page_id], [b"one", b"data"]),
            lambda: session.delete(page_id),
        ):
            with pytest.raises(Invalid, match="not a page id"):
                change()

        session.commit()
        assert len(reservoir) == 0


@pytest.mark.parametrize("page_id", [1, PAGE_ID_MAX])
def test_the_first_and_the_last_page_id_can_be_used(world, page_id):
    with world.open() as reservoir:
        commit(reservoir, {page_id: b"data"})
        reservoir.checkpoint()

    assert world.open().read(page_id) == b"data"


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("data", NO_PAGES, ids=repr)
def test_what_is_not_bytes_is_refused_and_the_page_stays_free(world, data, compression):
    with world.open(compression=compression) as reservoir:
        commit(reservoir, {1: b"old"})
        session = reservoir.session()
        session.delete(1)

        for write in (
            lambda: session.write(2, data),
            lambda: session.write_many([3, 1, 4], [b"three", data, b"four"]),
        ):
            with pytest.raises(Invalid, match="bytes"):
                write()

        assert [session.read(page_id) for page_id in (1, 2, 3, 4)] == [None] * 4
        session.rollback()
        commit(reservoir, {1: b"1", 2: b"2", 3: b"3", 4: b"4"})


@pytest.mark.parametrize("data", [bytearray(b"data"), memoryview(b"data")], ids=["array", "view"])
def test_a_page_is_as_it_was_when_it_was_written(world, data):
    with world.open() as reservoir:
        session = reservoir.session()
        session.write(1, data)
        session.write_many([2], [data])

        if isinstance(data, bytearray):
            data[:] = b"else"

        session.commit()
        assert pages_of(reservoir) == {1: b"data", 2: b"data"}


def test_a_page_that_is_too_large_is_refused_and_stays_free(world, monkeypatch):
    for module in (page_compression, sessions):
        monkeypatch.setattr(module, "PAGE_BYTES_MAX", 10)
    with world.open() as reservoir:
        session = reservoir.session()
        session.write(1, b"just right")

        for write in (
            lambda: session.write(2, b"much too large"),
            lambda: session.write_many([3, 2], [b"three", b"much too large"]),
        ):
            with pytest.raises(TooLarge, match="page 2"):
                write()

        commit(reservoir, {2: b"2", 3: b"3"})
        session.commit()
        assert pages_of(reservoir) == {1: b"just right", 2: b"2", 3: b"3"}


def test_write_many_wants_a_page_for_each_id(world):
    with world.open() as reservoir:
        session = reservoir.session()

        with pytest.raises(Invalid, match="one for each"):
            session.write_many([1, 2], [b"one"])

        session.write_many([], [])


def test_pages_of_a_write_many_that_failed_half_way_are_free_after_the_rollback():
    world = World(uploads_waiting_max=1)
    with world.open() as reservoir:
        world.objects.fail("create", once=False, how="denied", key_contains=object_keys.DATA)
        session = reservoir.session()
        with pytest.raises(Exception, match="not allowed"):
            session.write_many(list(range(1, 5000)), [FULL] * 4999)
        world.objects.heal()

        session.rollback()

        with reservoir.session() as other:
            other.write_many([1, 2, 3000, 4999], [b"1", b"2", b"3", b"4"])
            other.commit()
        assert len(reservoir) == 4


@pytest.mark.parametrize("call", ["write", "delete", "read", "commit", "rollback"])
def test_a_closed_session_says_so(world, call):
    with world.open() as reservoir:
        session = reservoir.session()
        session.close()
        session.close()

        with pytest.raises(Closed, match="session is closed"):
            getattr(session, call)(*{"write": (1, b""), "delete": (1,), "read": (1,)}.get(call, ()))


@pytest.mark.parametrize("call", ["session", "checkpoint", "reset", "clean"])
def test_a_closed_reservoir_says_so(world, call):
    reservoir = world.open()
    reservoir.close()
    reservoir.close()

    with pytest.raises(Closed, match="reservoir is closed"):
        getattr(reservoir, call)()


def test_sessions_of_a_closed_reservoir_say_so_and_can_be_closed(world):
    reservoir = world.open()
    session = reservoir.session()
    session.write(1, b"one")
    reservoir.close()

    with pytest.raises(Closed):
        session.commit()
    with pytest.raises(Closed):
        reservoir.read(2)
    with pytest.raises(Closed):
        session.read(2)

    session.close()


def test_who_opens_for_reading_reads_and_changes_nothing(world):
    with world.open() as reservoir:
        commit(reservoir, {1: b"one", 2: FULL})
        version = reservoir.checkpoint(b"meta")
    before = world.objects.snapshot()

    with world.open(readonly=True) as reservoir:
        assert (reservoir.version, reservoir.meta) == (version, b"meta")
        assert pages_of(reservoir) == {1: b"one", 2: FULL}
        session = reservoir.session()
        assert session.read(1) == b"one"
        for change in (
            lambda: (session.write(1, b"1"), session.commit()),
            lambda: session.write(2, FULL),
            reservoir.checkpoint,
            reservoir.reset,
            reservoir.clean,
        ):
            with pytest.raises(Conflict, match="reading only"):
                change()

    assert world.objects.snapshot() == before


def test_there_is_nothing_to_read_where_nothing_was_written(world):
    with pytest.raises(NotFound, match="no reservoir"):
        world.open(readonly=True)

    assert world.objects.snapshot() == {}
