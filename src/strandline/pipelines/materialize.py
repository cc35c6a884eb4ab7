"""Refreshes materialized queries: with the records since their high-water mark, or completely.

    1 begin: read the stored result and the positions of its tables
      (``query/materialized/refresh.py``)
    2 run its queries over the new records, here or on Spark, with the same plan
    3 commit: partial states, which are merged with the stored ones, whichever process wrote them

If the store is open for writing in this process, the commit is appended directly. A store that is
open read-only, or given by its folder, is read beside its writer; the commit is then delivered
(``delivery_client.py``), and appended by the process that has the store open, or by this one if
none has. Either way it is appended only if the result is unchanged since step 1. Otherwise another
process was faster, and the refresh starts again, usually with less to do. So SHOW, followers and
any number of pipelines can run at the same time.

Killed at any point: if the commit was not delivered, the query is unchanged; if it was, the query
will be refreshed. There is no state between, and nothing to clean up.

A query that cannot be refreshed (its table is missing) is reported, and the others continue.
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
from strandline.pipelines.delivery_client import WAIT_S_MAX, deliver, lake_of
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import is_pattern
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.query.materialized.result_log import CommitDraft, FramesGone
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB is loaded only when a query runs
    from strandline.query.execute.executor import QueryExecutor
    from strandline.query.materialized.materialized_queries import MaterializedQueries
    from strandline.query.materialized.refresh import Refresh

PRODUCER = "strandline-materialize"
TRIES_MAX = 20
"""How often other processes may be faster before Conflict is raised."""

_STORE_CLOSED = (FileNotFoundError, Closed)
_BATCH_ROWS = 256


@runtime_checkable
class QueryRunningEngine(Protocol):
    """An engine that runs queries outside this process."""

    def answering(self, progress: Progress) -> QueryExecutor: ...


class RefreshedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The result of refreshing a materialized query."""

    alias: str
    engine: str = ""
    """Empty when nothing was new."""
    full: bool = False
    """Whether everything was computed, not only the new records."""
    behind: int = 0
    """Records that were appended to its tables since the last refresh."""
    bytes_read: int = 0
    """Bytes of the files that had new records."""
    rows: int = 0
    """Stored rows: for aggregates the partial states of groups."""
    tries: int = 1
    """More than one when other processes were faster."""
    seconds: float = 0.0


class FailedRefresh(msgspec.Struct, frozen=True, kw_only=True):
    """A materialized query that could not be refreshed, and is unchanged."""

    alias: str
    error: str
    """The code of the error."""
    reason: str


class MaterializeSummary(msgspec.Struct, kw_only=True):
    """The refreshed queries."""

    store: str
    refreshed: list[RefreshedQuery] = []
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
    wait_s_max: float = WAIT_S_MAX,
    clock: Clock | None = None,
) -> MaterializeSummary:
    """Refresh materialized queries (aliases or patterns; by default all) of a store.

    With ``full`` everything is computed again. ``engine`` is by default ``Embedded()``, or a
    function that chooses one by the stored bytes that are new. ``lake`` is the url of the lake and
    ``views`` that of saved views, if they are not in the store's folder. After ``Unavailable`` a
    commit is delivered and safe; it is appended when a process opens the store for writing.
    """
    with ExitStack() as stack:
        if isinstance(store, Store):
            opened = store
        else:
            opened = stack.enter_context(open_readonly(path_of(store), lake, views))
        run = _Run(opened, engine or Embedded(), lake, wait_s_max, clock or SystemClock())
        return run.run(aliases, full=full, progress=progress or silent)


