"""Brings remembered queries up to date: what is new since their high-water mark, or all of it.

    1 look: what is stored of the query, where its tables stand (``query/materialized/refresh.py``)
    2 answer its questions over the news, here or on Spark, from the same plan
    3 commit: partial states that are put together with those there are, whoever made them

A store that is open for writing in this process is committed to. One that is open read-only, or
named by its folder, is read beside its writer; the commit is then delivered
(``delivery_client.py``), to be
appended by whoever has the store, and by us when nobody has. Either way it goes on from what the
look has seen or is refused: then somebody else was quicker, and we look again, which as a rule
finds less to do. So SHOW, followers and any number of pipelines take turns.

Killed at any point: nothing was delivered, and the query is as it was; or it was, and will be as it
is to be. There is nothing between, and nothing to clean up.

A query that cannot be brought up to date (its table is gone) is told of, and the others go on.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from strandline.errors import Closed, Conflict, StrandlineError
from strandline.ingest import delivery_codec, staged_files
from strandline.log.progress import Progress, silent
from strandline.pipelines.delivery_client import PATIENCE_S, deliver, lake_of
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import is_pattern
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.query.materialized.result_log import Draft, FramesGone
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB is loaded when there is something to ask
    from strandline.query.execute.executor import Answering
    from strandline.query.materialized.materialized_queries import Remembered
    from strandline.query.materialized.refresh import Visit

PRODUCER = "strandline-materialize"
TRIES_MAX = 20
"""Others may be quicker so often; then it is told."""

_GONE = (FileNotFoundError, Closed)
_ROWS_AT_ONCE = 256


@runtime_checkable
class Answers(Protocol):
    """An engine that answers questions elsewhere."""

    def answering(self, progress: Progress) -> Answering: ...


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered query that was looked at."""

    alias: str
    engine: str = ""
    """Empty when there was nothing to do."""
    anew: bool = False
    """Whether everything was computed, rather than the news."""
    behind: int = 0
    """Records that were appended to its tables since the last refresh."""
    bytes_read: int = 0
    """Of files that had news."""
    rows: int = 0
    """Rows that are stored: of aggregates partial states of groups."""
    tries: int = 1
    """More than one when somebody else was quicker."""
    seconds: float = 0.0


