"""All views of a store: found or made, saved together, thrown away and folded again.

They share one reservoir, in the folder ``views`` of the store or under ``views.url``. It is opened
when the first view is asked for. Pages:

    1                        the catalogue: every view with its space and position
                             (saved_views_index.py)
    space << 32 | n          pages of a view, which has the spaces from its own on (views/view.py)

A save hands over the changed pages of each view, one view after the other, then the catalogue, and
makes all of it durable as one version. What it says of a view is what its pages are: both are
committed under one lock.

A state that was folded elsewhere comes in the same way, into spaces of its own; the view is pointed
at it when all of it is there (``adopt``).

Saved state is only ever a shortcut. It is not used, and the view folded again from the log, when

- the topic is another one, or has lost records that were folded in;
- the reservoir had to fall back to an older version: records may have been let go since then;
- its pages cannot be read. When no version of the reservoir can, it is set aside.
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
from strandline.views.saved_views_index import Catalogue
from strandline.views.view import SPACES, Depot, FilesLost, Fold, World
from strandline.views.view_runner import Host, Saved, fits, strangers_of

Pages = tuple[Sequence[int], Sequence[bytes]]
"""Some pages: their numbers, and their bytes."""


class Facade(Protocol):
    """What users see of a view."""

    def maintain(self) -> None:
        """Work that nobody waits for, such as letting records go; after every save."""
        ...


class ViewMaker(NamedTuple):
    """What a view is made of."""

    kind: str
    share: str
    config: bytes
    topics: Sequence[Topic]
    fold: Callable[[World], Fold]

    @property
    def key(self) -> str:
        return key_of(self.kind, self.topics[0])

    def strangers(self, source: int) -> tuple[bytes, ...]:
        """How records begin that another view of the same topic has written."""
        return strangers_of(self.kind, self.topics[source].config.views)

    def empty(self, space: int) -> Saved:
        """A view that has seen nothing."""
        return Saved(
            space=space,
            config=self.config,
            topics=[topic.identity for topic in self.topics],
            applied=[0 for _ in self.topics],
        )


def key_of(kind: str, topic: Topic) -> str:
    return saved_views_index.key_of(kind, topic.identity[0])


class Shelf:
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
        depot: Callable[..., Depot],
    ) -> None:
        self.budget = Budget(settings.memory_bytes)
        self._complaints: list[str] = []
        self._lost: dict[str, str] = {}
        """Views whose files are not in the lake, by key, and what is wrong."""
        self._folder = folder
        self._damaged = damaged
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._store_id = store_id
        self._readonly = readonly
        self._is_alive = is_alive
        self._depot = depot
        self._saving = threading.RLock()
        self._adopting = threading.Lock()
        self._reservoir: Reservoir | None = None
        self._saved: dict[str, Saved] = {}
        self._next_space = SPACES
        self._hosts: dict[str, Host[Any]] = {}
        self._facades: dict[str, Any] = {}
        self._saved_at = clock.monotonic()
        self._unsaved = False
        """Whether something is committed that no version has: after a failure for one."""

    @property
    def complaints(self) -> list[str]:
        """What health reports of the views."""
        return [*self._complaints, *self._lost.values()]

    def facade(self, view: ViewMaker, make_facade: Callable[[Host[Any]], Any]) -> Any:
        """The view of these topics: the one that is in use, or as it was saved, or a new one."""
        found = self._facades.get(view.key)  # without the lock, which a save may hold for long
        if found is not None:
            return found
        with self._saving:
            found = self._facades.get(view.key)
            if found is None:
                host = self._host(view)
                self._hosts[view.key] = host
                found = self._facades[view.key] = make_facade(host)
            return found

    def host(self, kind: str, topic: Topic) -> Host[Any]:
        """The view of a kind that a topic has; NotFound when it is not in use."""
        found = self._hosts.get(key_of(kind, topic))
        if found is None:
            raise NotFound(f"topic {topic.name!r} has no {kind} view in use: open it first")
        return found

    def saved_position(self, view: ViewMaker) -> int:
        """How far of its first topic what was saved goes, 0 when nothing was or it does not fit."""
        with self._saving:
            self._open()
            saved = self._saved.get(view.key)
            return saved.applied[0] if saved and fits(saved, view.config, view.topics) else 0

    def rebuild(self, view: ViewMaker) -> None:
        """Throw a view's state away, and fold the log again, with the options that it has now."""
        with self._saving:
            host = self._hosts[view.key]
            space = host.saved.space
            make = partial(view.fold, host.world)
            host.begin_again(view.empty(space), self._pages(space), make)
            self._saved.pop(view.key, None)
            self._unsaved = True

    def discard_saved(self, view: ViewMaker) -> None:
        """Delete the saved state of a view that is not in use: its next use folds the log again."""
        with self._saving:
            saved = self._saved.pop(view.key, None)
            if saved is not None:
                self._delete_pages(saved.space)
            self._lost.pop(view.key, None)

    def reload(self, view: ViewMaker) -> None:
        """Load a view as it was saved, with the options that it has now."""
        with self._saving:
            host = self._hosts[view.key]
            host.begin_again(host.saved, (), partial(view.fold, host.world))

    def adopt(self, view: ViewMaker, found: Saved, pages: Iterable[Pages]) -> None:
        """Put a state that was folded elsewhere in the place of a view's own, for good.

        Its pages are numbered as in the space 0 of a view. The view can be used while they are
        written; then it waits until the records that came since are folded in. When anything is
        amiss the view stays as it was.
        """
        with self._adopting:
            if not fits(found, view.config, view.topics):
                raise Conflict(
                    f"what was folded for the {view.kind} view of {view.topics[0].name!r} is of "
                    "another topic, of other options, or of records that are lost: rebuild again"
                )
            space, reservoir = self._new_space()
            with reservoir.session() as session:
                for page_ids, data in pages:
                    session.write_many([page_id + (space << 32) for page_id in page_ids], data)
                session.commit()
            with self._saving:
                name = view.topics[0].name
                self._take_over(view, msgspec.structs.replace(found, space=space, name=name))
                self.save()

    def save(self) -> None:
        """Make the views durable as they are now: the log before is not needed to open them."""
        with self._saving:
            if self._reservoir is None or self._readonly:
                return
            self._delete_dropped()
            for key, host in list(self._hosts.items()):
                saved = host.save()
                if saved is not None:
                    self._saved[key] = saved
                    self._unsaved = True
            if self._unsaved:
                self._write_catalogue()
                self._reservoir.checkpoint()
                self._unsaved = False
            for host in self._hosts.values():
                host.secured = list(host.saved.applied)
            self._saved_at = self._clock.monotonic()

    def run_once(self) -> None:
        """Save when it is due, then let views do their own work: the job's turn."""
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
            _each(host.turn for host in hosts if host.turn is not None)

    def save_and_maintain(self) -> None:
        self.save()
        _each(facade.maintain for facade in list(self._facades.values()))

    def close(self) -> None:
        """Save what is in use, and let go of everything."""
        with self._saving:
            # What cannot be saved now is folded from the log at the next opening.
            with contextlib.suppress(StrandlineError, OSError):
                self.save()
            self.abandon()

    def abandon(self) -> None:
        """Let go of everything without saving."""
        for host in self._hosts.values():
            self._end(host)
        self._hosts.clear()
        self._facades.clear()
        if self._reservoir is not None:
            self._reservoir.close()
            self._reservoir = None

    def _host(self, view: ViewMaker) -> Host[Any]:
        reservoir = self._open()
        saved = self._saved.get(view.key)
        if saved is None:
            saved = view.empty(self._next_space)
            self._next_space += SPACES
        elif not fits(saved, view.config, view.topics):
            self._complain(view, "its topic or its options are not what was folded in")
            saved = self._emptied(view, saved.space)
        world = self._world(view)
        try:
            return self._loaded(view, world, reservoir.session(), saved)
        except BaseException:
            _close_spill(world)
            raise

    def _loaded(self, view: ViewMaker, world: World, session: Session, saved: Saved) -> Host[Any]:
        make = partial(view.fold, world)
        try:
            return Host(view.kind, view.topics, make, session, world, saved)
        except FilesLost as error:
            session.rollback()
            self._lost[view.key] = str(error)
            raise
        except (Corrupt, NotFound) as error:
            self._complain(view, str(error))
            session.rollback()
            saved = self._emptied(view, saved.space)
            return Host(view.kind, view.topics, make, session, world, saved)

    def _world(self, view: ViewMaker) -> World:
        share = self.budget.share(view.share)
        alike = sum(1 for host in self._hosts.values() if host.kind == view.kind)

        def fetch(source: int, seqs: Sequence[int]) -> list[Record]:
            found = view.topics[source].pick(seqs).records
            if len(found) < 2 or all(a < b for a, b in pairwise(seqs)):
                return found
            by_seq = {record.seq: record for record in found}
            return [by_seq[seq] for seq in seqs if seq in by_seq]

        topic, cache = view.topics[0], self.budget.share("cache")
        depot = self._depot(topic.name, topic.identity, cache=cache)
        if self._readonly:  # there is no place where pages could go
            return World(self._clock, share, fetch, None, 1 << 62, depot)
        spill = Spill(f"{self._folder}-spill/{view.key}", disk=self._disk)
        ram_bytes = max(MIB, share.limit // 4 // (alike + 1))
        return World(self._clock, share, fetch, spill, ram_bytes, depot)

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
            self._read_catalogue(reservoir)
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
                raise  # others may know how to mend it; here it is not deleted
            self._complaints.append(f"views are folded again: {error}")
            if self._readonly:
                return self._reservoir_at("memory://", settings)
        aside = f"{self._damaged}/views-{self._clock.now_us()}"
        self._disk.make_dirs(self._damaged)
        self._disk.rename(self._folder, aside)
        self._disk.sync_dir(self._damaged)
        return self._reservoir_at(self._folder, settings)

    def _reservoir_at(self, place: str, settings: ReservoirSettings) -> Reservoir:
        in_memory = place == "memory://"
        # The cache is its writer's alone: who only reads would keep the writer out, or be kept out.
        cached = bool(self._settings.url) and not self._readonly
        objects = open_objects(place, settings=settings.objects, disk=self._disk)
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

    def _read_catalogue(self, reservoir: Reservoir) -> None:
        place = self._settings.url or self._folder
        found = saved_views_index.read(reservoir, self._store_id, place)
        if found is None:
            return
        self._next_space = found.next_space
        recovered = reservoir.recovered
        if recovered.passed_over and not self._readonly:
            self._complaints.append(
                f"views are folded again: {recovered.passed_over[0]}, and older state may lack "
                "what has left the log"
            )
            reservoir.reset()
        elif not recovered.passed_over:
            self._saved = found.views

    def _write_catalogue(self) -> None:
        assert self._reservoir is not None
        saved_views_index.write(
            self._reservoir,
            Catalogue(store_id=self._store_id, next_space=self._next_space, views=self._saved),
        )

    def forget_dropped(self) -> None:
        """End views whose topic was deleted."""
        for key, host in list(self._hosts.items()):
            if not all(self._is_alive(topic.identity[0]) for topic in host.topics):
                self._facades.pop(key, None)
                self._hosts.pop(key, None)
                if host.when_dropped is not None:
                    host.when_dropped()
                self._end(host)

    def _end(self, host: Host[Any]) -> None:
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
        """A space that no version of the reservoir gives to another view."""
        with self._saving:
            reservoir = self._open()
            used = {host.saved.space for host in self._hosts.values()}
            used.update(saved.space for saved in self._saved.values())
            for space in range(SPACES, self._next_space, SPACES):
                if space not in used and self._pages(space):
                    self._delete_pages(space)  # of an adoption that a crash has ended
            # A version that has the pages has this number, too: ``save`` writes the catalogue.
            space, self._next_space = self._next_space, self._next_space + SPACES
            return space, reservoir

    def _take_over(self, view: ViewMaker, adopted: Saved) -> None:
        host = self._hosts.get(view.key)
        before = self._saved.get(view.key)
        if host is not None:
            try:
                before = host.adopt(adopted)
            except BaseException as error:
                self._delete_pages(adopted.space)
                if isinstance(error, Corrupt):
                    raise Conflict(
                        f"what came since the {view.kind} view of {host.name!r} was folded cannot "
                        f"be folded in any more ({error}): rebuild it again"
                    ) from error
                raise
        self._saved[view.key] = adopted
        if before is not None:
            self._delete_pages(before.space)
        self._unsaved = True

    def _emptied(self, view: ViewMaker, space: int) -> Saved:
        if not self._readonly:
            self._delete_pages(space)
            return view.empty(space)
        self._next_space += SPACES  # pages that nobody has written
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

    def _complain(self, view: ViewMaker, reason: str) -> None:
        name = view.topics[0].name
        self._complaints.append(f"the {view.kind} view of {name!r} is folded again: {reason}")


def _close_spill(world: World) -> None:
    if world.spill is not None:
        with contextlib.suppress(StrandlineError, OSError):
            world.spill.close()


def _each(works: Iterable[Callable[[], None]]) -> None:
    """Do all of it, though one part may fail: what fails first is told at the end."""
    failures: list[StrandlineError | OSError] = []
    for work in works:
        try:
            work()
        except (StrandlineError, OSError) as error:
            failures.append(error)
    if failures:
        raise failures[0]
