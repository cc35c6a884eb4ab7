"""The materialized queries of a store: REMEMBER, SHOW, FORGET.

    refresh = remembered.begin("big")         the stored state, and the positions of the tables
    remembered.commit(refresh, results)       stores the new rows, unless another commit came first

Stored state changes only by these two calls, for SHOW as for engines in other processes; a process
that may not append uses ``draft``, which returns a commit to be appended later. SHOW returns the
result that it has merged even if another process has committed first: that result is right as of
the tables it has read. So two SHOWs at once neither wait for each other nor return a row twice, and
SHOW also works on a store that is open read-only.

A query is a topic, ``remembered:<alias>`` (result_log.py), as durable as its table. There is no
other list of queries. A topic without a manifest is left by a REMEMBER that a crash ended: it is
not listed and not shown, the next REMEMBER of the alias uses it, and FORGET deletes it.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa

from strandline.errors import Conflict, Invalid, NotFound, StrandlineError, UnknownTopic
from strandline.log.progress import Progress, silent
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.query.execute.arrow_snapshot import ArrowSnapshot
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.executor import QueryExecutor, default_engine, run
from strandline.query.execute.result import Result
from strandline.query.language.ast import Remember
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.materialized.change_feed import Follower, ResultDelta
from strandline.query.materialized.describe import Description, description_of
from strandline.query.materialized.incremental_plan import (
    incremental_plan_of,
    query_over_stored_rows,
    stored_schema,
)
from strandline.query.materialized.manifest import (
    FrameRun,
    QueryManifest,
    ResultRetention,
    TableMark,
)
from strandline.query.materialized.partial_aggregates import (
    StateMerger,
    drop_empty_groups,
    state_of,
)
from strandline.query.materialized.refresh import QueryDefinition, Refresh, TableSnapshot
from strandline.query.materialized.result_log import (
    FRAME_BYTES,
    CommitBase,
    CommitDraft,
    FramesGone,
    ResultLog,
    ResultPiece,
)
from strandline.query.materialized.retention import check_keep
from strandline.views.table.snapshot import EventTableSnapshot

PREFIX = "remembered:"
_POLL_S = 0.05
"""The time to wait for one of several tables before the next one is checked."""
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,128}")


class _QueryTopics(Protocol):
    """The topics of a store."""

    @property
    def readonly(self) -> bool: ...

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...

    def delete_topic(self, name: str, *, if_empty: bool = False) -> bool: ...

    def topics(self, prefix: str = "") -> list[str]: ...


Bind = Callable[[str], BoundQuery]
"""Parses a query and binds it to the current schemas."""


class MaterializedQueries:
    """The materialized queries of one store. Safe from many threads."""

    def __init__(
        self,
        topics: _QueryTopics,
        clock: Clock,
        *,
        snapshots: Callable[[str], TableSnapshot],
        bind: Bind,
        engine: DuckDbEngine | None = None,
        answering: QueryExecutor | None = None,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        """``answering`` runs queries over new rows; the default is the engine."""
        self._topics = topics
        self._clock = clock
        self._snapshots = snapshots
        self._bind = bind
        self._engine = engine or default_engine()
        self._answering = answering or self._run
        self._frame_bytes = frame_bytes

    def remember(self, command: Remember, *, progress: Progress = silent) -> Description:
        """Run a query and store its result under an alias."""
        keep = ResultRetention(rows_max=command.rows_max, age_max_us=command.age_max_us)
        definition = QueryDefinition(
            alias=_checked_alias(command.alias), text=command.text, keep=keep
        )
        bound = self._bind(definition.text)
        check_keep(keep, bound)
        event = self._topics.existing_topic(bound.events[0].name)
        topic = self._topic_for(definition.alias, event.config.durability)
        try:
            journal = self._journal(topic)
            refresh = self._refresh(definition, journal, journal.newest())
            if refresh.base.manifest is not None:
                raise _alias_exists(definition.alias)
            self.commit(refresh, self.run_queries(refresh, progress))
        except Conflict as error:
            raise _alias_exists(definition.alias) from error
        except BaseException:
            with contextlib.suppress(StrandlineError):  # the first error is raised
                self._topics.delete_topic(topic.name, if_empty=True)
            raise
        return self.describe(definition.alias)

    def show(self, alias: str, *, progress: Progress = silent) -> Result:
        """The result of the query as of now: the stored result and new rows."""
        refresh = self.begin_refresh(alias)
        while True:
            try:
                results = self.run_queries(refresh, progress)
                result = self._result(refresh, results)
                if refresh.has_new_rows and not self._topics.readonly:
                    self._try_commit(refresh, results)
            except FramesGone:
                refresh = self.retry_refresh(refresh)
                continue
            return result

    def refresh(
        self, alias: str, *, full: bool = False, progress: Progress = silent
    ) -> Description:
        """Store the rows that are new since the last commit; with ``full``, all rows again."""
        refresh = self.begin_refresh(alias)
        while True:
            if full:
                refresh.ignore_stored()
            try:
                if refresh.has_new_rows:
                    self.commit(refresh, self.run_queries(refresh, progress))
            except Conflict:
                refresh = self.begin_refresh(alias)
                continue
            except FramesGone:
                refresh = self.retry_refresh(refresh)
                continue
            return self.describe(alias)

    def forget(self, alias: str) -> None:
        """Delete a materialized query with its stored result, also an unfinished one."""
        if not self._topics.delete_topic(PREFIX + _checked_alias(alias)):
            raise self._unknown(alias)

    def begin_refresh(self, alias: str) -> Refresh:
        """The stored state of a query, the positions of its tables, and the queries to run."""
        journal, base, manifest = self._find(alias)
        definition = QueryDefinition(alias=alias, text=manifest.text, keep=manifest.keep)
        return self._refresh(definition, journal, base)

    def commit(self, refresh: Refresh, results: Sequence[pa.Table]) -> CommitBase:
        """Store the results of a refresh's queries, in their order, as of its marks.

        Conflict when another commit was stored since the refresh began: then nothing is changed.
        """
        return refresh.journal.commit(refresh.base, *_commit_of(refresh, results))

    def draft(self, refresh: Refresh, results: Sequence[pa.Table]) -> CommitDraft:
        """The records that ``commit`` would append, for a process that may append."""
        return refresh.journal.draft(refresh.base, *_commit_of(refresh, results))

    def list(self) -> list[Description]:
        """All materialized queries, by alias."""
        names = [name[len(PREFIX) :] for name in self._topics.topics(PREFIX)]
        bases = [self._newest(alias) for alias in names]
        return [self._description_of(base.manifest) for base in bases if base and base.manifest]

    def describe(self, alias: str) -> Description:
        """The description of a materialized query: definition, size and progress."""
        return self._description_of(self._find(alias)[2])

    def follow(
        self, alias: str, after: str = "", *, timeout_s: float | None = None
    ) -> Iterator[ResultDelta]:
        """The changes of the result of a query after a cursor, until nothing has been appended to
        its tables for ``timeout_s``. Without a cursor all rows are returned first."""
        refresh = self.change_poller(alias, after)
        while True:
            heads = self.heads(alias)
            change = refresh()
            if change is not None:
                yield change
            if not self._wait_for_news(heads, timeout_s):
                return

    def change_poller(self, alias: str, after: str = "") -> Callable[[], ResultDelta | None]:
        """The same without waiting: each call returns the change since the last call, or None.
        Owned by one thread at a time."""
        return partial(self._change, alias, Follower(after))

    def heads(self, alias: str) -> dict[str, int]:
        """The heads of a query's tables: when one has risen there may be a change."""
        events = self._find(alias)[2].marks
        return {event: self._topics.existing_topic(event).head_seq for event in events}

    def _change(self, alias: str, follower: Follower) -> ResultDelta | None:
        refresh = self.begin_refresh(alias)
        while True:
            try:
                results = self.run_queries(refresh, silent)
                states = _states(refresh, results)
                new_rows = states[0] if states else None
                view = follower.compute_delta(
                    refresh, new_rows, partial(self._result, refresh, results)
                )
                mark = 0 if refresh.has_new_rows else refresh.base.cursor
                if refresh.has_new_rows and not self._topics.readonly:
                    mark = self.commit(refresh, results).cursor
            except Conflict:
                refresh = self.begin_refresh(alias)
                continue
            except FramesGone:
                refresh = self.retry_refresh(refresh)
                continue
            return follower.advance(view, mark)

    def _wait_for_news(self, heads: dict[str, int], timeout_s: float | None) -> bool:
        """Wait until one of the heads has risen; False after the timeout."""
        if len(heads) == 1:
            ((event, head),) = heads.items()
            return self._topics.existing_topic(event).wait_for(head, timeout_s)
        start = self._clock.monotonic()
        while True:
            for event, head in heads.items():
                poll_s = _POLL_S if timeout_s is None else min(_POLL_S, timeout_s)
                if self._topics.existing_topic(event).wait_for(head, poll_s):
                    return True
            if timeout_s is not None and self._clock.monotonic() - start >= timeout_s:
                return False

    def _description_of(self, manifest: QueryManifest) -> Description:
        lag = sum(self._lag_of(event, mark) for event, mark in manifest.marks.items())
        return description_of(manifest, lag)

    def _lag_of(self, event: str, mark: TableMark) -> int:
        try:
            return max(0, self._topics.existing_topic(event).head_seq - mark.position)
        except UnknownTopic:
            return 0

    def run_queries(self, refresh: Refresh, progress: Progress = silent) -> Sequence[pa.Table]:
        """The results of a refresh's queries, as of its marks."""
        if not refresh.has_new_rows:
            return []
        if refresh.is_complete:
            return [refresh.empty_state(0)]
        tables = refresh.new_rows(progress)
        results = [self._answering(query, tables.__getitem__) for query in refresh.queries]
        return [result.arrow() for result in results]

    def _run(self, query: BoundQuery, tables: Callable[[str], EventTableSnapshot]) -> Result:
        return run(query, tables, engine=self._engine)

    def _try_commit(self, refresh: Refresh, results: Sequence[pa.Table]) -> None:
        try:
            self.commit(refresh, results)
        except (Conflict, UnknownTopic):
            pass  # another commit came first, or the query was deleted

    def _result(self, refresh: Refresh, results: Sequence[pa.Table]) -> Result:
        states: Sequence[pa.Table | None] = _states(refresh, results)
        if not states:
            states = [None] * len(refresh.shape.parts)
        merged = [refresh.merged_state(part, state) for part, state in enumerate(states)]
        bound = refresh.shape.bound
        match refresh.shape.kind:
            case "whole":
                return Result(merged[0])
            case "groups":
                return Result(refresh.states.finish(refresh.shape, merged))
            case "rows":
                event = bound.events[0].name
                position = refresh.marks[event].position
                rows = ArrowSnapshot(event, stored_schema(bound), merged, position=position)
                return self._run(query_over_stored_rows(bound), lambda _: rows)

    def _refresh(self, query: QueryDefinition, journal: ResultLog, base: CommitBase) -> Refresh:
        while True:
            bound = self._bind(query.text)
            names = dict.fromkeys(event.name for event in bound.events)
            snapshots = {name: self._table(name, base.manifest) for name in names}
            if all(snapshots[event.name][0].schema == event.schema for event in bound.events):
                break  # else a new version was defined between
        tables = {name: table for name, (table, _) in snapshots.items()}
        marks = {name: mark for name, (_, mark) in snapshots.items()}
        shape = incremental_plan_of(bound, query.keep)
        return Refresh(
            query,
            journal,
            base,
            shape,
            tables,
            marks,
            StateMerger(self._engine),
            self._clock.now_us(),
        )

    def retry_refresh(self, before: Refresh) -> Refresh:
        """A new refresh after frames of the previous one were missing: a commit has replaced them;
        or there was no commit, and they are lost (a repair may give up frames)."""
        refresh = self.begin_refresh(before.definition.alias)
        if refresh.base.cursor == before.base.cursor:
            refresh.ignore_stored()
        return refresh

    def _table(self, name: str, old: QueryManifest | None) -> tuple[TableSnapshot, TableMark]:
        """A table and its position."""
        while True:
            topic = self._topics.existing_topic(name)
            epoch = topic.epoch
            table = self._snapshots(name)
            if self._topics.existing_topic(name).identity == topic.identity:
                break  # else it was deleted and created again between
        before = old.marks.get(name) if old else None
        ts = before.ts if before else 0
        if before is None or before.position != table.position:
            ts = max([ts, *(record.ts for record in topic.get_many([table.position]).records)])
        mark = TableMark(
            position=table.position,
            ts=ts,
            deletions=table.deletions,
            schema_version=table.schema.version,
            identity=topic.identity,
            epoch=epoch,
        )
        return table, mark

    def _find(self, alias: str) -> tuple[ResultLog, CommitBase, QueryManifest]:
        try:
            journal = self._journal(self._topics.existing_topic(PREFIX + _checked_alias(alias)))
            base = journal.newest()
        except UnknownTopic:
            base = None
        if base is None or base.manifest is None:
            raise self._unknown(alias)
        return journal, base, base.manifest

    def _topic_for(self, alias: str, durability: str) -> Topic:
        """The topic of a new query. A REMEMBER that a crash ended may have left one without a mark:
        it is used, and the first commit deletes its frames."""
        base = self._newest(alias)
        if base is None:
            return self._topics.topic(PREFIX + alias, durability=durability)
        if base.manifest is not None:
            raise _alias_exists(alias)
        topic = self._topics.existing_topic(PREFIX + alias)
        if topic.config.durability != durability:
            topic.alter(durability=durability)
        return topic

    def _newest(self, alias: str) -> CommitBase | None:
        try:
            return self._journal(self._topics.existing_topic(PREFIX + alias)).newest()
        except UnknownTopic:
            return None

    def _journal(self, topic: Topic) -> ResultLog:
        return ResultLog(topic, frame_bytes=self._frame_bytes)

    def _unknown(self, alias: str) -> NotFound:
        names = [each.alias for each in self.list()]
        near = difflib.get_close_matches(alias, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
        return NotFound(f"there is no remembered query {alias!r}: {hint}")


def _states(refresh: Refresh, results: Sequence[pa.Table]) -> list[pa.Table]:
    """Results as states, without empty groups."""
    if not results:
        return []
    parts = refresh.shape.parts
    states = [state_of(part, each) for part, each in zip(parts, results, strict=True)]
    if refresh.shape.kind == "groups" and not refresh.is_full:
        states[0] = drop_empty_groups(refresh.shape, states[0])
    return states


def _commit_of(
    refresh: Refresh, results: Sequence[pa.Table]
) -> tuple[list[ResultPiece], Callable[[tuple[FrameRun, ...]], QueryManifest]]:
    """The pieces of a commit, and the function that makes its manifest."""
    states = _states(refresh, results)
    runs: list[FrameRun] = []
    pieces: list[ResultPiece] = []
    for part, state in enumerate(states):
        staying, written = refresh.pieces(part, state)
        runs += staying
        pieces += written
    rows_added = states[0].num_rows
    return pieces, lambda added: refresh.new_manifest((*runs, *added), rows_added)


def _checked_alias(alias: str) -> str:
    if not _ALIAS.fullmatch(alias):
        raise Invalid(f"{alias!r} is not an alias: use letters, digits, _ and -, at most 128")
    return alias


def _alias_exists(alias: str) -> Conflict:
    return Conflict(f"a remembered query {alias!r} exists already: SHOW it, or FORGET it first")
