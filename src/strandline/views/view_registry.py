"""Holds all views of a store: opens or creates them, saves them together, and rebuilds them.

The views share one reservoir, in the folder ``views`` of the store or under ``views.url``. It is
opened with the first view. Pages:

    1                        the index (`views/saved_views_index.py`): spaces and positions of views
    space << 32 | n          pages of a view, which has the spaces from its own on (`views/view.py`)

A save writes the changed pages of each view, one view after the other, then the index, and makes
all of it durable as one version. The index entry of a view always matches its pages: both are
committed under one lock.

A state that another process folded is installed in the same way, into spaces of its own; the view
is switched to it when all of its pages are written (``adopt``).

Saved state is only a shortcut. In these cases it is not used, and the view is folded again from the
log:

- the topic is another one, or has lost records that were folded in;
- the reservoir had to fall back to an older version: records may have been released since then;
- its pages cannot be read. If no version of the reservoir can be read, it is quarantined.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import msgspec

from strandline.config.memory_budget import Budget
from strandline.config.settings import MIB, ReservoirSettings, ViewSettings
from strandline.errors import Conflict, Corrupt, NotFound, StrandlineError
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.cloud import open_objects
from strandline.records import Record
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.reservoir import Reservoir
from strandline.reservoir.session import Session
from strandline.views import saved_views_index
from strandline.views.saved_views_index import SavedViewsIndex
from strandline.views.view import SPACES, FilesLost, Fold, FoldContext, ViewStorage
from strandline.views.view_runner import SavedView, ViewRunner, foreign_marks_of, is_current

Pages = tuple[Sequence[int], Sequence[bytes]]
"""Some pages: their numbers and their bytes."""


class Facade(Protocol):
    """The public object of a view."""

    def maintain(self) -> None:
        """Background work, such as releasing records. Runs after every save."""
        ...


class ViewSpec(NamedTuple):
    """What a view is made of."""

    kind: str
    share: str
    config: bytes
    topics: Sequence[Topic]
    fold: Callable[[FoldContext], Fold]

    @property
    def key(self) -> str:
        return key_of(self.kind, self.topics[0])

    def foreign_marks(self, source: int) -> tuple[bytes, ...]:
        """First bytes of the metas of records that other views of the same topic have written."""
        return foreign_marks_of(self.kind, self.topics[source].config.views)

    def empty(self, space: int) -> SavedView:
        """The state of a view before its first record."""
        return SavedView(
            space=space,
            config=self.config,
            topics=[topic.identity for topic in self.topics],
            applied=[0 for _ in self.topics],
        )


def key_of(kind: str, topic: Topic) -> str:
    return saved_views_index.key_of(kind, topic.identity[0])


class ViewRegistry:
    """The views of one store. Safe from many threads."""

    def __init__(
        self,
        folder: str,
        disk: Disk,
        clock: Clock,
        settings: ViewSettings,
        *,
        damaged: str,
        store_id: str,
        readonly: bool,
        is_alive: Callable[[int], bool],
        depot: Callable[..., ViewStorage],
    ) -> None:
        self.budget = Budget(settings.memory_bytes)
        self._problems: list[str] = []
        self._lost: dict[str, str] = {}
        """Errors of views whose files are not in the lake, by key."""
        self._folder = folder
        self._damaged = damaged
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._store_id = store_id
        self._readonly = readonly
        self._is_alive = is_alive
        self._depot = depot
        self._save_lock = threading.RLock()
        self._adopt_lock = threading.Lock()
        self._reservoir: Reservoir | None = None
        self._saved: dict[str, SavedView] = {}
        self._next_space = SPACES
        self._hosts: dict[str, ViewRunner[Any]] = {}
        self._facades: dict[str, Any] = {}
        self._saved_at = clock.monotonic()
        self._unsaved = False
        """Whether something is committed that is not in any version: after a failed save."""

    @property
    def problems(self) -> list[str]:
        """Problems of the views for the health report."""
        return [*self._problems, *self._lost.values()]

    def facade(self, view: ViewSpec, make_facade: Callable[[ViewRunner[Any]], Any]) -> Any:
        """The view of these topics: the open one, one loaded from its saved state, or a new one."""
        facade = self._facades.get(view.key)  # without the lock, which a save may hold for long
        if facade is not None:
            return facade
        with self._save_lock:
            facade = self._facades.get(view.key)
            if facade is None:
                host = self._host(view)
                self._hosts[view.key] = host
                facade = self._facades[view.key] = make_facade(host)
            return facade

    def host(self, kind: str, topic: Topic) -> ViewRunner[Any]:
        """The open view of a kind on a topic. NotFound when it is not open."""
        host = self._hosts.get(key_of(kind, topic))
        if host is None:
            raise NotFound(f"topic {topic.name!r} has no {kind} view in use: open it first")
        return host

    def saved_position(self, view: ViewSpec) -> int:
        """The seq of its first topic that the saved state goes up to; 0 without a valid one."""
        with self._save_lock:
            self._open()
            saved = self._saved.get(view.key)
            return saved.applied[0] if saved and is_current(saved, view.config, view.topics) else 0

    def rebuild(self, view: ViewSpec) -> None:
        """Discard a view's state and fold the log again, with its current options."""
        with self._save_lock:
            host = self._hosts[view.key]
            space = host.saved.space
            make = partial(view.fold, host.world)
            host.refold(view.empty(space), self._pages(space), make)
            self._saved.pop(view.key, None)
            self._unsaved = True

    def discard_saved(self, view: ViewSpec) -> None:
        """Delete the saved state of a view that is not open: its opening folds the log again."""
        with self._save_lock:
            saved = self._saved.pop(view.key, None)
            if saved is not None:
                self._delete_pages(saved.space)
            self._lost.pop(view.key, None)

    def reload(self, view: ViewSpec) -> None:
        """Load a view from its saved state, with its current options."""
        with self._save_lock:
            host = self._hosts[view.key]
            host.refold(host.saved, (), partial(view.fold, host.world))

    def adopt(self, view: ViewSpec, state: SavedView, pages: Iterable[Pages]) -> None:
        """Replace a view's state durably by one that another process folded.

        Its pages are numbered as in the space 0 of a view. The view stays usable while they are
        written; then it blocks until newer records are folded in. After a failure it is unchanged.
        """
        with self._adopt_lock:
            if not is_current(state, view.config, view.topics):
                raise Conflict(
                    f"the state that was folded for the {view.kind} view of "
                    f"{view.topics[0].name!r} is of another topic, of other options, or of "
                    "records that are lost: rebuild again"
                )
            space, reservoir = self._new_space()
            with reservoir.session() as session:
                for page_ids, data in pages:
                    session.write_many([page_id + (space << 32) for page_id in page_ids], data)
                session.commit()
            with self._save_lock:
                name = view.topics[0].name
                self._take_over(view, msgspec.structs.replace(state, space=space, name=name))
                self.save()

    def save(self) -> None:
        """Make the current state of all views durable: opening then reads only the log after it."""
        with self._save_lock:
            if self._reservoir is None or self._readonly:
                return
            self._delete_dropped()
            for key, host in list(self._hosts.items()):
                saved = host.save()
                if saved is not None:
                    self._saved[key] = saved
                    self._unsaved = True
            if self._unsaved:
                self._write_index()
                self._reservoir.checkpoint()
                self._unsaved = False
            for host in self._hosts.values():
                host.secured = list(host.saved.applied)
            self._saved_at = self._clock.monotonic()

    def run_once(self) -> None:
        """Save if a save is due, then run the periodic work of views. One step of the job."""
        self.budget.run_once()
        hosts = list(self._hosts.values())
        for host in hosts:
            if any(a < t.head_seq for a, t in zip(host.applied, host.topics, strict=True)):
                host.catch_up()
        folded = sum(host.folded for host in hosts)
        waited = self._clock.monotonic() - self._saved_at
        if folded >= self._settings.checkpoint_records or (
            folded and waited >= self._settings.checkpoint_interval_s
        ):
            self.save_and_maintain()
        else:
            _each(host.periodic_work for host in hosts if host.periodic_work is not None)

    def save_and_maintain(self) -> None:
        self.save()
        _each(facade.maintain for facade in list(self._facades.values()))

    def close(self) -> None:
        """Save the open views and release all resources."""
        with self._save_lock:
            # What cannot be saved now is folded from the log at the next opening.
            with contextlib.suppress(StrandlineError, OSError):
                self.save()
            self.abandon()

    def abandon(self) -> None:
        """Release all resources without saving."""
        for host in self._hosts.values():
            self._end(host)
        self._hosts.clear()
        self._facades.clear()
        if self._reservoir is not None:
            self._reservoir.close()
            self._reservoir = None

    def _host(self, view: ViewSpec) -> ViewRunner[Any]:
        reservoir = self._open()
        saved = self._saved.get(view.key)
        if saved is None:
            saved = view.empty(self._next_space)
            self._next_space += SPACES
        elif not is_current(saved, view.config, view.topics):
            self._report_problem(view, "its topic or its options are not what was folded in")
            saved = self._reset(view, saved.space)
        world = self._world(view)
        try:
            return self._load(view, world, reservoir.session(), saved)
        except BaseException:
            _close_spill(world)
            raise

    def _load(
        self, view: ViewSpec, world: FoldContext, session: Session, saved: SavedView
    ) -> ViewRunner[Any]:
        make = partial(view.fold, world)
        try:
            return ViewRunner(view.kind, view.topics, make, session, world, saved)
        except FilesLost as error:
            session.rollback()
            self._lost[view.key] = str(error)
            raise
        except (Corrupt, NotFound) as error:
            self._report_problem(view, str(error))
            session.rollback()
            saved = self._reset(view, saved.space)
            return ViewRunner(view.kind, view.topics, make, session, world, saved)

    def _world(self, view: ViewSpec) -> FoldContext:
        share = self.budget.share(view.share)
        same_kind = sum(1 for host in self._hosts.values() if host.kind == view.kind)

        def fetch(source: int, seqs: Sequence[int]) -> list[Record]:
            records = view.topics[source].get_many(seqs).records
            if len(records) < 2 or all(a < b for a, b in pairwise(seqs)):
                return records
            by_seq = {record.seq: record for record in records}
            return [by_seq[seq] for seq in seqs if seq in by_seq]

        topic, cache = view.topics[0], self.budget.share("cache")
        depot = self._depot(topic.name, topic.identity, cache=cache)
        if self._readonly:  # pages cannot be written anywhere
            return FoldContext(self._clock, share, fetch, None, 1 << 62, depot)
        spill = Spill(f"{self._folder}-spill/{view.key}", disk=self._disk)
        ram_bytes = max(MIB, share.limit // 4 // (same_kind + 1))
        return FoldContext(self._clock, share, fetch, spill, ram_bytes, depot)

    def _open(self) -> Reservoir:
        if self._reservoir is not None:
            return self._reservoir
        settings = self._settings.reservoir
        io_bytes = self.budget.share("io").limit
        settings = msgspec.structs.replace(
            settings, file_bytes=min(settings.file_bytes, max(MIB, io_bytes // 4))
        )
        reservoir = self._open_saved(settings)
        try:
            self._read_index(reservoir)
        except BaseException:
            reservoir.close()
            raise
        self._reservoir = reservoir
        return reservoir

    def _open_saved(self, settings: ReservoirSettings) -> Reservoir:
        url = self._settings.url
        try:
            return self._reservoir_at(url or self._folder, settings)
        except NotFound:
            # A read-only opening of a store whose views were never saved: fold them in memory.
            return self._reservoir_at("memory://", settings)
        except Corrupt as error:
            if url and not self._readonly:
                raise  # an operator may be able to repair it; it is not deleted here
            self._problems.append(f"views are folded again: {error}")
            if self._readonly:
                return self._reservoir_at("memory://", settings)
        quarantine = f"{self._damaged}/views-{self._clock.now_us()}"
        self._disk.make_dirs(self._damaged)
        self._disk.rename(self._folder, quarantine)
        self._disk.sync_dir(self._damaged)
        return self._reservoir_at(self._folder, settings)

    def _reservoir_at(self, location: str, settings: ReservoirSettings) -> Reservoir:
        in_memory = location == "memory://"
        # Only the writer uses the cache: a reader would lock the writer out, or be locked out.
        cached = bool(self._settings.url) and not self._readonly
        objects = open_objects(location, settings=settings.objects, disk=self._disk)
        try:
            return Reservoir(
                objects,
                settings=settings,
                readonly=self._readonly and not in_memory,
                cache_folder=f"{self._folder}-cache" if cached else None,
                disk=self._disk,
                clock=self._clock,
            )
        except BaseException:
            objects.close()
            raise

    def _read_index(self, reservoir: Reservoir) -> None:
        location = self._settings.url or self._folder
        index = saved_views_index.read(reservoir, self._store_id, location)
        if index is None:
            return
        self._next_space = index.next_space
        recovered = reservoir.recovered
        if recovered.passed_over and not self._readonly:
            self._problems.append(
                f"views are folded again: {recovered.passed_over[0]}, and older state may lack "
                "records that have left the log"
            )
            reservoir.reset()
        elif not recovered.passed_over:
            self._saved = index.views

    def _write_index(self) -> None:
        assert self._reservoir is not None
        saved_views_index.write(
            self._reservoir,
            SavedViewsIndex(
                store_id=self._store_id, next_space=self._next_space, views=self._saved
            ),
        )

    def forget_dropped(self) -> None:
        """Close views whose topic was deleted."""
        for key, host in list(self._hosts.items()):
            if not all(self._is_alive(topic.identity[0]) for topic in host.topics):
                self._facades.pop(key, None)
                self._hosts.pop(key, None)
                if host.when_dropped is not None:
                    host.when_dropped()
                self._end(host)

    def _end(self, host: ViewRunner[Any]) -> None:
        host.end()
        _close_spill(host.world)

    def _delete_dropped(self) -> None:
        """Delete the pages of views whose topic was deleted."""
        self.forget_dropped()
        dropped = [
            key
            for key, saved in self._saved.items()
            if not all(self._is_alive(topic_id) for topic_id, _ in saved.topics)
        ]
        for key in dropped:
            self._delete_pages(self._saved.pop(key).space)

    def _new_space(self) -> tuple[int, Reservoir]:
        """A space that is not assigned to another view in any version of the reservoir."""
        with self._save_lock:
            reservoir = self._open()
            used = {host.saved.space for host in self._hosts.values()}
            used.update(saved.space for saved in self._saved.values())
            for space in range(SPACES, self._next_space, SPACES):
                if space not in used and self._pages(space):
                    self._delete_pages(space)  # of an adoption that a crash interrupted
            # Every version with these pages also has this number: ``save`` writes the index.
            space, self._next_space = self._next_space, self._next_space + SPACES
            return space, reservoir

    def _take_over(self, view: ViewSpec, adopted: SavedView) -> None:
        host = self._hosts.get(view.key)
        before = self._saved.get(view.key)
        if host is not None:
            try:
                before = host.adopt(adopted)
            except BaseException as error:
                self._delete_pages(adopted.space)
                if isinstance(error, Corrupt):
                    raise Conflict(
                        f"records after the folded state of the {view.kind} view of "
                        f"{host.name!r} cannot be folded in any more ({error}): rebuild it again"
                    ) from error
                raise
        self._saved[view.key] = adopted
        if before is not None:
            self._delete_pages(before.space)
        self._unsaved = True

    def _reset(self, view: ViewSpec, space: int) -> SavedView:
        if not self._readonly:
            self._delete_pages(space)
            return view.empty(space)
        self._next_space += SPACES  # an unused space: its pages were never written
        return view.empty(self._next_space - SPACES)

    def _delete_pages(self, space: int) -> None:
        assert self._reservoir is not None
        with self._reservoir.session() as session:
            for page_id in self._pages(space):
                session.delete(page_id)
            session.commit()
        self._unsaved = True

    def _pages(self, space: int) -> list[int]:
        assert self._reservoir is not None
        return self._reservoir.page_ids(space << 32, (space + SPACES) << 32)

    def _report_problem(self, view: ViewSpec, reason: str) -> None:
        name = view.topics[0].name
        self._problems.append(f"the {view.kind} view of {name!r} is folded again: {reason}")


def _close_spill(world: FoldContext) -> None:
    if world.spill is not None:
        with contextlib.suppress(StrandlineError, OSError):
            world.spill.close()


def _each(works: Iterable[Callable[[], None]]) -> None:
    """Run all of them even if one fails, then raise the first failure."""
    failures: list[StrandlineError | OSError] = []
    for work in works:
        try:
            work()
        except (StrandlineError, OSError) as error:
            failures.append(error)
    if failures:
        raise failures[0]
