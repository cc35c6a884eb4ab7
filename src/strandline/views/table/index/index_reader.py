"""The side file of a table's file, read: zones for a condition, zones for the first rows.

Sections are read when they are first asked for, verified, and kept. What a condition becomes is in
zone_filter.py, what the first rows need in top_k_bounds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strandline.schema import Kind, Schema, kind_of
from strandline.views.table.condition import Condition
from strandline.views.table.index import (
    bitmap,
    calendar,
    codec,
    context_ranges,
    imprint,
    membership,
    min_max,
    top_k_bounds,
)
from strandline.views.table.index.codec import Entry, Fetch, Origin
from strandline.views.table.index.column import Layout
from strandline.views.table.index.min_max import Fence
from strandline.views.table.index.predicate import TEXTS, OneOf, Test
from strandline.views.table.index.top_k_bounds import Ladder, Runners
from strandline.views.table.index.zone_filter import Asking, Index
from strandline.views.table.index.zone_sets import Mask
from strandline.views.table.snapshot import SEQ, TS, Top

HEAD_SIZE = 64 * 1024
"""Read at once when a file is opened: the catalogue, and most of what is small."""


_ANSWERING: dict[str, Callable[[bytes, Layout], Index]] = {
    context_ranges.KIND: context_ranges.Context,
    min_max.KIND: Fence,
    imprint.KIND: imprint.Imprint,
    bitmap.KIND: bitmap.Bitmap,
    calendar.KIND: calendar.Calendar,
    membership.FILE_KIND: membership.FileMembership,
    membership.KIND: membership.Membership,
}
"""Indexes in the order in which they are asked."""

_KINDS: dict[str, Callable[[bytes, Layout], Any]] = {**_ANSWERING, top_k_bounds.KIND: Ladder}
_ONLY_VALUES = (membership.FILE_KIND, membership.KIND)
"""They are large, and answer one kind of test."""


class Indexes:
    """The zone indexes of one file. Safe from many threads."""

    def __init__(self, fetch: Fetch, size: int, *, name: str = "zone indexes") -> None:
        """``fetch(offset, size)`` reads the file; ``name`` is for messages."""
        self._fetch, self._name = fetch, name
        self._head = fetch(0, min(size, HEAD_SIZE))
        self.header = codec.decode_header(self._head, size=size, name=name)
        catalogue = codec.decode_catalogue(
            self._bytes(codec.HEADER_SIZE, self.header.catalogue_size), self.header, name
        )
        self._entries = {(entry.field, entry.kind): entry for entry in catalogue.entries}
        self._types = catalogue.types
        self.origin: Origin | None = catalogue.origin
        """The file of rows that these belong to; None in files of earlier versions."""
        self._layout = Layout(self.header.rows, self.header.zone_rows)
        self._kinds: dict[str, Kind] = {}
        self._loaded: dict[tuple[str, str], Any] = {}

    @property
    def zones(self) -> int:
        return self.header.zones

    @property
    def rows(self) -> int:
        return self.header.rows

    @property
    def ram(self) -> int:
        """Bytes that are kept in memory."""
        own = len(self._head) + 200 * len(self._entries)
        return own + sum(int(index.ram) for index in list(self._loaded.values()))

    def catalogue(self) -> dict[str, list[str]]:
        """The kinds of indexes of each field. Kinds of a newer version are told, too."""
        found: dict[str, list[str]] = {field: [] for field in self._types}
        for field, kind in self._entries:
            found.setdefault(field, []).append(kind)
        return found

    def seq_bounds(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The least and the greatest seq of each zone."""
        return self._bounds(SEQ)

    def ts_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and the last moment of each zone, in microseconds."""
        return self._bounds(TS)

    def prune(
        self, condition: Condition | None, schema: Schema | None = None
    ) -> tuple[Mask, list[str]]:
        """Zones that may hold rows that fulfil a bound condition, and the indexes that ruled others
        out, as ``field: kind``.

        ``schema`` is the one that the condition is bound to. The file may be of an older one: its
        fields are then read as the newer types, and those that it does not have are null. Without
        it, the condition is taken to be bound to the file's own.
        """
        asking = Asking(self, schema)
        found = self._all() if condition is None else asking.may(condition, negated=False)
        return found, asking.used

    def top(
        self, top: Top, among: Mask, *, where: Condition | None, schema: Schema | None = None
    ) -> Mask:
        """Those of the zones that may hold one of the first rows that fulfil a condition; ``among``
        are the zones that it left. Rows that do not count for another reason must be added to
        ``top.rows``."""
        return top_across([(self, among)], top, where=where, schema=schema)[0]

    def kind(self, field: str) -> Kind | None:
        """What a field of the file is, None when it has no such field."""
        found = self._kinds.get(field)
        if found is None and (told := self._types.get(field)) is not None:
            found = self._kinds[field] = kind_of(told, field)
        return found

    def fence(self, field: str) -> Fence | None:
        found: Fence | None = self._load(field, min_max.KIND)
        return found

    def ladder(self, field: str) -> Ladder | None:
        found: Ladder | None = self._load(field, top_k_bounds.KIND)
        return found

    def answering(self, field: str, test: Test) -> Iterator[tuple[str, Index]]:
        """The indexes of a field that may answer a test, each loaded when it comes to it."""
        for kind in _ANSWERING:
            if kind in _ONLY_VALUES and not isinstance(test, OneOf):
                continue
            if (found := self._load(field, kind)) is not None:
                yield kind, found

    def _bounds(self, field: str) -> tuple[Any, Any]:
        found = self.fence(field)
        if found is None:
            empty = np.empty(0, "<i8")
            return empty, empty
        return found.least, found.greatest

    def _all(self) -> Mask:
        return np.ones(self.zones, bool)

    def _load(self, field: str, kind: str) -> Any:
        found = self._loaded.get((field, kind))
        entry = self._entries.get((field, kind))
        if found is None and entry is not None:
            # Two threads may do it at once: both make the same.
            found = self._loaded[field, kind] = _KINDS[kind](self._section(entry), self._layout)
        return found

    def _section(self, entry: Entry) -> bytes:
        data = self._bytes(entry.offset, entry.size)
        codec.check_section(data, entry, self._name)
        return data

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size <= len(self._head):
            return self._head[offset : offset + size]
        return self._fetch(offset, size)


def top_across(
    files: Sequence[tuple[Indexes, Mask]],
    top: Top,
    *,
    where: Condition | None,
    schema: Schema | None = None,
) -> list[Mask]:
    """The same as ``Indexes.top`` for several files at once: the first rows are those of all."""
    if top.rows <= 0:
        return [np.zeros(indexes.zones, bool) for indexes, _ in files]
    unchanged = [among for _, among in files]
    having = [each for each in files if not _is_null(each[0], top.field, schema)]
    if len({_order(indexes, top.field) for indexes, _ in having}) != 1:
        return unchanged  # by different orders, or none at all
    runners = [_runners(indexes, top.field, among, where, schema) for indexes, among in having]
    if (found := top_k_bounds.best(runners, top.rows, descending=top.descending)) is None:
        return unchanged
    best = {id(indexes): mask for (indexes, _), mask in zip(having, found, strict=True)}
    # A file without the field has nulls alone, and those come last.
    nowhere = np.zeros(1, bool)
    return [among & best.get(id(indexes), nowhere) for indexes, among in files]


def _is_null(indexes: Indexes, field: str, schema: Schema | None) -> bool:
    """Whether no row of the file has a value, because the field is younger."""
    return schema is not None and field in schema.columns() and indexes.kind(field) is None


def _order(indexes: Indexes, field: str) -> str | None:
    """What the values of a field are compared as; each that is not known is different."""
    kind = indexes.kind(field)
    if kind is None or indexes.fence(field) is None:
        return f"unknown {id(indexes)}"
    return "text" if kind.name in TEXTS else kind.name


def _runners(
    indexes: Indexes, field: str, among: Mask, where: Condition | None, schema: Schema | None
) -> Runners:
    counted = among
    if where is not None:
        # A zone that cannot hold a row for which it is false has only rows for which it is true.
        counted = among & ~Asking(indexes, schema).may(where, negated=True)
    bounds = indexes.fence(field)
    assert bounds is not None, "its order is known"
    return Runners(bounds, indexes.ladder(field), counted)
