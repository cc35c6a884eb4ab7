"""One fold beside its topics: catches up with the log, lets others decide and append.

Whoever asks a view something first brings it up to date, so it shows every record that was
published before: its own writes, and plain appends to the topic. What was appended through the view
waits in memory to be folded in when its turn comes; other records are read from the log.

A decision is made under the lock, when all that was placed is folded in, and its records are
appended only if nothing came between; else it is made again. So a decision and its records are one
step, whoever else writes.

Lock order: a view's lock comes before all locks of topics. Nothing below calls a view.

A topic may have several views. Plain records are for all of them; what one view has written with
more than key and data (``MARKS``) is kept from the others. Such a topic keeps all its records: what
one view no longer needs another may.

What was let go of the log is let go for good. So only records that the saved state has seen are:
a crash must not bring back a state that still needs them.

When a fold fails in the middle (its pages cannot be read), it is thrown away and loaded as it was
saved; the log has the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Generic, NamedTuple, TypeVar

import msgspec
from pyroaring import BitMap64

from strandline.config.view_config import ViewConfigs
from strandline.errors import Closed, Conflict, TopicFull
from strandline.log.append.append import Pending
from strandline.log.topic.topic import Topic
from strandline.records import Appended, Record
from strandline.reservoir.session import Session
from strandline.views.view import MARKS, Draft, Fold, Rows, World

F = TypeVar("F", bound=Fold)

_ROWS_AT_ONCE = 10_000


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A view as it was handed to the reservoir."""

    space: int
    config: bytes
    """Its options: with others the same records fold into something else."""
    topics: list[tuple[int, int]]
    """Identity of its topics: id, and when this life of it began."""
    applied: list[int]
    name: str = ""
    """Of its first topic, for those who have nothing but this; empty when it was saved before names
    were."""
    gaps: bytes = b""
    """The gaps below that: a repair may give up what a fold has seen."""
    state: bytes = b""


class _Own(NamedTuple):
    """Records that were appended through the view and are not folded in."""

    first_seq: int
    last_seq: int
    rows: Rows


