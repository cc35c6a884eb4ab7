"""Promise: of two writers on one reservoir the older stops, and takes nothing with it.

Whoever opens for writing takes over. The one before finds out at his next checkpoint: he is fenced,
and no later call of his changes anything. The other one opens, writes and checkpoints at every
single call of the first one's work, and the other way round; lists that are late, uploads and
creations that arrive late do no harm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import pytest

from strandline.errors import Closed, Fenced, ObjectExists, ObjectStoreUnreachable, StrandlineError
from strandline.reservoir import object_keys
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.reservoirs import (
    ROUNDS,
    SETTINGS,
    World,
    changed,
    opened,
    pages_of,
)

OF_THE_OTHER = {2: b"of the other", 12: b"o" * 200, 13: b"p" * 200}
LASTING = msgspec.structs.replace(SETTINGS, snapshot_interval=50, retained_versions=20)


def _other(objects: SimObjects, seed: int) -> Reservoir:
    return opened(objects, disk=SimDisk(seed=seed))


def _grown() -> World:
    world = World(SimObjects())
    world.run(ROUNDS[:4])
    return world


def _round(world: World, number: int) -> None:
    assert world.reservoir is not None
    with world.reservoir.session() as session:
        world.write(session, ROUNDS[number])
        world.commit(session, ROUNDS[number])
    world.checkpoint()


def _write_as_other(reservoir: Reservoir) -> None:
    with reservoir.session() as session:
        for page, data in OF_THE_OTHER.items():
            session.write(page, data)
        session.commit()
    reservoir.checkpoint(b"99")


class _Intruder:
    """Opens, checks what is there and writes, at one call of a world's work."""

    def __init__(self, world: World, at: int) -> None:
        self._world = world
        self._at = world.objects.calls_total + at
        self._before: dict[int, bytes] = {}
        self.reservoir: Reservoir | None = None
        self.found = 0
        world.objects.on_call = self._on_call

    def _on_call(self, _operation: str, _key: str) -> None:
        objects = self._world.objects
        if objects.calls_total != self._at or self.reservoir is not None:
            return
        objects.on_call = None
        self.reservoir = _other(objects, seed=77)
        self._world.check_found(self.reservoir)
        self.found = self.reservoir.recovered.version
        self._before = pages_of(self.reservoir)
        _write_as_other(self.reservoir)

    def check(self) -> None:
        """All is as he left it."""
        assert self.reservoir is not None
        assert pages_of(self.reservoir) == self._before | OF_THE_OTHER
        self.reservoir.checkpoint(b"100")
        self.reservoir.close()
        with _other(self._world.objects, seed=78) as found:
            assert found.meta == b"100"
            assert not found.recovered.passed_over
            assert not found.recovered.missing
            assert pages_of(found) == self._before | OF_THE_OTHER


@pytest.mark.parametrize("number", range(4, 7))
def test_an_opening_at_any_call_of_a_checkpoint_fences_the_older_writer(number):
    fenced = 0
    for at in range(1, 20):
        world = _grown()
        before = world.version
        intruder = _Intruder(world, at)
        with contextlib.suppress(Fenced):
            _round(world, number)
        if intruder.reservoir is None:
            world.close()
            continue
        fenced += 1

        assert world.version <= intruder.found, "acknowledged, and not seen by who came after"
        assert world.reservoir is not None
        with pytest.raises(Fenced):
            world.reservoir.checkpoint()
        assert world.version in (before, before + 1)
        intruder.check()
        world.close()

    assert fenced


def test_an_opening_at_any_call_of_another_opening_leaves_one_writer():
    """The one who began first ends last, and so is the writer."""
    met = 0
    for at in range(1, 12):
        world = _grown()
        world.close()
        intruder = _Intruder(world, at)
        late = _other(world.objects, seed=5)
        if intruder.reservoir is None:
            late.close()
            continue
        met += 1

        survivors = []
        for each in (late, intruder.reservoir):
            with contextlib.suppress(Fenced):
                each.checkpoint(b"100")
                survivors.append(each)

        assert survivors == [late]
        state = pages_of(survivors[0])
        assert {page: state[page] for page in OF_THE_OTHER} == OF_THE_OTHER
        late.close()
        intruder.reservoir.close()
        with _other(world.objects, seed=6) as found:
            assert pages_of(found) == state

    assert met > 3


