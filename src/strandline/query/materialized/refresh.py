"""One look at a remembered query: what is stored, where its tables stand, and what is new.

The newest manifest is read first, then the tables: so no table is behind what the manifest has
seen, unless it has lost something. Whatever somebody else commits meanwhile, what was read here
fits together: stored state and news are the answer as of the tables that were read.

News can be added when every table still has all that was seen of it. It is remembered anew when

    - rows of the past were deleted, the table was made anew, or it lost its end in a crash
    - the query is another one: a field that it uses has another type now
    - it is a sequence, and any of its tables has news
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from strandline.log.progress import Progress, silent
from strandline.query.language.bound_ast import Bound
from strandline.query.materialized.delta_snapshot import News
from strandline.query.materialized.incremental_plan import Shape
from strandline.query.materialized.manifest import Counters, Keep, Manifest, Marks, Run
from strandline.query.materialized.merge_policy import to_merge
from strandline.query.materialized.partial_aggregates import States, completed, in_front
from strandline.query.materialized.result_log import Base, Journal, Piece
from strandline.query.materialized.retention import newest_rows, runs_over, still_kept
from strandline.views.table.snapshot import TS, Snapshot


class TableSnapshot(Snapshot, Protocol):
    """A table at one position, that also tells when its past has changed."""

    @property
    def deletions(self) -> int:
        """Rises when rows of the past have gone."""
        ...

    def stored_bytes(self, after: int = 0) -> int:
        """Of files that have rows behind a seq."""
        ...


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to be remembered."""

    alias: str
    text: str
    keep: Keep


