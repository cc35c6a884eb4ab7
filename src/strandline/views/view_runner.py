"""Runs one fold over its topics: catches up with the log, makes decisions, appends their records.

A view is caught up before each read, so a read sees every record that was published before it: the
view's own writes, and plain appends to the topic. Records that were appended through the view wait
in memory until they are folded in; other records are read from the log.

A decision is made under the lock, when all placed records are folded in, and its records are
appended only if no other record was appended in between; otherwise it is made again. So a decision
and its records are one step, even with other writers.

Lock order: the lock of a view is acquired before all locks of topics. Lower layers never call a
view.

A topic may have several views. All of them fold plain records; records that one view has written
with more content than key and data (``MARKS``) are hidden from the others. Such a topic keeps all
its records: one view may need what another does not.

A record that was released cannot be restored. So only records that the saved state covers are
released: after a crash the loaded state must not need them.

When a fold fails in the middle (its pages cannot be read), it is discarded and loaded again from
its saved state; the log has the rest.
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
from strandline.log.append.append import PendingAppend
from strandline.log.topic.topic import Topic
from strandline.records import AppendResult, Record
from strandline.reservoir.session import Session
from strandline.views.view import MARKS, Fold, FoldColumns, FoldContext, ViewAppend

F = TypeVar("F", bound=Fold)

_ROWS_AT_ONCE = 10_000


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """The saved state of a view, with its pages in the reservoir."""

    space: int
    config: bytes
    """Its options: with other options the same records fold into another state."""
    topics: list[tuple[int, int]]
    """Identity of its topics: id, and the start of the epoch."""
    applied: list[int]
    name: str = ""
    """The name of its first topic, for readers that have only this struct; empty in states from
    before names were saved."""
    gaps: bytes = b""
    """The gaps up to ``applied``: a repair may give up records that were folded in."""
    state: bytes = b""


class _Own(NamedTuple):
    """Records that were appended through the view and are not folded in."""

    first_seq: int
    last_seq: int
    rows: FoldColumns


class ViewRunner(Generic[F]):
    """Runs one view. Safe from many threads."""

    def __init__(
        self,
        kind: str,
        topics: Sequence[Topic],
        make: Callable[[], F],
        session: Session,
        context: FoldContext,
        saved: SavedView,
    ) -> None:
        self.kind = kind
        self.name = topics[0].name
        self.topics = tuple(topics)
        self.world = context
        self.lock = threading.RLock()
        self.session = session
        self.saved = saved
        """The state that matches the committed pages of the reservoir."""
        self.secured = list(saved.applied)
        """Per topic: the seq up to which the folded state is durable."""
        self.folded = 0
        """Records that were folded in since the last save."""
        self.periodic_work: Callable[[], None] | None = None
        """Periodic work of the view; the registry runs it between saves."""
        self.when_loaded: Callable[[F], None] | None = None
        """Called with each fold that replaces another."""
        self.when_dropped: Callable[[], None] | None = None
        """Called when its topic was deleted."""
        self._make = make
        self._own: list[deque[_Own]] = [deque() for _ in topics]
        self._views_seen: object = None
        self._other_marks: tuple[bytes, ...] = ()
        self._closed = False
        self._broken = True
        self.applied = [0 for _ in topics]
        self.fold = make()
        self._load()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind} {self.name!r}, applied={self.applied})"

    def catch_up(self) -> None:
        """Fold in every published record."""
        with self.lock:
            if self._closed:
                raise Closed("this view is closed: its store was closed or its topic was deleted")
            if self._broken:
                self._load()
            for source, topic in enumerate(self.topics):
                if self.applied[source] < topic.head_seq:
                    self._follow(source, topic)

    def reading(self) -> _Reading[F]:
        """The fold, caught up, with the lock held: ``with host.reading() as fold``."""
        return _Reading(self)

    def decide(self, decision: Callable[[F], ViewAppend | None]) -> AppendResult | None:
        """Append what the decision returns for the current fold; None when it returns None.

        The decision may be made several times. If it raises, the error propagates and nothing is
        appended.
        """
        while True:
            with self.lock:
                for topic in self.topics:
                    topic.wait_published()
                self.catch_up()
                draft = decision(self.fold)
                if draft is None:
                    return None
                try:
                    pending = self._place(draft, self.applied[draft.source])
                except TopicFull:
                    raise
                except Conflict:
                    continue  # another append came in between
                appended = pending.wait()
                self.catch_up()
                return appended

    def append(self, draft: ViewAppend) -> AppendResult:
        """Append without a decision. The lock is not held while this waits for its sync."""
        with self.lock:
            pending = self._place(draft, None)
            if self.topics[draft.source].head_seq >= pending.appended.last_seq:
                self.catch_up()
                return pending.appended
        appended = pending.wait()
        self.catch_up()
        return appended

    def release(self, source: int, seqs: BitMap64 | None = None, *, before: int = 0) -> int:
        """Delete records that are not needed any more, as far as the saved state covers them;
        return how many.

        Later ones stay for now: call again after the next save. In a topic with several views
        nothing is deleted.
        """
        if self.foreign_marks(source):
            return 0
        secured = self.secured[source]
        gone = BitMap64() if seqs is None else seqs & BitMap64(range(secured + 1))
        before = min(before, secured + 1)
        if not gone and before <= 1:
            return 0
        return self.topics[source].trim(gone, before=before).deleted

    def foreign_marks(self, source: int = 0) -> tuple[bytes, ...]:
        """First bytes of the metas of records that other views of the same topic have written."""
        views = self.topics[source].config.views
        if views is not self._views_seen:
            self._other_marks = foreign_marks_of(self.kind, views)
            self._views_seen = views
        return self._other_marks

    def record(self, source: int, seq: int) -> Record | None:
        """One record of the log, None when it has left the log."""
        records = self.topics[source].get_many((seq,)).records
        return records[0] if records else None

    def records(self, source: int, seqs: Sequence[int]) -> list[Record]:
        """Records of the log, in the order of their seqs, without those that have left the log."""
        return self.world.fetch(source, seqs)

    def save(self) -> SavedView | None:
        """Write the changes to the reservoir and commit them; None when nothing has changed.

        Only durable records are in the state that is saved: after a power loss a view must not be
        ahead of its topic.
        """
        for topic in self.topics:
            topic.sync()  # most of the wait happens here, without the lock
        with self.lock:
            self.catch_up()
            if self.applied == self.saved.applied and self.saved.state:
                return None
            for topic in self.topics:
                topic.sync()
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

    def refold(
        self, saved: SavedView, page_ids: Sequence[int], make: Callable[[], F] | None = None
    ) -> None:
        """Discard the state and its pages, and fold all records in again."""
        with self.lock:
            self._make = make or self._make
            self.session.rollback()
            for page_id in page_ids:
                self.session.delete(page_id)
            self.session.commit()
            self.saved = saved
            self._broken = True
            self.catch_up()

    def adopt(self, saved: SavedView) -> SavedView:
        """Continue from a state that another process folded and whose pages are committed; return
        the previous one.

        Newer records are folded in from the log. If that fails, the previous state is restored.
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
        """Close the view. Lock-free readers notice it too: the position never equals the head
        again."""
        with self.lock:
            self._closed = True
            self.applied = [-1 for _ in self.topics]

    def digest(self) -> str:
        """A checksum of everything that a user can see in the view."""
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

    def _place(self, draft: ViewAppend, expected_head: int | None) -> PendingAppend:
        """Place records and keep them for folding. The lock is held."""
        source, data, keys, metas, tags = draft
        pending = self.topics[source].place_many(
            data, keys=keys, metas=metas, tags=tags, expected_head=expected_head
        )
        first_seq, last_seq = pending.appended.first_seq, pending.appended.last_seq
        count = len(data)
        nothing = (None,) * count
        rows = FoldColumns(
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
                continue  # otherwise it was read from the log with other records
            page = topic.read(applied, _ROWS_AT_ONCE)
            cols = page.columns()
            rows = FoldColumns(cols.seqs, cols.stamps, cols.keys, cols.tags, cols.metas, cols.data)
            if marks := self.foreign_marks(source):
                rows = _without(rows, marks)
            self._apply(source, rows, page.next)

    def _apply(self, source: int, rows: FoldColumns, last_seq: int) -> None:
        if rows.seqs:
            assert rows.seqs[0] > self.applied[source], "a record comes once"
            try:
                self.fold.apply(source, rows)
            except BaseException:
                self._broken = True
                raise
            self.folded += len(rows.seqs)
        self.applied[source] = last_seq


def _without(rows: FoldColumns, marks: tuple[bytes, ...]) -> FoldColumns:
    """The rows whose meta starts with none of these marks."""
    keep = [meta is None or not meta.startswith(marks) for meta in rows.metas]
    if all(keep):
        return rows
    return FoldColumns(
        list(compress(rows.seqs, keep)),
        list(compress(rows.stamps, keep)),
        list(compress(rows.keys, keep)),
        list(compress(rows.tags, keep)),
        list(compress(rows.metas, keep)),
        list(compress(rows.data, keep)),
    )


def foreign_marks_of(kind: str, views: ViewConfigs) -> tuple[bytes, ...]:
    """First bytes of the metas that the other views of a topic with these views write."""
    other_kinds = [other for other in MARKS if other != kind]
    return tuple(MARKS[other] for other in other_kinds if getattr(views, other) is not None)


def is_current(saved: SavedView, config: bytes, topics: Sequence[Topic]) -> bool:
    """Whether a saved state is of these topics, and its records are still the same."""
    if saved.topics != [topic.identity for topic in topics] or saved.config != config:
        return False
    heads = [topic.head_seq for topic in topics]
    ahead = any(seq > head for seq, head in zip(saved.applied, heads, strict=True))
    return not ahead and saved.gaps == gaps_of(topics, saved.applied)


def gaps_of(topics: Sequence[Topic], applied: Sequence[int]) -> bytes:
    """The gaps among the records up to these seqs, as bytes to compare.

    A gap that has grown since is cut at the position: a view that has passed it is still correct.
    """
    gaps = [
        [(first, min(last, seq)) for first, last in topic.gaps_below(seq + 1)]
        for topic, seq in zip(topics, applied, strict=True)
    ]
    return msgspec.msgpack.encode(gaps) if any(gaps) else b""


class _Reading(Generic[F]):
    """A context manager that holds the lock, so that the fold does not change."""

    __slots__ = ("_host",)

    def __init__(self, host: ViewRunner[F]) -> None:
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