def test_a_checkpoint_at_any_call_of_an_opening_is_found_by_it_or_fenced():
    """An older writer ends a checkpoint while another opens."""
    outcomes = set()
    for at in range(1, 12):
        world = _grown()
        world.objects.put(
            object_keys.file_key(object_keys.data_file_id(1, 900)), b"of a writer that died"
        )
        act = _once_at(world.objects, at, lambda world=world: _round(world, 4))
        taker = _other(world.objects, seed=5)
        if not act:
            taker.close()
            world.close()
            break

        outcomes.add(act[0])
        world.check_found(taker)
        state = pages_of(taker)
        assert (state == changed(world.states[4], ROUNDS[4])) == (act[0] == "acknowledged")
        assert world.reservoir is not None
        with pytest.raises(Fenced):
            world.reservoir.checkpoint()
        taker.checkpoint(b"5")
        taker.close()
        world.close()
        with _other(world.objects, seed=6) as found:
            assert pages_of(found) == state

    assert outcomes == {"acknowledged", "fenced"}


def _once_at(objects: SimObjects, at: int, act: Callable[[], None]) -> list[str]:
    """Do something before the nth call from now; how it went."""
    outcome: list[str] = []
    start = objects.calls_total

    def hook(_operation: str, _key: str) -> None:
        if objects.calls_total - start == at and not outcome:
            objects.on_call = None
            try:
                act()
                outcome.append("acknowledged")
            except Fenced:
                outcome.append("fenced")

    objects.on_call = hook
    return outcome


def test_a_fenced_writer_can_do_nothing_any_more():
    world = _grown()
    older = world.reservoir
    assert older is not None
    session = older.session()
    session.write(1, b"too late")
    with _other(world.objects, seed=5) as newer:
        with pytest.raises(Fenced):
            older.checkpoint()
        before = world.objects.snapshot()

        for act in (
            session.commit,
            lambda: session.write(3, b"x"),
            lambda: session.delete(4),
            older.checkpoint,
            older.reset,
            older.clean,
        ):
            with pytest.raises(Fenced):
                act()

        session.close()
        older.close()
        assert world.objects.snapshot() == before
        assert pages_of(newer) == world.shown


def test_an_older_writer_whose_lost_reply_was_a_success_is_still_fenced_at_the_next():
    """The version that he does not know of is there, and whoever took over has it."""
    world = _grown()
    older = world.reservoir
    assert older is not None
    with older.session() as session:
        session.write(1, b"the last word")
        session.commit()
    world.objects.fail("create", how="after", key_contains=object_keys.CHECKPOINTS)
    with pytest.raises(ObjectStoreUnreachable):
        older.checkpoint(b"5")
    world.objects.heal()
    newer = _other(world.objects, seed=5)

    with pytest.raises(Fenced):
        older.checkpoint(b"6")

    assert newer.meta == b"5"
    assert newer.read(1) == b"the last word"
    newer.close()
    world.close()


def test_late_uploads_of_a_fenced_writer_do_no_harm():
    """He goes on sending files; a later opening deletes them, and no others."""
    world = _grown()
    older = world.reservoir
    assert older is not None
    newer = _other(world.objects, seed=5)
    _write_as_other(newer)
    session = older.session()
    for page in range(1, 15):
        session.write(page, b"late" * 50)
    with contextlib.suppress(StrandlineError):
        older.checkpoint()
    world.close()
    state = pages_of(newer)
    newer.close()

    with _other(world.objects, seed=6) as found:
        assert pages_of(found) == state
        assert found.recovered.left_over > 0
        known = found.statistics()
    stored = [key for key in world.objects.snapshot() if key.startswith(object_keys.DATA)]
    assert len(stored) <= known.files + known.garbage_files


def test_a_creation_that_arrives_late_finds_its_name_taken():
    world = _grown()
    older = world.reservoir
    assert older is not None
    late: list[tuple[str, bytes]] = []
    twin = world.objects.fork()
    _round_into(twin, world, late)
    newer = _other(world.objects, seed=5)

    for key, body in late:
        with pytest.raises(ObjectExists):
            world.objects.create(key, body)

    assert late
    assert pages_of(newer) == world.shown
    newer.close()
    world.close()


def _round_into(twin: SimObjects, world: World, late: list[tuple[str, bytes]]) -> None:
    """What the older writer was about to create, taken from a world that is not ours."""
    before = set(twin.snapshot())
    with opened(twin, disk=SimDisk(seed=9)) as ghost:
        ghost.checkpoint()
    name = object_keys.checkpoint_key(world.version + 1)
    late += [(key, stored.data) for key, stored in twin.snapshot().items()
             if key not in before and key == name]  # fmt: skip


@pytest.mark.parametrize("lag", range(1, 9))
def test_a_late_list_hides_nothing_from_a_writer(lag):
    """Names are tried where the list has none: the writer goes on from the newest version."""
    world = World(SimObjects(), settings=LASTING)
    world.run(ROUNDS)
    world.objects.lagging_list = lag

    with opened(world.objects, settings=LASTING, disk=SimDisk(seed=5)) as taker:
        assert int(taker.meta) == world.kept
        assert taker.recovered.version == world.version
        assert taker.recovered.missing == ()
        assert pages_of(taker) == world.shown
        taker.checkpoint(b"99")

    assert world.reservoir is not None
    with pytest.raises(Fenced):
        world.reservoir.checkpoint()
    world.close()
    world.objects.lagging_list = 0
    with opened(world.objects, settings=LASTING) as found:
        assert found.meta == b"99"
        assert pages_of(found) == world.shown


