"""The routers of a store: put, get, list, delete, and the job that forwards.

The job is woken by the sources' records and looks every ``TICK_S`` besides. In a round every router
places one batch, then all are waited for: destinations that sync share a sync. Rounds follow each
other until nobody has anything left. While a server under pressure defers routers there is one
round every ``DEFERRED_S``, so that they never stop.

Positions are stored about once a second, after a sync: a stored position never says more than what
is durable in the destination (``routers/forwarder.py`` says what follows from that).

Lock order: the routers' lock comes before every other lock of the store.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from strandline.config.settings import LimitSettings
from strandline.errors import (
    Conflict,
    Invalid,
    Poisoned,
    RouterCycle,
    RouterFanIn,
    StrandlineError,
    TooLarge,
    Unavailable,
    UnknownRouter,
    UnknownTopic,
)
from strandline.log.catalog import Catalog
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.routers.definition import (
    ROUTERS_MAX,
    Router,
    define,
)
from strandline.routers.fan_out import describe_excess, excess_of
from strandline.routers.forwarder import Ends, Lane, Step, check_dest
from strandline.routers.hop_count import Hops
from strandline.routers.router_graph import find_cycle, topics_in_cycles
from strandline.routers.router_store import TOPIC, Kept, Ledger, Topics

TICK_S = 0.05
DEFERRED_S = 0.25
"""How often routers have a round while a server under pressure defers them."""
_SAVE_S = 1.0
_ROUNDS_MAX = 256


class RouterStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A router at one moment."""

    router: Router
    cursor: int
    """The seq of the source up to which everything was looked at."""
    lag: int
    """How many seqs of the source lie behind the cursor."""
    forwarded_total: int
    held: str
    """Why it cannot go on, empty when it can."""


class Put(NamedTuple):
    """What came of a ``put``."""

    router: Router
    created: bool


Names: TypeAlias = list[str]
Listed: TypeAlias = list[RouterStatistics]
"""Named here: inside the class ``list`` is its method."""


