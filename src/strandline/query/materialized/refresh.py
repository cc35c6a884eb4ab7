"""One refresh of a materialized query: its stored state, positions of its tables, and new rows.

The newest manifest is read first, then the tables: so no table is before the position of the
manifest, unless it has lost records. What was read here is consistent, whatever is committed
meanwhile: stored state and new rows are the result as of the tables that were read.

New rows can be added when every table still has all rows of the stored state. The result is
computed again in full when

    - old rows were deleted, the table was created again, or it lost its tail in a crash
    - the query has changed: a field that it uses has another type now
    - it is a sequence, and any of its tables has new rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from strandline.log.progress import Progress, silent
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.materialized.delta_snapshot import DeltaSnapshot
from strandline.query.materialized.incremental_plan import IncrementalPlan
from strandline.query.materialized.manifest import (
    CommitCounters,
    FrameRun,
    Marks,
    QueryManifest,
    ResultRetention,
)
from strandline.query.materialized.merge_policy import to_merge
from strandline.query.materialized.partial_aggregates import (
    StateMerger,
    add_scaled_totals,
    first_rows,
)
from strandline.query.materialized.result_log import CommitBase, ResultLog, ResultPiece
from strandline.query.materialized.retention import expired_runs, newest_rows, unexpired_rows
from strandline.views.table.snapshot import TS, EventTableSnapshot


class TableSnapshot(EventTableSnapshot, Protocol):
    """A table at one position, with the changes of its past."""

    @property
    def deletions(self) -> int:
        """Rises when old rows are removed."""
        ...

    def stored_bytes(self, after: int = 0) -> int:
        """Bytes of the files that have rows after a seq."""
        ...


class QueryDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a materialized query."""

    alias: str
    text: str
    keep: ResultRetention


