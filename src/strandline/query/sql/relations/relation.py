"""What SQL needs of anything that it can ask: columns, and rows as of a position.

    Source     a relation of the store as it is named, not read yet: which topics it comes from
    Position   how far each of these topics had come, at one moment
    Relation   the source at the position: asked for columns, as often as a plan needs it

A relation gives all rows that fulfil a condition and maybe more: DuckDB's filter is applied to what
it gives (``dataset.py``). It may be asked by threads of DuckDB, several at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from strandline.log.topic.topic import Topic
from strandline.query.sql.filters import Where
from strandline.views.open_view import Views
from strandline.views.view_runner import Host

ROWS_AT_ONCE = 8192
"""Rows of a batch that is put together here, about."""

TIME = pa.timestamp("us", tz="UTC")


class Store(Protocol):
    """A store, as SQL sees it."""

    @property
    def id(self) -> str: ...

    @property
    def views(self) -> Views: ...

    def topics(self, prefix: str = "") -> list[str]: ...

    def existing_topic(self, name: str) -> Topic: ...


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of some topics."""

    heads: Mapping[str, int]
    """The last record of each that counts."""
    moment_us: int | None = None
    """The time that it is then; None when only the records count."""
    past: bool = False
    """Whether somebody asked for it, rather than for now."""


class Relation(Protocol):
    """Rows of one position. Safe from many threads."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        """Rows with these columns, maybe more: all rows that fulfil the condition, at least."""
        ...


class Notes:
    """What is to be known about an answer, complete when its rows are read. Owned by one query."""

    def __init__(self) -> None:
        self._relations: tuple[Relation, ...] = ()

    def watch(self, relations: Iterable[Relation]) -> None:
        self._relations = tuple(relations)

    def texts(self) -> tuple[str, ...]:
        told = (relation.notes() for relation in self._relations if isinstance(relation, Noting))
        return tuple(note for notes in told for note in notes)


@runtime_checkable
class Noting(Protocol):
    """A relation that has something to tell about the rows that were read."""

    def notes(self) -> Sequence[str]: ...


class Source(Protocol):
    """A relation of the store, not read yet. Owned by one question."""

    @property
    def topics(self) -> Sequence[Topic]:
        """Where its rows come from."""
        ...

    @property
    def held(self) -> Sequence[Host[Any]]:
        """Views that know nothing but the present: they are held while a position is taken."""
        ...

    def at(self, position: Position) -> Relation:
        """The rows of a position. What is ``held`` is at that position just now."""
        ...


def texts(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Bytes as text, null where they are no UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text_of(value) for value in values.to_pylist()], pa.string())


def text_of(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
