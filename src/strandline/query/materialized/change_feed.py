"""The changes of the result of a materialized query, for its followers.

A change has the rows that were added and removed, as SHOW returns them, in no order. A group whose
aggregates changed is in both: its old row is removed, its new one added. Between two changes there
may have been several commits: rows that were added and removed meanwhile are not reported.

    a selection without LIMIT and KEEP    only gets more rows: those after the follower's position
                                          are returned, and no state is held for the follower
    every other query                     the last result of the follower is held, and compared

When that is not possible a change is ``full``: ``added`` is the whole result, and replaces all
earlier changes. This happens when a selection was computed again in full (old rows were deleted, or
the type of a field has changed), when columns have changed, and when a follower resumes with the
cursor of another state than the stored one, unless the query is of the first kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid
from strandline.query.execute.result import Result
from strandline.query.materialized.manifest import NO_RETENTION
from strandline.query.materialized.refresh import Refresh
from strandline.views.table.snapshot import SEQ


class ResultDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that were added and removed, up to a cursor."""

    cursor: str
    """To resume after this change: ``follow(alias, after=cursor)``."""
    added: pa.Table
    removed: pa.Table
    full: bool = False
    """``added`` is the whole result, and replaces all earlier changes."""


class _FollowCursor(msgspec.Struct, frozen=True):
    """The position of a follower."""

    generation: int = 0
    mark: int = 0
    """Seq of the manifest in the query's topic; 0 when the result of the follower is not stored."""
    position: int = 0
    """The position of the first table."""

    def __str__(self) -> str:
        return f"{self.generation}.{self.mark}.{self.position}"


def read_cursor(text: str) -> _FollowCursor:
    """A cursor from its text; "" is the start."""
    if not text:
        return _FollowCursor()
    try:
        generation, mark, position = map(int, text.split("."))
    except ValueError as error:
        raise Invalid(f"{text!r} is not a cursor of a remembered query") from error
    return _FollowCursor(generation, mark, position)


class _PendingDelta(NamedTuple):
    """A computed change, before the follower is advanced."""

    generation: int
    position: int
    added: pa.Table
    removed: pa.Table
    full: bool
    shown: pa.Table | None
    """The whole result, when it has to be held."""


class Follower:
    """The state of one follower. Owned by one thread."""

    def __init__(self, after: str = "") -> None:
        self._cursor = read_cursor(after)
        self._held: pa.Table | None = None

    def compute_delta(
        self, refresh: Refresh, new_rows: pa.Table | None, show: Callable[[], Result]
    ) -> _PendingDelta:
        """The change since the last call. ``show`` returns the result of SHOW."""
        if _is_append_only(refresh):
            return self._more_rows(refresh, new_rows)
        return self._difference(refresh, show().arrow())

    def advance(self, change: _PendingDelta, mark: int) -> ResultDelta | None:
        """Advance to a change that is stored at ``mark``; None when nothing has changed."""
        is_first = self._cursor == _FollowCursor()
        self._cursor = _FollowCursor(change.generation, mark, change.position)
        self._held = change.shown
        if not (change.added.num_rows or change.removed.num_rows or (change.full and not is_first)):
            return None
        return ResultDelta(
            cursor=str(self._cursor), added=change.added, removed=change.removed, full=change.full
        )

    def _more_rows(self, refresh: Refresh, new_rows: pa.Table | None) -> _PendingDelta:
        known = self._cursor.position
        is_full = self._cursor.generation != refresh.generation
        if is_full or known < next(iter(refresh.after.values())):
            rows = refresh.merged_state(0, new_rows)
        else:
            rows = refresh.empty_state(0) if new_rows is None else new_rows
        if not is_full:
            rows = rows.filter(pc.greater(rows[SEQ], pa.scalar(known, pa.uint64())))
        columns = refresh.shape.bound.columns
        added = rows.select([column.field for column in columns])
        added = added.rename_columns([column.name for column in columns])
        return _PendingDelta(
            refresh.generation, refresh.position, added, added.slice(0, 0), is_full, None
        )

    def _difference(self, refresh: Refresh, shown: pa.Table) -> _PendingDelta:
        held = self._held
        if held is None and not refresh.has_new_rows and self._cursor.mark == refresh.base.cursor:
            held = shown
        if held is None or held.schema != shown.schema:
            nothing = shown.slice(0, 0)
            return _PendingDelta(refresh.generation, refresh.position, shown, nothing, True, shown)
        added = refresh.states.only_in_first(shown, held)
        removed = refresh.states.only_in_first(held, shown)
        return _PendingDelta(refresh.generation, refresh.position, added, removed, False, shown)


def _is_append_only(refresh: Refresh) -> bool:
    bound = refresh.shape.bound
    unlimited = bound.limit is None and not bound.offset
    return refresh.shape.kind == "rows" and unlimited and refresh.definition.keep == NO_RETENTION
