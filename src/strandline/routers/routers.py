"""The routers of a store: put, get, list, delete, and the job that forwards records.

New records of the sources wake the job; it also runs every ``TICK_S``. In a round every router
appends one batch, then all are waited for: destinations that sync share a sync. Rounds follow each
other until no router has records left. While a server under pressure defers routers there is one
round every ``DEFERRED_S``, so that they never stop.

Positions are stored about once a second, after a sync: a stored position never exceeds what is
durable in the destination (``routers/forwarder.py`` describes the consequences).

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
    RouterCycle,
    RouterFanIn,
    StoreFailed,
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
    define_router,
)
from strandline.routers.fan_out import describe_excess, excess_of
from strandline.routers.forwarder import Forwarder, ForwardStep, RouterEnds, check_dest
from strandline.routers.hop_count import HopCounts
from strandline.routers.router_graph import find_cycle, topics_in_cycles
from strandline.routers.router_store import TOPIC, RouterStore, RouterTopics, StoredRouter

TICK_S = 0.05
DEFERRED_S = 0.25
"""Seconds between rounds while a server under pressure defers routers."""
_SAVE_S = 1.0
_ROUNDS_MAX = 256


class RouterStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Definition and position of a router at one time."""

    router: Router
    cursor: int
    """The seq of the source up to which the router has read."""
    lag: int
    """Number of seqs of the source after the cursor."""
    forwarded_total: int
    held: str
    """The reason why it is held, empty when it is not."""


class PutRouter(NamedTuple):
    """Result of a ``put``."""

    router: Router
    created: bool


RouterNames: TypeAlias = list[str]
RouterListing: TypeAlias = list[RouterStatistics]
"""Aliases, because ``list`` is a method inside the class."""