@pytest.mark.parametrize("lag", range(1, 9))
def test_a_late_list_shows_a_reader_an_older_state_that_is_whole(lag):
    world = World(SimObjects(), settings=LASTING)
    world.run(ROUNDS)
    world.objects.lagging_list = lag

    with opened(world.objects, settings=LASTING, readonly=True) as reader:
        assert pages_of(reader) == world.states[int(reader.meta or b"0")]
        assert not reader.recovered.passed_over


def test_a_reader_is_not_disturbed_by_the_versions_that_follow():
    """For as many versions as are kept."""
    world = _grown()
    with opened(world.objects, readonly=True) as reader:
        state = dict(world.shown)
        for number in range(4, 4 + SETTINGS.retained_versions):
            _round(world, number)

            assert pages_of(reader) == state
        with pytest.raises(StrandlineError):
            reader.checkpoint()
        session = reader.session()
        with pytest.raises(StrandlineError):
            session.write(1, b"x")
    world.close()
    with pytest.raises(Closed):
        reader.session()


def test_a_writer_that_sleeps_while_others_work_wakes_up_fenced():
    """Its next name is that with which the next opening began, and that is never free again."""
    objects = SimObjects()
    sleeper = opened(objects, disk=SimDisk(seed=1))
    _write(sleeper, 1, b"late")

    def others_work() -> None:
        with opened(objects, disk=SimDisk(seed=2)) as other:
            for number in range(20):
                _write(other, 2, b"%d" % number)
                other.checkpoint()

    _before_create(objects, others_work)
    with pytest.raises(Fenced):
        sleeper.checkpoint(b"sleeper")

    sleeper.close()
    with opened(objects, disk=SimDisk(seed=3)) as found:
        assert (found.read(1), found.read(2)) == (None, b"19")


def test_an_opening_that_sleeps_between_its_list_and_its_version_begins_again():
    objects = SimObjects()
    first = opened(objects, disk=SimDisk(seed=1))

    def first_works() -> None:
        for number in range(20):
            _write(first, 2, b"%d" % number)
            first.checkpoint()

    _before_create(objects, first_works)
    second = opened(objects, disk=SimDisk(seed=2))
    _write(second, 3, b"second")
    second.checkpoint()

    with pytest.raises(Fenced):
        first.checkpoint()
    with opened(objects, disk=SimDisk(seed=3)) as found:
        assert (found.read(2), found.read(3)) == (b"19", b"second")
    first.close()
    second.close()


def test_a_version_that_was_left_behind_keeps_the_name_of_its_opening():
    objects = SimObjects()
    with opened(objects, disk=SimDisk(seed=1)) as before:
        _write(before, 1, b"before")
        good = before.checkpoint()
    sleeper = opened(objects, disk=SimDisk(seed=2))
    _write(sleeper, 1, b"late")

    def others_go_back() -> None:
        opened(objects, disk=SimDisk(seed=3)).close()
        with opened(objects, disk=SimDisk(seed=4), at=good) as other:
            for number in range(20):
                _write(other, 2, b"%d" % number)
                other.checkpoint()

    _before_create(objects, others_go_back)

    with pytest.raises(Fenced):
        sleeper.checkpoint()
    sleeper.close()


def test_a_reader_whose_listed_versions_are_deleted_meanwhile_looks_again():
    """What a writer has replaced and deleted is no damage."""
    objects = SimObjects()
    writer = opened(objects, disk=SimDisk(seed=1))
    _write(writer, 1, b"first")
    writer.checkpoint()

    def writer_works(operation: str, key: str) -> None:
        del key
        if operation == "get_ranges":
            objects.on_call = None
            for number in range(20):
                _write(writer, 1, b"%d" % number)
                writer.checkpoint()

    objects.on_call = writer_works
    with opened(objects, disk=SimDisk(seed=2), readonly=True) as reader:
        assert reader.recovered.passed_over == ()
        assert (reader.version, reader.read(1)) == (writer.version, b"19")
    writer.close()


def _write(reservoir: Reservoir, page_id: int, data: bytes) -> None:
    with reservoir.session() as session:
        session.write(page_id, data)
        session.commit()


def _before_create(objects: SimObjects, act: Callable[[], None]) -> None:
    """Do something just before the next object is created."""

    def hook(operation: str, key: str) -> None:
        del key
        if operation == "create":
            objects.on_call = None
            act()

    objects.on_call = hook
