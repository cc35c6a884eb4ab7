"""What has changed in a remembered query's answer, for whoever follows it.

A change says which rows came and which went, as SHOW would tell them; their order is not told. A
group whose figures changed is in both: its old row went, its new one came. Between two changes
there may have been several commits: what came and went again meanwhile is not told.

    a selection without LIMIT and KEEP    only gets more rows: those behind the follower's position
                                          are told, and nothing has to be held for him
    every other query                     what he was told last is held, and compared

When that is not possible a change is ``anew``: ``added`` is all there is, and what he was told
before is over. So it is when a selection was remembered anew (rows of the past were deleted, or the
type of a field has changed), when columns have changed, and when a follower comes back with the
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
from strandline.query.materialized.manifest import NO_KEEP
from strandline.query.materialized.refresh import Visit
from strandline.views.table.snapshot import SEQ


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that came and went, up to a cursor."""

    cursor: str
    """To go on from here later: ``follow(alias, after=cursor)``."""
    added: pa.Table
    removed: pa.Table
    anew: bool = False
    """``added`` is everything, whatever was told before."""


class Cursor(msgspec.Struct, frozen=True):
    """Where a follower stands."""

    generation: int = 0
    mark: int = 0
    """Seq of the manifest in the query's topic; 0 when what was told is not stored."""
    position: int = 0
    """Of the first table."""

    def __str__(self) -> str:
        return f"{self.generation}.{self.mark}.{self.position}"


def read_cursor(text: str) -> Cursor:
    """A cursor from its text; "" is the beginning."""
    if not text:
        return Cursor()
    try:
        generation, mark, position = map(int, text.split("."))
    except ValueError as error:
        raise Invalid(f"{text!r} is no cursor of a remembered query") from error
    return Cursor(generation, mark, position)


class Seen(NamedTuple):
    """What a look has shown a follower, before he goes on from there."""

    generation: int
    position: int
    added: pa.Table
    removed: pa.Table
    anew: bool
    shown: pa.Table | None
    """All of it, when it has to be held."""


class Follower:
    """What one follower has been told. Owned by one thread."""

    def __init__(self, after: str = "") -> None:
        self._cursor = read_cursor(after)
        self._told: pa.Table | None = None

    def see(self, look: Visit, news: pa.Table | None, answer: Callable[[], Result]) -> Seen:
        """What a look shows him that he does not know. ``answer`` is what SHOW would say."""
        if _only_gets_more(look):
            return self._more_rows(look, news)
        return self._difference(look, answer().arrow())

    def go_on(self, seen: Seen, mark: int) -> Change | None:
        """He has seen it, and all of it is stored in this manifest; None when nothing is new."""
        is_first = self._cursor == Cursor()
        self._cursor = Cursor(seen.generation, mark, seen.position)
        self._told = seen.shown
        if not (seen.added.num_rows or seen.removed.num_rows or (seen.anew and not is_first)):
            return None
        return Change(
            cursor=str(self._cursor), added=seen.added, removed=seen.removed, anew=seen.anew
        )

    def _more_rows(self, look: Visit, news: pa.Table | None) -> Seen:
        known = self._cursor.position
        anew = self._cursor.generation != look.generation
        if anew or known < next(iter(look.after.values())):
            rows = look.whole(0, news)
        else:
            rows = look.nothing(0) if news is None else news
        if not anew:
            rows = rows.filter(pc.greater(rows[SEQ], pa.scalar(known, pa.uint64())))
        columns = look.shape.bound.columns
        added = rows.select([column.field for column in columns])
        added = added.rename_columns([column.name for column in columns])
        return Seen(look.generation, look.position, added, added.slice(0, 0), anew, None)

    def _difference(self, look: Visit, shown: pa.Table) -> Seen:
        told = self._told
        if told is None and not look.has_news and self._cursor.mark == look.base.cursor:
            told = shown
        if told is None or told.schema != shown.schema:
            nothing = shown.slice(0, 0)
            return Seen(look.generation, look.position, shown, nothing, True, shown)
        added = look.states.only_in_first(shown, told)
        removed = look.states.only_in_first(told, shown)
        return Seen(look.generation, look.position, added, removed, False, shown)


def _only_gets_more(look: Visit) -> bool:
    bound = look.shape.bound
    unlimited = bound.limit is None and not bound.offset
    return look.shape.kind == "rows" and unlimited and look.definition.keep == NO_KEEP