class _Run:
    """One run. Owned by one thread."""

    def __init__(
        self, store: Store, engine: Engine | Chooser, lake: str, wait_s_max: float, clock: Clock
    ) -> None:
        self._store = store
        self._engine = engine
        self._lake = lake
        self._wait_s_max = wait_s_max
        self._clock = clock

    def run(self, aliases: Sequence[str], *, full: bool, progress: Progress) -> MaterializeSummary:
        started_s = self._clock.monotonic()
        summary = MaterializeSummary(store=self._store.path, refreshed=[], failed=[])
        chosen = self._select(aliases)
        for index, alias in enumerate(chosen):
            progress("materialized queries", index, len(chosen))
            try:
                summary.refreshed.append(self._refresh(alias, full=full, progress=progress))
            except StrandlineError as error:
                failed = FailedRefresh(alias=alias, error=error.code, reason=str(error))
                summary.failed.append(failed)
        progress("materialized queries", len(chosen), len(chosen))
        summary.seconds = self._clock.monotonic() - started_s
        return summary

    def _select(self, aliases: Sequence[str]) -> list[str]:
        remembered = self._store.queries.remembered
        existing = [each.alias for each in remembered.list()]
        selected: list[str] = []
        for alias in aliases or ["*"]:
            if is_pattern(alias):
                selected += fnmatch.filter(existing, alias)
            else:
                selected.append(
                    remembered.describe(alias).alias
                )  # NotFound lists the existing ones
        return list(dict.fromkeys(selected))

    def _refresh(self, alias: str, *, full: bool, progress: Progress) -> RefreshedQuery:
        started_s = self._clock.monotonic()
        behind = self._store.queries.remembered.describe(alias).behind
        lost = False
        for tries in range(1, TRIES_MAX + 1):
            try:
                refreshed = self._attempt(alias, behind, full=full or lost, progress=progress)
            except Conflict:
                self._reopen()
                continue
            except FramesGone:
                # Another commit has replaced the frames; if there was none, they are lost.
                cursor_before = self._cursor(alias)
                self._reopen()
                lost = self._cursor(alias) == cursor_before
                continue
            except _STORE_CLOSED:
                if not self._store.readonly or tries == TRIES_MAX:
                    raise
                self._reopen()
                continue
            seconds = self._clock.monotonic() - started_s
            return msgspec.structs.replace(refreshed, tries=tries, seconds=seconds)
        raise Conflict(
            f"other processes have refreshed {alias!r} {TRIES_MAX} times during this run: run it "
            "again for the records since then"
        )

    def _attempt(
        self, alias: str, behind: int, *, full: bool, progress: Progress
    ) -> RefreshedQuery:
        refresh = self._store.queries.remembered.begin_refresh(alias)
        if full:
            refresh.ignore_stored()
        if not refresh.has_new_rows:
            return RefreshedQuery(alias=alias, rows=self._rows(alias))
        size = refresh.new_bytes
        engine = self._engine(size) if callable(self._engine) else self._engine
        queries = self._queries_on(engine, progress)
        results = queries.run_queries(refresh, progress)
        if self._store.readonly:
            self._deliver(refresh, queries.draft(refresh, results))
        else:
            queries.commit(refresh, results)
        return RefreshedQuery(
            alias=alias,
            engine=engine.name,
            full=refresh.is_full,
            behind=behind,
            bytes_read=size,
            rows=self._rows(alias),
        )

    def _queries_on(self, engine: Engine, progress: Progress) -> MaterializedQueries:
        service = self._store.queries
        if not isinstance(engine, QueryRunningEngine):
            return service.remembered
        return service.with_executor(engine.answering(progress)).remembered

    def _deliver(self, refresh: Refresh, draft: CommitDraft) -> None:
        """Deliver a commit to the writer of the store; Conflict when it was rejected."""
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
            wait_s_max=self._wait_s_max,
        )
        # Another commit from the same head may have been appended instead of this one.
        self._store.refresh()
        if not refresh.journal.has(draft):
            raise Conflict(f"another process has refreshed {refresh.definition.alias!r} first")

    def _reopen(self) -> None:
        if self._store.readonly:
            self._store.refresh()

    def _cursor(self, alias: str) -> int:
        return self._store.queries.remembered.begin_refresh(alias).base.cursor

    def _rows(self, alias: str) -> int:
        return self._store.queries.remembered.describe(alias).rows


def _batches(draft: CommitDraft) -> list[pa.RecordBatch]:
    """The records of a commit, in batches to stage."""
    batches = []
    for first in range(0, len(draft.records), _BATCH_ROWS):
        records = draft.records[first : first + _BATCH_ROWS]
        columns = {
            "tag": pa.array([tag for tag, _ in records], pa.string()),
            "meta": pa.array([draft.meta] * len(records), pa.binary()),
            "data": pa.array([data for _, data in records], pa.binary()),
        }
        batches.append(pa.RecordBatch.from_pydict(columns))
    return batches