class Visit:
    """A look at a remembered query. Owned by one thread.

    For engines elsewhere: answer each of ``questions`` over the rows of each table behind ``after``
    up to the position in ``marks``, and hand the answers to ``Remembered.commit``.
    """

    def __init__(
        self,
        definition: Definition,
        journal: Journal,
        base: Base,
        shape: Shape,
        tables: Mapping[str, TableSnapshot],
        marks: Marks,
        states: States,
        now_us: int,
    ) -> None:
        self.definition = definition
        self.journal = journal
        self.base = base
        self.shape = shape
        self.marks = marks
        """Where the tables stand."""
        self.states = states
        self._tables = tables
        self._now_us = now_us
        self._loaded: dict[Run, pa.Table] = {}
        self._stored = base.manifest
        if self._stored is not None and not self._is_of_use(self._stored):
            self._stored = None

    @property
    def questions(self) -> tuple[Bound, ...]:
        """What has to be answered over the news."""
        return tuple(part.bound for part in self.shape.parts)

    @property
    def is_anew(self) -> bool:
        """Whether nothing that is stored is of use: everything counts as news."""
        return self._stored is None

    @property
    def has_news(self) -> bool:
        old = self._stored
        if old is None:
            return True
        return any(mark.has_news(old.marks[event]) for event, mark in self.marks.items())

    @property
    def after(self) -> dict[str, int]:
        """The position in each table that news are behind."""
        old = self._stored
        return {event: old.marks[event].position if old else 0 for event in self.marks}

    @property
    def generation(self) -> int:
        """That of what is stored, or of what will be when news are."""
        old = self.base.manifest
        return (old.generation if old else 0) + self.is_anew

    @property
    def position(self) -> int:
        """Where the first table stands."""
        return next(iter(self.marks.values())).position

    def nothing(self, part: int) -> pa.Table:
        """A state of a part without rows."""
        columns = self.shape.parts[part].columns
        assert columns is not None
        return columns.empty_table()

    def count_all_as_news(self) -> None:
        """Make no use of what is stored."""
        self._stored = None

    def news(self, progress: Progress = silent) -> dict[str, Snapshot]:
        """The tables, as if they began with their news."""
        after = self.after
        return {event: News(table, after[event], progress) for event, table in self._tables.items()}

    @property
    def news_bytes(self) -> int:
        """Of the files that have news."""
        after = self.after
        return sum(table.stored_bytes(after[event]) for event, table in self._tables.items())

    @property
    def is_complete(self) -> bool:
        """Whether no row that comes later can ever be shown: the first ones are there."""
        first = self.shape.first
        if first is None or self.shape.bound.order_by is not None:
            return False
        return sum(run.rows for run in self._runs(0)) >= first

    def whole(self, part: int, news: pa.Table | None) -> pa.Table:
        """The whole state of a part: stored and new, without what is no longer kept."""
        made = self.shape.parts[part]
        tables = [self._load(run) for run in self._runs(part)]
        tables += [] if news is None else [news]
        if made.columns is None:
            return tables[-1]
        tables = [self._still_kept(table) for table in tables]
        return self.states.merge(made, newest_rows(self.definition.keep, tables))

    def pieces(self, part: int, news: pa.Table) -> tuple[list[Run], list[Piece]]:
        """The runs of a part that stay, and what is to be written for the news."""
        runs = self._runs(part)
        if self.shape.kind == "rows":
            keep = self.definition.keep
            runs = runs[runs_over(keep, runs, news.num_rows, self._now_us) :]
        if self.shape.kind == "whole":
            return [], [Piece(part, news)]
        if not news.num_rows:
            return runs, []
        taken = to_merge(runs, news.num_rows)
        staying = runs[: len(runs) - taken]
        tables = [self._load(run) for run in runs[len(staying) :]]
        return staying, self._written(part, [*tables, news])

    def closing(self, runs: tuple[Run, ...], news: int) -> Manifest:
        """The manifest with these runs, made of so many rows of news."""
        old = self.base.manifest
        anew = self.is_anew
        counted = old.counters if old else Counters()
        stored = sum(run.rows for run in self._runs(0))
        added = sum(run.rows for run in runs if run.part == 0) - stored
        dropped = max(0, news - added) if self.shape.kind == "rows" else 0
        kept = set(self._stored.runs if self._stored else ())
        written = sum(run.rows for run in runs if run.part == 0 and run not in kept)
        return Manifest(
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
            counters=Counters(
                commits=counted.commits + 1,
                anew=counted.anew + anew,
                rows_taken=counted.rows_taken + news,
                rows_dropped=counted.rows_dropped + dropped,
                rows_rewritten=counted.rows_rewritten + max(0, written - news),
            ),
        )

    def _is_of_use(self, old: Manifest) -> bool:
        if old.shape != self.shape.digest or old.marks.keys() != self.marks.keys():
            return False
        pairs = [(mark, old.marks[event]) for event, mark in self.marks.items()]
        if self.shape.kind == "whole":
            return not any(mark.has_news(before) for mark, before in pairs)
        return all(mark.continues(before) for mark, before in pairs)

    def _written(self, part: int, tables: Sequence[pa.Table]) -> list[Piece]:
        tables = [self._still_kept(table) for table in tables]
        made = self.states.merge(self.shape.parts[part], newest_rows(self.definition.keep, tables))
        if self.shape.kind != "rows":
            return [Piece(part, made)]
        made = in_front(self.shape, made)
        if not made.num_rows:
            return []
        return [Piece(part, made, newest_us=made[TS].cast(pa.int64())[-1].as_py())]

    def _still_kept(self, table: pa.Table) -> pa.Table:
        return still_kept(self.definition.keep, self.shape, table, self._now_us)

    def _runs(self, part: int) -> list[Run]:
        return [run for run in self._stored.runs if run.part == part] if self._stored else []

    def _load(self, run: Run) -> pa.Table:
        """A run, read once. FramesGone when a later commit has replaced it."""
        if run not in self._loaded:
            loaded = self.journal.load(run)
            is_first = self.shape.kind == "groups" and run.part == 0
            self._loaded[run] = completed(self.shape, loaded) if is_first else loaded
        return self._loaded[run]
