"""Promise: the versions that are kept can be recovered, each whole, at every moment of the work.

Old files, old checkpoints and what dead writers left are deleted when none of them needs it, and
not one request before; so also when the process dies between two requests.
"""

from __future__ import annotations

import msgspec
import pytest

from strandline.errors import StrandlineError
from strandline.reservoir import object_keys
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.reservoirs import ROUNDS, SETTINGS, Model, World, opened, pages_of

MANY_ROUNDS = ROUNDS * 4


class _Keeper:
    """Before every request recovers the versions that must be there, as another process would."""

    def __init__(self, world: World, keep: int) -> None:
        self._world = world
        self._keep = keep
        self._states: dict[int, Model] = {}
        self.looks = 0
        self.wrong: list[str] = []

    def note(self) -> None:
        """A checkpoint was acknowledged."""
        self._states[self._world.version] = dict(self._world.shown)

    def watch(self) -> None:
        self._world.objects.on_call = self._on_call

    def _on_call(self, operation: str, key: str) -> None:
        stored = self._world.objects.snapshot()
        newest = max((object_keys.version_of(name) or 0 for name in stored), default=0)
        for version in range(newest - self._keep, newest + 1):
            if version in self._states:
                self._look(version, f"before {operation} {key}")

    def _look(self, version: int, when: str) -> None:
        self.looks += 1
        try:
            with opened(self._world.objects.fork(), at=version, readonly=True) as found:
                if pages_of(found) != self._states[version]:
                    self.wrong.append(f"{when}: version {version} is another")
        except StrandlineError as error:
            self.wrong.append(f"{when}: {error!r}")


@pytest.mark.parametrize("interval", [1, 3, 4])
@pytest.mark.parametrize("keep", [0, 1, 2, 5])
def test_every_version_that_is_kept_can_be_recovered_at_every_moment(keep, interval):
    settings = msgspec.structs.replace(SETTINGS, retained_versions=keep, snapshot_interval=interval)
    world = World(SimObjects(), settings=settings)
    keeper = _Keeper(world, keep)
    keeper.watch()
    for number, change in enumerate(MANY_ROUNDS):
        if number % 6 == 0:
            world.close()
            reservoir = world.open()
        with reservoir.session() as session:
            world.write(session, change)
            world.commit(session, change)
        world.checkpoint()
        keeper.note()
    world.close()

    assert keeper.wrong == []
    assert keeper.looks > len(MANY_ROUNDS)


def test_what_nobody_needs_is_deleted():
    """The store does not grow with the number of checkpoints."""
    world = World(SimObjects())
    reservoir = world.open()
    sizes = []
    for change in MANY_ROUNDS:
        with reservoir.session() as session:
            world.write(session, change)
            world.commit(session, change)
        world.checkpoint()
        sizes.append(len(world.objects.snapshot()))
    world.close()

    half = len(sizes) // 2
    assert max(sizes[half:]) <= max(sizes[:half]) + 1


def test_an_older_version_that_is_opened_for_writing_becomes_the_newest():
    """What came between is left behind; whoever opens later finds the older one's pages."""
    world = World(SimObjects(), settings=msgspec.structs.replace(SETTINGS, retained_versions=5))
    world.run(ROUNDS)
    world.close()
    back = world.version - 2

    with opened(world.objects, at=back) as chosen:
        assert chosen.version == world.version + 1
        state = pages_of(chosen)
        assert state == world.states[int(chosen.meta)]
        assert state != world.shown
        chosen.checkpoint(b"1")

    with opened(world.objects) as found:
        assert not found.recovered.passed_over
        assert pages_of(found) == state
