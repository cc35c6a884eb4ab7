"""Reads the file of indexes of a table's file: zones for a condition, zones for the first rows.

Sections are read at first use, verified, and cached. zone_filter.py evaluates conditions,
top_k_bounds.py finds the zones of the first rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strandline.schema import FieldType, Schema, parse_type
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
from strandline.views.table.index.codec import Fetch, IndexEntry, RowsOrigin
from strandline.views.table.index.column import ZoneLayout
from strandline.views.table.index.min_max import MinMaxIndex
from strandline.views.table.index.predicate import TEXTS, OneOf, Test
from strandline.views.table.index.top_k_bounds import TopKBounds, TopKInput
from strandline.views.table.index.zone_filter import ZoneFilter, ZoneIndex
from strandline.views.table.index.zone_sets import Mask
from strandline.views.table.snapshot import SEQ, TS, Top

HEAD_SIZE = 64 * 1024
"""Bytes that are read when a file is opened: the catalogue, and most small sections."""


_VALUE_INDEXES: dict[str, Callable[[bytes, ZoneLayout], ZoneIndex]] = {
    context_ranges.KIND: context_ranges.ContextIndex,
    min_max.KIND: MinMaxIndex,
    imprint.KIND: imprint.ImprintIndex,
    bitmap.KIND: bitmap.BitmapIndex,
    calendar.KIND: calendar.CalendarIndex,
    membership.FILE_KIND: membership.FileMembershipIndex,
    membership.KIND: membership.ZoneMembershipIndex,
}
"""Indexes in the order in which they are used."""

_KINDS: dict[str, Callable[[bytes, ZoneLayout], Any]] = {
    **_VALUE_INDEXES,
    top_k_bounds.KIND: TopKBounds,
}
_FILTERS = (membership.FILE_KIND, membership.KIND)
"""Indexes that are large and support only tests of values."""


class Indexes:
    """The zone indexes of one file. Safe to call from many threads."""

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
        self.origin: RowsOrigin | None = catalogue.origin
        """The file of rows that they belong to; None in files of earlier versions."""
        self._layout = ZoneLayout(self.header.rows, self.header.zone_rows)
        self._kinds: dict[str, FieldType] = {}
        self._loaded: dict[tuple[str, str], Any] = {}

    @property
    def zones(self) -> int:
        return self.header.zones

    @property
    def rows(self) -> int:
        return self.header.rows

    @property
    def ram(self) -> int:
        """Bytes of memory."""
        own = len(self._head) + 200 * len(self._entries)
        return own + sum(int(index.ram) for index in list(self._loaded.values()))

    def catalogue(self) -> dict[str, list[str]]:
        """The kinds of indexes of each field, kinds of newer versions included."""
        kinds: dict[str, list[str]] = {field: [] for field in self._types}
        for field, kind in self._entries:
            kinds.setdefault(field, []).append(kind)
        return kinds

    def seq_bounds(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The least and the greatest seq of each zone."""
        return self._bounds(SEQ)

    def ts_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and the last time of each zone, in microseconds."""
        return self._bounds(TS)

    def prune(
        self, condition: Condition | None, schema: Schema | None = None
    ) -> tuple[Mask, list[str]]:
        """Zones that may hold rows that fulfil a bound condition, and the indexes that excluded
        others, as ``field: kind``.

        ``schema`` is the one that the condition is bound to. The file may have an older one: its
        fields are then converted to the newer types, and those that it lacks are null. Without
        ``schema``, the condition is bound to that of the file.
        """
        evaluation = ZoneFilter(self, schema)
        mask = self._all_zones() if condition is None else evaluation.may(condition, negated=False)
        return mask, evaluation.used

    def top(
        self, top: Top, among: Mask, *, where: Condition | None, schema: Schema | None = None
    ) -> Mask:
        """The zones of ``among`` that may hold one of the first rows that fulfil the condition;
        ``among`` are the zones that the condition did not exclude. The number of rows that are left
        out for other reasons must be added to ``top.rows``."""
        return top_across([(self, among)], top, where=where, schema=schema)[0]

    def kind(self, field: str) -> FieldType | None:
        """The kind of a field of the file; None if it has no such field."""
        kind = self._kinds.get(field)
        if kind is None and (text := self._types.get(field)) is not None:
            kind = self._kinds[field] = parse_type(text, field)
        return kind

    def fence(self, field: str) -> MinMaxIndex | None:
        fence: MinMaxIndex | None = self._load(field, min_max.KIND)
        return fence

    def top_k(self, field: str) -> TopKBounds | None:
        bounds: TopKBounds | None = self._load(field, top_k_bounds.KIND)
        return bounds

    def indexes_for(self, field: str, test: Test) -> Iterator[tuple[str, ZoneIndex]]:
        """The indexes of a field that may support a test, each loaded when it is needed."""
        for kind in _VALUE_INDEXES:
            if kind in _FILTERS and not isinstance(test, OneOf):
                continue
            if (index := self._load(field, kind)) is not None:
                yield kind, index

    def _bounds(self, field: str) -> tuple[Any, Any]:
        fence = self.fence(field)
        if fence is None:
            empty = np.empty(0, "<i8")
            return empty, empty
        return fence.least, fence.greatest

    def _all_zones(self) -> Mask:
        return np.ones(self.zones, bool)

    def _load(self, field: str, kind: str) -> Any:
        index = self._loaded.get((field, kind))
        entry = self._entries.get((field, kind))
        if index is None and entry is not None:
            # Without a lock: two threads may load a section at once, with the same result.
            index = self._loaded[field, kind] = _KINDS[kind](self._section(entry), self._layout)
        return index

    def _section(self, entry: IndexEntry) -> bytes:
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
    """``Indexes.top`` for several files at once: the first rows of all files together."""
    if top.rows <= 0:
        return [np.zeros(indexes.zones, bool) for indexes, _ in files]
    unchanged = [among for _, among in files]
    having = [each for each in files if not _is_null(each[0], top.field, schema)]
    if len({_value_order(indexes, top.field) for indexes, _ in having}) != 1:
        return unchanged  # values of different files are not comparable
    inputs = [_top_input(indexes, top.field, among, where, schema) for indexes, among in having]
    if (masks := top_k_bounds.prune_top_k(inputs, top.rows, descending=top.descending)) is None:
        return unchanged
    best = {id(indexes): mask for (indexes, _), mask in zip(having, masks, strict=True)}
    # A file without the field has only nulls, which come last.
    no_zone = np.zeros(1, bool)
    return [among & best.get(id(indexes), no_zone) for indexes, among in files]


def _is_null(indexes: Indexes, field: str, schema: Schema | None) -> bool:
    """Whether the file has only nulls, because the field was added later."""
    return schema is not None and field in schema.columns() and indexes.kind(field) is None


def _value_order(indexes: Indexes, field: str) -> str | None:
    """The order of a field's values, for comparing files; unique if it is not known."""
    kind = indexes.kind(field)
    if kind is None or indexes.fence(field) is None:
        return f"unknown {id(indexes)}"
    return "text" if kind.name in TEXTS else kind.name


def _top_input(
    indexes: Indexes, field: str, among: Mask, where: Condition | None, schema: Schema | None
) -> TopKInput:
    counted = among
    if where is not None:
        # In a zone that cannot hold a row for which the condition is false, all rows fulfil it.
        counted = among & ~ZoneFilter(indexes, schema).may(where, negated=True)
    bounds = indexes.fence(field)
    assert bounds is not None, "its order is known"
    return TopKInput(bounds, indexes.top_k(field), counted)
