"""A reservoir at work, and a model beside it that knows what must be there.

Every checkpoint carries as its meta the number of the state that it was made of; so whoever opens
the reservoir later can tell which state he must find, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from strandline.config.settings import ReservoirSettings
from strandline.errors import StrandlineError
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.reservoir import Reservoir
from strandline.reservoir.session import Session
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

T = TypeVar("T")
Model = dict[int, bytes]
Round = tuple[Model, tuple[int, ...]]
"""Pages that a session writes, and pages that it deletes."""

SETTINGS = ReservoirSettings(
    file_bytes=300, snapshot_interval=3, retained_versions=1, compact_share=0.5, uploads_at_once=1
)
PAGES = range(1, 16)
TRIES = 4
CACHE = "/cache"


def content(page_id: int, salt: int, size: int) -> bytes:
    return (b"%d:%d." % (page_id, salt)).ljust(size, b"#")


def _round(salt: int) -> Round:
    """Bundles and full files in turn, overwrites, and a few deletes."""
    sizes = (20, 90, 150)[salt % 3]
    first = 1 + salt * 3 % 11
    written = {page: content(page, salt, sizes) for page in range(first, first + 4)}
    return written, (1 + salt * 5 % 15,) if salt % 2 else ()


ROUNDS = [_round(salt) for salt in range(7)]


class World:
    """A reservoir and its model. Owned by one thread."""

    def __init__(self, objects: Objects, *, settings: ReservoirSettings = SETTINGS,
                 disk: SimDisk | None = None, cached: bool = False) -> None:  # fmt: skip
        self.objects = objects
        self.settings = settings
        self.disk = disk or SimDisk()
        self.cached = cached
        self.reservoir: Reservoir | None = None
        self.shown: Model = {}
        """What is committed."""
        self.states: list[Model] = [{}]
        """The state of every checkpoint that was begun; its meta is its number here."""
        self.kept = 0
        """The newest state whose checkpoint was acknowledged."""
        self.version = 0
        """The version that was acknowledged with it."""

    def open(self) -> Reservoir:
        self.reservoir = opened(
            self.objects,
            settings=self.settings,
            disk=self.disk,
            cache_folder=CACHE if self.cached else None,
        )
        return self.reservoir

    def write(self, session: Session, change: Round) -> None:
        written, deleted = change
        for page_id, data in written.items():
            self.again(lambda page_id=page_id, data=data: session.write(page_id, data))
        for page_id in deleted:
            session.delete(page_id)

    def commit(self, session: Session, change: Round) -> None:
        self.again(session.commit)
        self.shown = changed(self.shown, change)

    def checkpoint(self) -> None:
        self.states.append(dict(self.shown))
        number = len(self.states) - 1
        assert self.reservoir is not None
        checkpoint = self.reservoir.checkpoint
        self.version = self.again(lambda: checkpoint(b"%d" % number))
        self.kept = number

    def again(self, act: Callable[[], T]) -> T:
        """Do it; a world that dies at the first failure. ``Stubborn`` does not."""
        return act()

    def run(self, rounds: list[Round]) -> None:
        """Open, and write, commit and checkpoint every round; in the middle open again."""
        self.again(self.open)
        for number, change in enumerate(rounds):
            if number == len(rounds) // 2 + 1:
                self.close()
                self.again(self.open)
            assert self.reservoir is not None
            with self.reservoir.session() as session:
                self.write(session, change)
                self.commit(session, change)
            self.check_shown()
            self.checkpoint()
        self.check_shown()

    def check_shown(self) -> None:
        assert self.reservoir is not None
        read = self.reservoir.read
        found = {page: self.again(lambda page=page: read(page)) for page in PAGES}
        assert {page: data for page, data in found.items() if data is not None} == self.shown

    def check_found(self, found: Reservoir) -> None:
        """Whoever opens it finds the last state that was acknowledged, or one begun later."""
        number = int(found.meta or b"0")
        assert number >= self.kept, f"state {self.kept} was acknowledged, {number} is there"
        assert not found.recovered.passed_over
        assert not found.recovered.missing
        assert found.version >= self.version
        assert pages_of(found) == self.states[number]

    def close(self) -> None:
        if self.reservoir is not None:
            self.reservoir.close()
            self.reservoir = None


class Stubborn(World):
    """Repeats what failed; the third time the object store is well again."""

    failures = 0

    def again(self, act: Callable[[], T]) -> T:
        for _ in range(TRIES):
            try:
                return act()
            except StrandlineError:
                self.failures += 1
                if self.failures % 2 == 0:
                    self.objects.heal()
        return act()


def opened(objects: Objects, *, settings: ReservoirSettings = SETTINGS, disk: SimDisk | None = None,
           cache_folder: str | None = None, readonly: bool = False,
           at: int | None = None) -> Reservoir:  # fmt: skip
    return Reservoir(
        objects,
        settings=settings,
        at=at,
        readonly=readonly,
        cache_folder=cache_folder,
        disk=disk or SimDisk(),
        clock=SimClock(),
        start_jobs=False,
    )


def changed(model: Model, change: Round) -> Model:
    written, deleted = change
    return {page: data for page, data in (model | written).items() if page not in deleted}


def pages_of(reservoir: Reservoir) -> Model:
    found = {page: reservoir.read(page) for page in PAGES}
    assert len(reservoir) == sum(data is not None for data in found.values())
    return {page: data for page, data in found.items() if data is not None}