class Host(Generic[F]):
    """One view. Safe from many threads."""

    def __init__(
        self,
        kind: str,
        topics: Sequence[Topic],
        make: Callable[[], F],
        session: Session,
        world: World,
        saved: Saved,
    ) -> None:
        self.kind = kind
        self.name = topics[0].name
        self.topics = tuple(topics)
        self.world = world
        self.lock = threading.RLock()
        self.session = session
        self.saved = saved
        """What the reservoir's committed pages are."""
        self.secured = list(saved.applied)
        """How far of each topic what is folded in is saved for good."""
        self.folded = 0
        """Records that were folded in since the last save."""
        self.turn: Callable[[], None] | None = None
        """What the view wants done again and again, by whoever has the time."""
        self.when_loaded: Callable[[F], None] | None = None
        """What is to be done with a fold that takes the place of another."""
        self.when_dropped: Callable[[], None] | None = None
        """What is to be done when its topic was deleted."""
        self._make = make
        self._own: list[deque[_Own]] = [deque() for _ in topics]
        self._views_seen: object = None
        self._others: tuple[bytes, ...] = ()
        self._ended = False
        self._broken = True
        self.applied = [0 for _ in topics]
        self.fold = make()
        self._load()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind} {self.name!r}, applied={self.applied})"

    def catch_up(self) -> None:
        """Fold in every record that is published."""
        with self.lock:
            if self._ended:
                raise Closed("this view is closed: its store is, or its topic was deleted")
            if self._broken:
                self._load()
            for source, topic in enumerate(self.topics):
                if self.applied[source] < topic.head_seq:
                    self._follow(source, topic)

    def reading(self) -> _Reading[F]:
        """The fold, caught up, with the lock held: ``with host.reading() as fold``."""
        return _Reading(self)

    def decide(self, decision: Callable[[F], Draft | None]) -> Appended | None:
        """Append what the decision says when it sees the fold; None when it says nothing.

        The decision may be made several times. What it raises travels, and nothing is appended.
        """
        while True:
            with self.lock:
                for topic in self.topics:
                    topic.settle()
                self.catch_up()
                draft = decision(self.fold)
                if draft is None:
                    return None
                try:
                    pending = self._place(draft, self.applied[draft.source])
                except TopicFull:
                    raise
                except Conflict:
                    continue  # a plain append came between
                appended = pending.wait()
                self.catch_up()
                return appended

    def append(self, draft: Draft) -> Appended:
        """Append without a decision. Others go on while this waits for its sync."""
        with self.lock:
            pending = self._place(draft, None)
            if self.topics[draft.source].head_seq >= pending.appended.last_seq:
                self.catch_up()
                return pending.appended
        appended = pending.wait()
        self.catch_up()
        return appended

    def release(self, source: int, seqs: BitMap64 | None = None, *, before: int = 0) -> int:
        """Let records go that no longer matter, as far as the saved state has seen that; how many.

        Those behind it stay for now: ask again after the next save. Of a topic with several views
        none is let go.
        """
        if self.strangers(source):
            return 0
        secured = self.secured[source]
        gone = BitMap64() if seqs is None else seqs & BitMap64(range(secured + 1))
        before = min(before, secured + 1)
        if not gone and before <= 1:
            return 0
        return self.topics[source].let_go(gone, before=before).deleted

    def strangers(self, source: int = 0) -> tuple[bytes, ...]:
        """How records begin that another view of the same topic has written."""
        views = self.topics[source].config.views
        if views is not self._views_seen:
            self._others = strangers_of(self.kind, views)
            self._views_seen = views
        return self._others

    def record(self, source: int, seq: int) -> Record | None:
        """One record of the log, None when it is gone."""
        found = self.topics[source].pick((seq,)).records
        return found[0] if found else None

    def records(self, source: int, seqs: Sequence[int]) -> list[Record]:
        """Records of the log, in the order of their seqs; those that are gone are left out."""
        return self.world.fetch(source, seqs)

    def save(self) -> Saved | None:
        """Hand what has changed to the reservoir and commit it; None when nothing has.

        Only what is durable in the log is folded in by then: a power loss must not leave a view
        that is ahead of its topic.
        """
        for topic in self.topics:
            topic.secure()  # most of the waiting, without the lock
        with self.lock:
            self.catch_up()
            if self.applied == self.saved.applied and self.saved.state:
                return None
            for topic in self.topics:
                topic.secure()
            try:
                state = self.fold.save(self.session)
                self.session.commit()
            except BaseException:
                self._broken = True
                raise
            self.saved = msgspec.structs.replace(
                self.saved,
                name=self.name,
                applied=list(self.applied),
                gaps=gaps_of(self.topics, self.applied),
                state=state,
            )
            self.folded = 0
            return self.saved

    def begin_again(
        self, saved: Saved, page_ids: Sequence[int], make: Callable[[], F] | None = None
    ) -> None:
        """Throw everything away, its pages too, and fold all records in again."""
        with self.lock:
            self._make = make or self._make
            self.session.rollback()
            for page_id in page_ids:
                self.session.delete(page_id)
            self.session.commit()
            self.saved = saved
            self._broken = True
            self.catch_up()

    def adopt(self, saved: Saved) -> Saved:
        """Go on from a state that was folded elsewhere, and has committed pages; the one before.

        What came since is folded in from the log. When that cannot be, all is as it was.
        """
        with self.lock:
            before, secured = self.saved, self.secured
            self.saved, self.secured = saved, list(saved.applied)
            self._broken = True
            try:
                self.catch_up()
            except BaseException:
                self.saved, self.secured = before, secured
                self._broken = True
                raise
            return before

    def end(self) -> None:
        """Nobody may use the view any more: without the lock, too, it is behind its topic."""
        with self.lock:
            self._ended = True
            self.applied = [-1 for _ in self.topics]

    def digest(self) -> str:
        """A checksum of all that a user can see of the view."""
        with self.reading() as fold:
            return fold.digest().hex()

    def _load(self) -> None:
        self.session.rollback()
        self.fold = self._make()
        self.applied = list(self.saved.applied)
        for own in self._own:
            own.clear()
        self.fold.load(self.session, self.saved.space, self.saved.state)
        if self.when_loaded is not None:
            self.when_loaded(self.fold)
        self.folded = 0
        self._broken = False

    def _place(self, draft: Draft, expected_head: int | None) -> Pending:
        """Place records and remember them for folding. The lock is held."""
        source, data, keys, metas, tags = draft
        pending = self.topics[source].place_many(
            data, keys=keys, metas=metas, tags=tags, expected_head=expected_head
        )
        first_seq, last_seq = pending.appended.first_seq, pending.appended.last_seq
        count = len(data)
        nothing = (None,) * count
        rows = Rows(
            range(first_seq, last_seq + 1),
            (pending.ts,) * count,
            nothing if keys is None else keys,
            nothing if tags is None else tags,
            nothing if metas is None else metas,
            data,
        )
        self._own[source].append(_Own(first_seq, last_seq, rows))
        return pending

    def _follow(self, source: int, topic: Topic) -> None:
        head, own = topic.head_seq, self._own[source]
        while (applied := self.applied[source]) < head:
            if own and own[0].first_seq <= applied + 1 and own[0].last_seq <= head:
                first_seq, last_seq, rows = own.popleft()
                if first_seq == applied + 1:
                    self._apply(source, rows, last_seq)
                continue  # else it was read from the log with records of others
            page = topic.read(applied, _ROWS_AT_ONCE)
            found = page.columns()
            rows = Rows(found.seqs, found.stamps, found.keys, found.tags, found.metas, found.data)
            if strangers := self.strangers(source):
                rows = _without(rows, strangers)
            self._apply(source, rows, page.next)

    def _apply(self, source: int, rows: Rows, last_seq: int) -> None:
        if rows.seqs:
            assert rows.seqs[0] > self.applied[source], "a record comes once"
            try:
                self.fold.apply(source, rows)
            except BaseException:
                self._broken = True
                raise
            self.folded += len(rows.seqs)
        self.applied[source] = last_seq