class FailedRefresh(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered query that is as it was."""

    alias: str
    error: str
    """The code of the error."""
    reason: str


class MaterializeSummary(msgspec.Struct, kw_only=True):
    """What was brought up to date."""

    store: str
    refreshed: list[Refreshed] = []
    """Also those that were up to date."""
    failed: list[FailedRefresh] = []
    seconds: float = 0.0

    @property
    def changed(self) -> int:
        return sum(bool(each.engine) for each in self.refreshed)


def materialize(
    store: str | Store,
    aliases: Sequence[str] = (),
    *,
    full: bool = False,
    engine: Engine | Chooser | None = None,
    progress: Progress | None = None,
    lake: str = "",
    views: str = "",
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
) -> MaterializeSummary:
    """Refresh remembered queries (aliases or patterns; all without any) of a store.

    With ``full`` everything is computed again. ``engine`` is ``Embedded()`` unless told otherwise,
    or a function that chooses one by the stored bytes that have news. ``lake`` is the lake's url
    and ``views`` that of saved views, where they are not in the store's folder. After
    ``Unavailable`` a commit is delivered and safe, and taken by whoever opens the store for
    writing.
    """
    with ExitStack() as stack:
        if isinstance(store, Store):
            opened = store
        else:
            opened = stack.enter_context(open_readonly(path_of(store), lake, views))
        run = _Run(opened, engine or Embedded(), lake, patience_s, clock or SystemClock())
        return run.run(aliases, full=full, progress=progress or silent)


class _Run:
    """One run. Owned by one thread."""

    def __init__(
        self, store: Store, engine: Engine | Chooser, lake: str, patience_s: float, clock: Clock
    ) -> None:
        self._store = store
        self._engine = engine
        self._lake = lake
        self._patience_s = patience_s
        self._clock = clock

    def run(self, aliases: Sequence[str], *, full: bool, progress: Progress) -> MaterializeSummary:
        begun_s = self._clock.monotonic()
        summary = MaterializeSummary(store=self._store.path, refreshed=[], failed=[])
        chosen = self._chosen(aliases)
        for place, alias in enumerate(chosen):
            progress("remembered queries", place, len(chosen))
            try:
                summary.refreshed.append(self._refresh(alias, full=full, progress=progress))
            except StrandlineError as error:
                failed = FailedRefresh(alias=alias, error=error.code, reason=str(error))
                summary.failed.append(failed)
        progress("remembered queries", len(chosen), len(chosen))
        summary.seconds = self._clock.monotonic() - begun_s
        return summary

    def _chosen(self, aliases: Sequence[str]) -> list[str]:
        remembered = self._store.questions.remembered
        there = [each.alias for each in remembered.list()]
        found: list[str] = []
        for alias in aliases or ["*"]:
            if is_pattern(alias):
                found += fnmatch.filter(there, alias)
            else:
                found.append(remembered.describe(alias).alias)  # or it says which there are
        return list(dict.fromkeys(found))

    def _refresh(self, alias: str, *, full: bool, progress: Progress) -> Refreshed:
        begun_s = self._clock.monotonic()
        behind = self._store.questions.remembered.describe(alias).behind
        lost = False
        for tries in range(1, TRIES_MAX + 1):
            try:
                done = self._try(alias, behind, full=full or lost, progress=progress)
            except Conflict:
                self._look_again()
                continue
            except FramesGone:
                # A commit came between that has what we want; or there was none, and they are lost.
                before = self._cursor(alias)
                self._look_again()
                lost = self._cursor(alias) == before
                continue
            except _GONE:
                if not self._store.readonly or tries == TRIES_MAX:
                    raise
                self._look_again()
                continue
            seconds = self._clock.monotonic() - begun_s
            return msgspec.structs.replace(done, tries=tries, seconds=seconds)
        raise Conflict(
            f"others have refreshed {alias!r} {TRIES_MAX} times while this was at it: it is as new "
            "as they made it; run it again for the rest"
        )

    def _try(self, alias: str, behind: int, *, full: bool, progress: Progress) -> Refreshed:
        look = self._store.questions.remembered.begin(alias)
        if full:
            look.count_all_as_news()
        if not look.has_news:
            return Refreshed(alias=alias, rows=self._rows(alias))
        size = look.news_bytes
        engine = self._engine(size) if callable(self._engine) else self._engine
        remembered = self._answered_by(engine, progress)
        answers = remembered.answers(look, progress)
        if self._store.readonly:
            self._deliver(look, remembered.draft(look, answers))
        else:
            remembered.commit(look, answers)
        return Refreshed(
            alias=alias,
            engine=engine.name,
            anew=look.is_anew,
            behind=behind,
            bytes_read=size,
            rows=self._rows(alias),
        )

    def _answered_by(self, engine: Engine, progress: Progress) -> Remembered:
        questions = self._store.questions
        if not isinstance(engine, Answers):
            return questions.remembered
        return questions.answered_by(engine.answering(progress)).remembered

    def _deliver(self, look: Visit, draft: Draft) -> None:
        """Have a commit appended by whoever may; Conflict when it was not."""
        path, attempt, number = self._store.path, OsDisk().random_id().hex(), draft.expected_head
        objects = open_objects(lake_of(path, self._lake))
        try:
            key_of = partial(delivery_codec.staged_key, PRODUCER, number, attempt)
            staged = staged_files.stage(objects, key_of, _batches(draft))
        finally:
            objects.close()
        deliver(
            path,
            draft.topic,
            staged,
            producer=PRODUCER,
            number=number,
            attempt=attempt,
            lake=self._lake,
            expected_head=draft.expected_head,
            patience_s=self._patience_s,
        )
        # Another who went on from the same head may have been taken in our place.
        self._store.refresh()
        if not look.journal.has(draft):
            raise Conflict(f"somebody else has refreshed {look.definition.alias!r} meanwhile")

    def _look_again(self) -> None:
        if self._store.readonly:
            self._store.refresh()

    def _cursor(self, alias: str) -> int:
        return self._store.questions.remembered.begin(alias).base.cursor

    def _rows(self, alias: str) -> int:
        return self._store.questions.remembered.describe(alias).rows


def _batches(draft: Draft) -> list[pa.RecordBatch]:
    """Records of a commit as they are staged."""
    found = []
    for first in range(0, len(draft.records), _ROWS_AT_ONCE):
        some = draft.records[first : first + _ROWS_AT_ONCE]
        columns = {
            "tag": pa.array([tag for tag, _ in some], pa.string()),
            "meta": pa.array([draft.meta] * len(some), pa.binary()),
            "data": pa.array([data for _, data in some], pa.binary()),
        }
        found.append(pa.RecordBatch.from_pydict(columns))
    return found