class Routers:
    """The routers of one store. Safe from many threads."""

    def __init__(
        self,
        topics: Topics,
        catalog: Callable[[], Catalog],
        clock: Clock,
        limits: LimitSettings,
        *,
        random_id: Callable[[], bytes],
        readonly: bool,
    ) -> None:
        self._topics = topics
        self._catalog = catalog
        self._clock = clock
        self._limits = limits
        self._random_id = random_id
        self._readonly = readonly
        self._ledger = Ledger(topics)
        self._lock = threading.RLock()
        self._lanes: dict[str, Lane] = {}
        self._unreadable: OSError | StrandlineError | None = None
        self._hops = Hops()
        self._excess: set[str] = set()
        """Stored routers that exceed ``limits.router_copies_max``: held until there is room."""
        self._saved_s = clock.monotonic()
        self.kick = threading.Event()
        self.deferred = False
        """Set by a server under pressure: the job goes slowly, and nothing is lost by that."""
        self._round_s = clock.monotonic()

    def load(self) -> None:
        """Take up the stored routers; those whose topics are gone go, too.

        Definitions that cannot be read hold all routers, and nothing is changed in them: the store
        opens, and the job tries again. A source that cannot be read holds its router alone.
        """
        with self._lock:
            try:
                stored = self._ledger.load()
            except Poisoned:
                raise
            except (OSError, StrandlineError) as error:
                self._unreadable = error
                return
            self._unreadable = None
            gone = []
            for name, kept in stored.items():
                ends = self._ends_of(kept)
                if ends is None:
                    gone.append(name)
                else:
                    self._lanes[name] = Lane(kept, ends, self._limits, self.kick)
                    self._lanes[name].locate()
            self._ledger.remove(gone)
            self._note_circles()
            self._hold_excess()

    def put(self, name: str, **options: object) -> Put:
        """Make a router, or change one: source and dest are needed, see ``Router`` for the rest."""
        self._check_writable()
        router = define(name, options)
        check_dest(router.dest)
        with self._lock:
            known = self._lanes.get(name)
            if known is None and len(self._lanes) >= ROUTERS_MAX:
                raise TooLarge(f"the store has its {ROUTERS_MAX} routers: delete one first")
            source = self._topics.existing_topic(router.source)
            self._check_shape(router)
            dest = self._dest_of(router, source)
            if known is None or known.kept.router != router:
                self._take(router, known, source, dest)
            return Put(router, known is None)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._lanes)

    def get(self, name: str) -> RouterStatistics:
        """A router's definition and numbers."""
        if self._readonly:
            return self._stored(name)
        lane = self._lanes.get(name)
        if lane is None:
            self._check_readable()
            raise UnknownRouter(name)
        return _statistics(lane)

    def list(
        self,
        prefix: str = "",
        *,
        source: str | None = None,
        dest: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> Listed:
        """Routers in order of their names, of these topics, behind a name."""
        names = sorted(self._ledger.load() if self._readonly else list(self._lanes))
        found: Listed = []
        for name in names:
            if not name.startswith(prefix) or name <= after:
                continue
            try:
                statistics = self.get(name)
            except UnknownRouter:
                continue  # deleted meanwhile
            router = statistics.router
            if source in (None, router.source) and dest in (None, router.dest):
                found.append(statistics)
            if limit is not None and len(found) >= limit:
                break
        return found

    def delete(self, name: str) -> bool:
        """Stop forwarding; what was forwarded stays. False when there is no such router."""
        self._check_writable()
        with self._lock:
            if name not in self._lanes:
                return False
            self._remove([name])
            return True

    def of_topic(self, topic: str) -> Names:
        """The names of the routers that a topic is the source or dest of."""
        lanes = list(self._lanes.items())
        return sorted(
            name
            for name, lane in lanes
            if topic in (lane.kept.router.source, lane.kept.router.dest)
        )

    def forget_topic(self, topic: str) -> Names:
        """A topic goes, and with it its routers; their names."""
        with self._lock:
            names = self.of_topic(topic)
            self._remove(names)
            return names

    def run_job(self) -> None:
        """The job's turn: all there is to forward, or one batch of each router now and then."""
        if not self.deferred:
            self.run_once()
        elif self._clock.monotonic() - self._round_s >= DEFERRED_S:
            self.run_once(rounds_max=1)

    def run_once(self, rounds_max: int = _ROUNDS_MAX) -> int:
        """Forward until everybody is up to date; how many records were forwarded."""
        forwarded = 0
        self._round_s = self._clock.monotonic()
        for _ in range(rounds_max):
            with self._lock:
                moved, count = self._round()
            forwarded += count
            if not moved:
                break
        else:
            self.kick.set()  # others want the lock, or the store wants to close
        if self._clock.monotonic() - self._saved_s >= _SAVE_S:
            with self._lock:
                self.save()
                if self._unreadable is not None:
                    self.load()
                if self._lanes:
                    self._ledger.tidy([lane.newest for lane in self._lanes.values()])
        return forwarded

    def save(self) -> None:
        """Store how far everybody has come."""
        with self._lock:
            self._saved_s = self._clock.monotonic()
            moved = [lane for lane in self._lanes.values() if lane.cursor != lane.kept.cursor]
            if not moved:
                return
            positions = [lane.newest for lane in moved]
            _secure(moved)
            self._ledger.note(positions)
            for lane, kept in zip(moved, positions, strict=True):
                lane.kept = kept

    def close(self) -> None:
        """Store the positions a last time; a log that fails stops nobody from closing."""
        if not self._readonly:
            with contextlib.suppress(OSError, StrandlineError):
                self.save()

    def complaints(self) -> Names:
        """Which routers cannot go on, and why."""
        all_held = f"all routers are held, topic {TOPIC!r} cannot be read: {self._unreadable}"
        return [all_held] * (self._unreadable is not None) + [
            f"router {name!r} is held: {lane.held}"
            for name, lane in list(self._lanes.items())
            if lane.held
        ]

    def _round(self) -> tuple[bool, int]:
        """One batch of every router: whether anybody moved, and how many records went."""
        steps: list[Step] = []
        failure: OSError | StrandlineError | None = None
        for name, lane in list(self._lanes.items()):
            if name in self._excess:
                continue
            lane.arm()
            try:
                step = lane.step(self._hops)
            except UnknownTopic:
                continue  # it is being deleted, and the router with it
            except Poisoned:
                raise
            except (OSError, StrandlineError) as error:
                lane.held = str(error)
                failure = failure or error  # the damage of one topic is not the others'
                continue
            if step is not None:
                steps.append(step)
        forwarded = sum(step.finish() for step in steps)
        self._forget_hops()
        if failure is not None:
            raise failure
        return bool(steps), forwarded

    def _forget_hops(self) -> None:
        for topic in self._hops.circular:
            lanes = self._lanes.values()
            cursors = [lane.cursor for lane in lanes if lane.kept.router.source == topic]
            self._hops.forget(topic, min(cursors, default=0))

    def _check_shape(self, router: Router) -> None:
        others = [lane.kept.router for lane in self._lanes.values()]
        for other in others:
            mine = other.name == router.name
            if not mine and other.dest == router.dest and other.source != router.source:
                raise RouterFanIn(router.dest, other.name, other.source)
        if not router.allow_cycle:
            cycle = find_cycle(others, router)
            if cycle is not None:
                raise RouterCycle(cycle)
        at_work = [other for other in others if other.name not in self._excess]
        problem = describe_excess(at_work, router, self._limits.router_copies_max)
        if problem is not None:
            raise Conflict(problem)

    def _dest_of(self, router: Router, source: Topic) -> Topic:
        try:
            return self._topics.existing_topic(router.dest)
        except UnknownTopic:
            if not router.create_dest:
                raise
        return self._topics.topic(router.dest, durability=source.config.durability)

    def _take(self, router: Router, known: Lane | None, source: Topic, dest: Topic) -> None:
        ids = source.identity[0], dest.identity[0]
        if known is not None and (known.kept.source_id, known.kept.dest_id) == ids:
            kept = msgspec.structs.replace(known.newest, router=router)
        else:
            kept = Kept(
                router=router,
                id=self._random_id().hex(),
                source_id=ids[0],
                dest_id=ids[1],
                cursor=0 if router.start == "earliest" else source.head_seq,
            )
        # With it a position is stored, and that there are these topics.
        for topic in (source, dest):
            topic.secure()
        self._ledger.put(kept)
        ends = self._ends_of(kept)
        if ends is not None:
            self._lanes[router.name] = Lane(kept, ends, self._limits, self.kick)
            self._lanes[router.name].locate()
        self._note_circles()
        self._release_excess()
        self.kick.set()

    def _ends_of(self, kept: Kept) -> Ends | None:
        catalog = self._catalog()
        source, dest = catalog.by_id(kept.source_id), catalog.by_id(kept.dest_id)
        if source is None or dest is None:
            return None
        return Ends(
            self._topics.existing_topic(source.name),
            source,
            self._topics.existing_topic(dest.name),
            dest,
            catalog.shard_of(dest),
        )

    def _remove(self, names: Names) -> None:
        self._ledger.remove(names)
        for name in names:
            del self._lanes[name]
        self._note_circles()
        self._release_excess()

    def _note_circles(self) -> None:
        self._hops.circular = topics_in_cycles(lane.kept.router for lane in self._lanes.values())

    def _hold_excess(self) -> None:
        """Hold stored routers that exceed the bound of copies, which may have been lowered."""
        copies_max = self._limits.router_copies_max
        before = self._excess
        self._excess = excess_of([lane.kept.router for lane in self._lanes.values()], copies_max)
        for name in self._excess:
            self._lanes[name].held = (
                f"one record could become more than {copies_max} copies "
                "(limits.router_copies_max): raise the limit, or delete routers"
            )
        for name in before - self._excess:
            if name in self._lanes:
                self._lanes[name].held = ""

    def _release_excess(self) -> None:
        """Let routers go on that were held by the bound and are within it now."""
        if self._excess:
            self._hold_excess()
            self.kick.set()

    def _stored(self, name: str) -> RouterStatistics:
        kept = self._ledger.load().get(name)
        if kept is None:
            raise UnknownRouter(name)
        source = self._catalog().by_id(kept.source_id)
        lag = 0 if source is None else max(0, source.head_seq - kept.cursor)
        return RouterStatistics(
            router=kept.router,
            cursor=kept.cursor,
            lag=lag,
            forwarded_total=kept.forwarded_total,
            held="",
        )

    def _check_writable(self) -> None:
        if self._readonly:
            raise Invalid("the store is open read-only: open it for writing to change it")
        self._check_readable()

    def _check_readable(self) -> None:
        if self._unreadable is not None:
            raise Unavailable(
                f"the routers in topic {TOPIC!r} cannot be read ({self._unreadable}): run "
                "`strandline verify`, repair the store, then retry"
            ) from self._unreadable


def _secure(lanes: list[Lane]) -> None:
    """Make durable what was forwarded, before anybody says that it was."""
    for ends in {lane.ends.dest_shard.number: lane.ends for lane in lanes}.values():
        ends.dest.secure()


def _statistics(lane: Lane) -> RouterStatistics:
    return RouterStatistics(
        router=lane.kept.router,
        cursor=lane.cursor,
        lag=lane.lag,
        forwarded_total=lane.forwarded_total,
        held=lane.held,
    )