class Refresh:
    """One refresh of a materialized query. Owned by one thread.

    Engines in other processes run each of ``questions`` over the rows of each table after ``after``
    up to the position in ``marks``, and pass the results to ``Remembered.commit``.
    """

    def __init__(
        self,
        definition: QueryDefinition,
        journal: ResultLog,
        base: CommitBase,
        shape: IncrementalPlan,
        tables: Mapping[str, TableSnapshot],
        marks: Marks,
        states: StateMerger,
        now_us: int,
    ) -> None:
        self.definition = definition
        self.journal = journal
        self.base = base
        self.shape = shape
        self.marks = marks
        """The positions of the tables."""
        self.states = states
        self._tables = tables
        self._now_us = now_us
        self._loaded: dict[FrameRun, pa.Table] = {}
        self._stored = base.manifest
        if self._stored is not None and not self._is_usable(self._stored):
            self._stored = None

    @property
    def queries(self) -> tuple[BoundQuery, ...]:
        """The queries to run over the new rows."""
        return tuple(part.bound for part in self.shape.parts)

    @property
    def is_full(self) -> bool:
        """Whether the stored state is unusable: all rows are new."""
        return self._stored is None

    @property
    def has_new_rows(self) -> bool:
        old = self._stored
        if old is None:
            return True
        return any(mark.has_new_rows(old.marks[event]) for event, mark in self.marks.items())

    @property
    def after(self) -> dict[str, int]:
        """The position in each table after which rows are new."""
        old = self._stored
        return {event: old.marks[event].position if old else 0 for event in self.marks}

    @property
    def generation(self) -> int:
        """The generation of the stored state, or of the state after the commit."""
        old = self.base.manifest
        return (old.generation if old else 0) + self.is_full

    @property
    def position(self) -> int:
        """The position of the first table."""
        return next(iter(self.marks.values())).position

    def empty_state(self, part: int) -> pa.Table:
        """An empty state of a part."""
        columns = self.shape.parts[part].columns
        assert columns is not None
        return columns.empty_table()

    def ignore_stored(self) -> None:
        """Ignore the stored state."""
        self._stored = None

    def new_rows(self, progress: Progress = silent) -> dict[str, EventTableSnapshot]:
        """The tables, restricted to their new rows."""
        after = self.after
        return {
            event: DeltaSnapshot(table, after[event], progress)
            for event, table in self._tables.items()
        }

    @property
    def new_bytes(self) -> int:
        """Bytes of the files that have new rows."""
        after = self.after
        return sum(table.stored_bytes(after[event]) for event, table in self._tables.items())

    @property
    def is_complete(self) -> bool:
        """Whether no later row can be in the result: all first rows are stored."""
        first = self.shape.first
        if first is None or self.shape.bound.order_by is not None:
            return False
        return sum(run.rows for run in self._runs(0)) >= first

    def merged_state(self, part: int, new_rows: pa.Table | None) -> pa.Table:
        """The whole state of a part: stored and new rows, without those that retention removes."""
        state = self.shape.parts[part]
        tables = [self._load(run) for run in self._runs(part)]
        tables += [] if new_rows is None else [new_rows]
        if state.columns is None:
            return tables[-1]
        tables = [self._within_retention(table) for table in tables]
        return self.states.merge(state, newest_rows(self.definition.keep, tables))

    def pieces(self, part: int, new_rows: pa.Table) -> tuple[list[FrameRun], list[ResultPiece]]:
        """The runs of a part that stay, and the pieces to write for the new rows."""
        runs = self._runs(part)
        if self.shape.kind == "rows":
            keep = self.definition.keep
            runs = runs[expired_runs(keep, runs, new_rows.num_rows, self._now_us) :]
        if self.shape.kind == "whole":
            return [], [ResultPiece(part, new_rows)]
        if not new_rows.num_rows:
            return runs, []
        merged = to_merge(runs, new_rows.num_rows)
        staying = runs[: len(runs) - merged]
        tables = [self._load(run) for run in runs[len(staying) :]]
        return staying, self._pieces_of(part, [*tables, new_rows])

    def new_manifest(self, runs: tuple[FrameRun, ...], rows_added: int) -> QueryManifest:
        """The manifest of a commit with these runs, which added ``rows_added`` rows."""
        old = self.base.manifest
        is_full = self.is_full
        counters = old.counters if old else CommitCounters()
        stored = sum(run.rows for run in self._runs(0))
        added = sum(run.rows for run in runs if run.part == 0) - stored
        dropped = max(0, rows_added - added) if self.shape.kind == "rows" else 0
        old_runs = set(self._stored.runs if self._stored else ())
        written = sum(run.rows for run in runs if run.part == 0 and run not in old_runs)
        return QueryManifest(
            alias=self.definition.alias,
            text=self.definition.text,
            kind=self.shape.kind,
            shape=self.shape.digest,
            keep=self.definition.keep,
            marks=self.marks,
            runs=runs,
            generation=self.generation,
            created_us=old.created_us if old else self._now_us,
            refreshed_us=self._now_us,
            counters=CommitCounters(
                commits=counters.commits + 1,
                recomputed=counters.recomputed + is_full,
                rows_taken=counters.rows_taken + rows_added,
                rows_dropped=counters.rows_dropped + dropped,
                rows_rewritten=counters.rows_rewritten + max(0, written - rows_added),
            ),
        )

    def _is_usable(self, old: QueryManifest) -> bool:
        if old.shape != self.shape.digest or old.marks.keys() != self.marks.keys():
            return False
        pairs = [(mark, old.marks[event]) for event, mark in self.marks.items()]
        if self.shape.kind == "whole":
            return not any(mark.has_new_rows(before) for mark, before in pairs)
        return all(mark.continues(before) for mark, before in pairs)

    def _pieces_of(self, part: int, tables: Sequence[pa.Table]) -> list[ResultPiece]:
        tables = [self._within_retention(table) for table in tables]
        rows = self.states.merge(self.shape.parts[part], newest_rows(self.definition.keep, tables))
        if self.shape.kind != "rows":
            return [ResultPiece(part, rows)]
        rows = first_rows(self.shape, rows)
        if not rows.num_rows:
            return []
        return [ResultPiece(part, rows, newest_us=rows[TS].cast(pa.int64())[-1].as_py())]

    def _within_retention(self, table: pa.Table) -> pa.Table:
        return unexpired_rows(self.definition.keep, self.shape, table, self._now_us)

    def _runs(self, part: int) -> list[FrameRun]:
        return [run for run in self._stored.runs if run.part == part] if self._stored else []

    def _load(self, run: FrameRun) -> pa.Table:
        """A run, read once; FramesGone when a later commit has replaced it."""
        if run not in self._loaded:
            loaded = self.journal.load(run)
            is_first = self.shape.kind == "groups" and run.part == 0
            self._loaded[run] = add_scaled_totals(self.shape, loaded) if is_first else loaded
        return self._loaded[run]
