"""The interface of a relation of SQL: columns, and rows as of a position.

    Source     a named relation of the store, not read yet: the topics it is made of
    Position   the seq of each of these topics, at one moment
    Relation   the source at the position: read as often as a plan needs it

A relation returns all rows that fulfil a condition and possibly more: DuckDB's filter is applied to
its rows (``dataset.py``). It may be read by several threads of DuckDB at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from strandline.log.topic.topic import Topic
from strandline.query.sql.filters import Where
from strandline.views.open_view import Views
from strandline.views.view_runner import ViewRunner

ROWS_AT_ONCE = 8192
"""The approximate number of rows of a batch."""

TIME = pa.timestamp("us", tz="UTC")


class SqlStore(Protocol):
    """The operations of a store that SQL uses."""

    @property
    def id(self) -> str: ...

    @property
    def views(self) -> Views: ...

    def topics(self, prefix: str = "") -> list[str]: ...

    def existing_topic(self, name: str) -> Topic: ...


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A position of some topics."""

    heads: Mapping[str, int]
    """The seq of the last record of each topic that is read."""
    moment_us: int | None = None
    """The time of the position; None when it is seqs only."""
    past: bool = False
    """Whether it was requested, instead of now."""


class Relation(Protocol):
    """Rows of one position. Safe from many threads."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        """Rows with these columns: all that fulfil the condition, possibly others too."""
        ...


class Notes:
    """Remarks on a result, complete when its rows are read. Owned by one query."""

    def __init__(self) -> None:
        self._relations: tuple[Relation, ...] = ()

    def watch(self, relations: Iterable[Relation]) -> None:
        self._relations = tuple(relations)

    def texts(self) -> tuple[str, ...]:
        lists = (
            relation.notes() for relation in self._relations if isinstance(relation, _HasNotes)
        )
        return tuple(note for notes in lists for note in notes)


@runtime_checkable
class _HasNotes(Protocol):
    """A relation that has remarks on the rows that were read."""

    def notes(self) -> Sequence[str]: ...


class RelationSource(Protocol):
    """A relation of the store, not read yet. Owned by one query."""

    @property
    def topics(self) -> Sequence[Topic]:
        """The topics that its rows are made of."""
        ...

    @property
    def held(self) -> Sequence[ViewRunner[Any]]:
        """Views that have only their present state: locked while a position is determined."""
        ...

    def at(self, position: Position) -> Relation:
        """The rows of a position. The ``held`` views are at that position during the call."""
        ...


def texts(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Bytes as text, null where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text_of(value) for value in values.to_pylist()], pa.string())


def text_of(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