def _without(rows: Rows, marks: tuple[bytes, ...]) -> Rows:
    """The rows whose meta begins with none of these."""
    keep = [meta is None or not meta.startswith(marks) for meta in rows.metas]
    if all(keep):
        return rows
    return Rows(
        list(compress(rows.seqs, keep)),
        list(compress(rows.stamps, keep)),
        list(compress(rows.keys, keep)),
        list(compress(rows.tags, keep)),
        list(compress(rows.metas, keep)),
        list(compress(rows.data, keep)),
    )


def strangers_of(kind: str, views: ViewConfigs) -> tuple[bytes, ...]:
    """How records begin that other views than this one write to a topic with these views."""
    others = [other for other in MARKS if other != kind]
    return tuple(MARKS[other] for other in others if getattr(views, other) is not None)


def fits(saved: Saved, config: bytes, topics: Sequence[Topic]) -> bool:
    """Whether what was saved is of these topics, and of records that are still the same."""
    if saved.topics != [topic.identity for topic in topics] or saved.config != config:
        return False
    heads = [topic.head_seq for topic in topics]
    ahead = any(seq > head for seq, head in zip(saved.applied, heads, strict=True))
    return not ahead and saved.gaps == gaps_of(topics, saved.applied)


def gaps_of(topics: Sequence[Topic], applied: Sequence[int]) -> bytes:
    """What is lost of the records up to these, as bytes to compare.

    A gap that has grown since is cut: a view that has passed it is right nevertheless.
    """
    found = [
        [(first, min(last, seq)) for first, last in topic.gaps_below(seq + 1)]
        for topic, seq in zip(topics, applied, strict=True)
    ]
    return msgspec.msgpack.encode(found) if any(found) else b""


class _Reading(Generic[F]):
    """A moment in which nobody else changes the fold."""

    __slots__ = ("_host",)

    def __init__(self, host: Host[F]) -> None:
        self._host = host

    def __enter__(self) -> F:
        self._host.lock.acquire()
        try:
            self._host.catch_up()
        except BaseException:
            self._host.lock.release()
            raise
        return self._host.fold

    def __exit__(self, *_: object) -> None:
        self._host.lock.release()