class Routers:
    """The routers of one store. Safe from many threads."""

    def __init__(
        self,
        topics: RouterTopics,
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
        self._store = RouterStore(topics)
        self._lock = threading.RLock()
        self._forwarders: dict[str, Forwarder] = {}
        self._unreadable: OSError | StrandlineError | None = None
        self._hops = HopCounts()
        self._excess: set[str] = set()
        """Stored routers that exceed ``limits.router_copies_max``: held until they fit."""
        self._saved_at_s = clock.monotonic()
        self.kick = threading.Event()
        self.deferred = False
        """Set by a server under pressure: the job runs less often, without losses."""
        self._round_at_s = clock.monotonic()

    def load(self) -> None:
        """Load the stored routers; delete those whose topics were deleted.

        Unreadable definitions hold all routers, and are not changed: the store opens, and the job
        tries again. An unreadable source only holds its own router.
        """
        with self._lock:
            try:
                stored = self._store.load()
            except StoreFailed:
                raise
            except (OSError, StrandlineError) as error:
                self._unreadable = error
                return
            self._unreadable = None
            deleted = []
            for name, kept in stored.items():
                ends = self._ends_of(kept)
                if ends is None:
                    deleted.append(name)
                else:
                    self._forwarders[name] = Forwarder(kept, ends, self._limits, self.kick)
                    self._forwarders[name].locate()
            self._store.remove(deleted)
            self._note_circles()
            self._hold_excess()

    def put(self, name: str, **options: object) -> PutRouter:
        """Create or change a router; ``source`` and ``dest`` are required, see ``Router``."""
        self._check_writable()
        router = define_router(name, options)
        check_dest(router.dest)
        with self._lock:
            known = self._forwarders.get(name)
            if known is None and len(self._forwarders) >= ROUTERS_MAX:
                raise TooLarge(f"a store has at most {ROUTERS_MAX} routers: delete one first")
            source = self._topics.existing_topic(router.source)
            self._check_shape(router)
            dest = self._dest_of(router, source)
            if known is None or known.kept.router != router:
                self._install(router, known, source, dest)
            return PutRouter(router, known is None)

    @property
    def count(self) -> int:
        """Number of routers."""
        return len(self._forwarders)

    def get(self, name: str) -> RouterStatistics:
        """Definition and position of a router."""
        if self._readonly:
            return self._stored(name)
        forwarder = self._forwarders.get(name)
        if forwarder is None:
            self._check_readable()
            raise UnknownRouter(name)
        return _statistics(forwarder)

    def list(
        self,
        prefix: str = "",
        *,
        source: str | None = None,
        dest: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> RouterListing:
        """Routers in order of their names, filtered by topics, after a name."""
        names = sorted(self._store.load() if self._readonly else list(self._forwarders))
        routers: RouterListing = []
        for name in names:
            if not name.startswith(prefix) or name <= after:
                continue
            try:
                statistics = self.get(name)
            except UnknownRouter:
                continue  # deleted meanwhile
            router = statistics.router
            if source in (None, router.source) and dest in (None, router.dest):
                routers.append(statistics)
            if limit is not None and len(routers) >= limit:
                break
        return routers

    def delete(self, name: str) -> bool:
        """Delete a router; its copies stay. False when it does not exist."""
        self._check_writable()
        with self._lock:
            if name not in self._forwarders:
                return False
            self._remove([name])
            return True

    def of_topic(self, topic: str) -> RouterNames:
        """The names of the routers with this source or dest."""
        forwarders = list(self._forwarders.items())
        return sorted(
            name
            for name, forwarder in forwarders
            if topic in (forwarder.kept.router.source, forwarder.kept.router.dest)
        )

    def delete_of_topic(self, topic: str) -> RouterNames:
        """Delete the routers of a deleted topic; return their names."""
        with self._lock:
            names = self.of_topic(topic)
            self._remove(names)
            return names

    def run_job(self) -> None:
        """Run the job: forward all records, or one batch of each router while deferred."""
        if not self.deferred:
            self.run_once()
        elif self._clock.monotonic() - self._round_at_s >= DEFERRED_S:
            self.run_once(rounds_max=1)

    def run_once(self, rounds_max: int = _ROUNDS_MAX) -> int:
        """Forward until no router has records left; return the number of forwarded records."""
        forwarded = 0
        self._round_at_s = self._clock.monotonic()
        for _ in range(rounds_max):
            with self._lock:
                moved, count = self._round()
            forwarded += count
            if not moved:
                break
        else:
            self.kick.set()  # release the lock for others, or for a close, and run again
        if self._clock.monotonic() - self._saved_at_s >= _SAVE_S:
            with self._lock:
                self.save()
                if self._unreadable is not None:
                    self.load()
                if self._forwarders:
                    self._store.rewrite_if_large(
                        [each.newest for each in self._forwarders.values()]
                    )
        return forwarded

    def save(self) -> None:
        """Store the positions of all routers."""
        with self._lock:
            self._saved_at_s = self._clock.monotonic()
            moved = [each for each in self._forwarders.values() if each.cursor != each.kept.cursor]
            if not moved:
                return
            positions = [each.newest for each in moved]
            _sync_dests(moved)
            self._store.put_positions(positions)
            for forwarder, kept in zip(moved, positions, strict=True):
                forwarder.kept = kept

    def close(self) -> None:
        """Store the positions a last time; a failing log does not prevent the close."""
        if not self._readonly:
            with contextlib.suppress(OSError, StrandlineError):
                self.save()

    def problems(self) -> RouterNames:
        """The held routers, with reasons."""
        all_held = f"all routers are held, topic {TOPIC!r} cannot be read: {self._unreadable}"
        return [all_held] * (self._unreadable is not None) + [
            f"router {name!r} is held: {forwarder.held_reason}"
            for name, forwarder in list(self._forwarders.items())
            if forwarder.held_reason
        ]

    def _round(self) -> tuple[bool, int]:
        """Forward one batch of every router; return whether any moved, and a count."""
        steps: list[ForwardStep] = []
        failure: OSError | StrandlineError | None = None
        for name, forwarder in list(self._forwarders.items()):
            if name in self._excess:
                continue
            forwarder.notify_on_next()
            try:
                step = forwarder.step(self._hops)
            except UnknownTopic:
                continue  # the topic is being deleted, and the router with it
            except StoreFailed:
                raise
            except (OSError, StrandlineError) as error:
                forwarder.held_reason = str(error)
                failure = failure or error  # damage of one topic does not stop the others
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
            forwarders = self._forwarders.values()
            cursors = [each.cursor for each in forwarders if each.kept.router.source == topic]
            self._hops.drop_upto(topic, min(cursors, default=0))

    def _check_shape(self, router: Router) -> None:
        others = [each.kept.router for each in self._forwarders.values()]
        for other in others:
            is_same = other.name == router.name
            if not is_same and other.dest == router.dest and other.source != router.source:
                raise RouterFanIn(router.dest, other.name, other.source)
        if not router.allow_cycle:
            cycle = find_cycle(others, router)
            if cycle is not None:
                raise RouterCycle(cycle)
        active = [other for other in others if other.name not in self._excess]
        problem = describe_excess(active, router, self._limits.router_copies_max)
        if problem is not None:
            raise Conflict(problem)

    def _dest_of(self, router: Router, source: Topic) -> Topic:
        try:
            return self._topics.existing_topic(router.dest)
        except UnknownTopic:
            if not router.create_dest:
                raise
        return self._topics.topic(router.dest, durability=source.config.durability)

    def _install(self, router: Router, known: Forwarder | None, source: Topic, dest: Topic) -> None:
        ids = source.identity[0], dest.identity[0]
        if known is not None and (known.kept.source_id, known.kept.dest_id) == ids:
            kept = msgspec.structs.replace(known.newest, router=router)
        else:
            kept = StoredRouter(
                router=router,
                id=self._random_id().hex(),
                source_id=ids[0],
                dest_id=ids[1],
                cursor=0 if router.start == "earliest" else source.head_seq,
            )
        # The router is stored with a position, and refers to these topics: they must be durable.
        for topic in (source, dest):
            topic.sync()
        self._store.put(kept)
        ends = self._ends_of(kept)
        if ends is not None:
            self._forwarders[router.name] = Forwarder(kept, ends, self._limits, self.kick)
            self._forwarders[router.name].locate()
        self._note_circles()
        self._release_excess()
        self.kick.set()

    def _ends_of(self, kept: StoredRouter) -> RouterEnds | None:
        catalog = self._catalog()
        source, dest = catalog.by_id(kept.source_id), catalog.by_id(kept.dest_id)
        if source is None or dest is None:
            return None
        return RouterEnds(
            self._topics.existing_topic(source.name),
            source,
            self._topics.existing_topic(dest.name),
            dest,
            catalog.shard_of(dest),
        )

    def _remove(self, names: RouterNames) -> None:
        self._store.remove(names)
        for name in names:
            del self._forwarders[name]
        self._note_circles()
        self._release_excess()

    def _note_circles(self) -> None:
        self._hops.circular = topics_in_cycles(x.kept.router for x in self._forwarders.values())

    def _hold_excess(self) -> None:
        """Hold stored routers that exceed the bound of copies, which may have been reduced."""
        copies_max = self._limits.router_copies_max
        previous = self._excess
        self._excess = excess_of([x.kept.router for x in self._forwarders.values()], copies_max)
        for name in self._excess:
            self._forwarders[name].held_reason = (
                f"one record could become more than {copies_max} copies "
                "(limits.router_copies_max): raise the limit, or delete routers"
            )
        for name in previous - self._excess:
            if name in self._forwarders:
                self._forwarders[name].held_reason = ""

    def _release_excess(self) -> None:
        """Release routers that were held by the bound and are within it now."""
        if self._excess:
            self._hold_excess()
            self.kick.set()

    def _stored(self, name: str) -> RouterStatistics:
        kept = self._store.load().get(name)
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


def _sync_dests(forwarders: list[Forwarder]) -> None:
    """Sync the forwarded records, before their positions are stored."""
    for ends in {each.ends.dest_shard.number: each.ends for each in forwarders}.values():
        ends.dest.sync()


def _statistics(forwarder: Forwarder) -> RouterStatistics:
    return RouterStatistics(
        router=forwarder.kept.router,
        cursor=forwarder.cursor,
        lag=forwarder.lag,
        forwarded_total=forwarder.forwarded_total,
        held=forwarder.held_reason,
    )
