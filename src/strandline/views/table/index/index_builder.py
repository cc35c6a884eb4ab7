"""Builds all indexes of a file's rows, as the bytes of its file of indexes. Pure.

Every column is read once, with numpy and Arrow, by zone or as a whole; no row becomes a Python
object. Measured counts decide which indexes a field gets (index_choice.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strandline.schema import FieldType, Schema
from strandline.views.table.index import (
    bitmap,
    calendar,
    codec,
    context_ranges,
    hashing,
    imprint,
    membership,
    min_max,
    top_k_bounds,
)
from strandline.views.table.index.codec import IndexSection, RowsOrigin
from strandline.views.table.index.column import (
    CORE_KINDS,
    DTYPES,
    CodedTextColumn,
    NumberColumn,
    TextColumn,
    ZoneLayout,
    numbers_of,
    texts_of,
)
from strandline.views.table.index.hashing import NO_HASH, Hashes
from strandline.views.table.index.index_choice import IndexPolicy
from strandline.views.table.index.predicate import TEXTS
from strandline.views.table.snapshot import CONTEXT, SEQ

_ORDER = [
    min_max.KIND,
    context_ranges.KIND,
    imprint.KIND,
    bitmap.KIND,
    calendar.KIND,
    top_k_bounds.KIND,
    membership.FILE_KIND,
    membership.KIND,
]
"""The order of sections: small ones that are used often come first."""

_FILTERED = ("u64", "i64")
"""Numbers that may be ids; a float or a time is hardly ever queried by its exact value."""
_SAMPLE_MASK = np.uint64(15)
_SAMPLE_MIN = 1 << 16


def build(
    table: pa.Table,
    schema: Schema,
    zone_rows: int,
    policy: IndexPolicy | None = None,
    *,
    origin: RowsOrigin | None = None,
) -> bytes:
    """The file of indexes of the rows of ``origin``, sorted by context, time and seq.

    Columns are read by name, one after the other: they need not be in memory together.
    """
    policy = policy or IndexPolicy()
    layout = ZoneLayout(len(table), zone_rows)
    kinds = {
        field: kind
        for field, kind in (CORE_KINDS | schema.columns()).items()
        if field in table.column_names
    }
    sections: list[IndexSection] = []
    for field, kind in kinds.items() if layout.zones else ():
        indexes = _indexes(field, kind, table[field], layout, policy)
        sections += (IndexSection(field, name, data) for name, data in indexes if data is not None)
    sections.sort(key=lambda section: _ORDER.index(section.kind))
    types = {field: str(kind) for field, kind in kinds.items()}
    return codec.encode(sections, types=types, rows=len(table), zone_rows=zone_rows, origin=origin)


def _indexes(
    field: str, kind: FieldType, column: pa.ChunkedArray, layout: ZoneLayout, policy: IndexPolicy
) -> Iterator[tuple[str, bytes | None]]:
    """The indexes of a field; None for one that cannot be built."""
    if kind.name in TEXTS:
        texts = texts_of(column, layout, policy)
        yield min_max.KIND, min_max.build(texts, layout)
        if field == CONTEXT:
            yield context_ranges.KIND, context_ranges.build(column, layout)
            yield membership.FILE_KIND, membership.build_file(_pairs(_hashes(texts, layout))[0])
        else:
            yield from _text_indexes(texts, kind, layout, policy)
        return
    numbers = numbers_of(column, kind, layout)
    if numbers is None:
        return
    yield min_max.KIND, min_max.build(numbers, layout)
    if kind.name == "bool":
        return
    yield imprint.KIND, imprint.build(numbers)
    yield top_k_bounds.KIND, top_k_bounds.build(numbers, policy.rank_max)
    if kind.name == "datetime":
        yield calendar.KIND, calendar.build(numbers, policy)
    if kind.name in _FILTERED and field != SEQ:
        yield from _filters(_number_hashes(numbers), layout, policy)


def _text_indexes(
    texts: CodedTextColumn | TextColumn, kind: FieldType, layout: ZoneLayout, policy: IndexPolicy
) -> Iterator[tuple[str, bytes]]:
    if isinstance(texts, CodedTextColumn) and policy.has_bitmap(
        variants=len(texts.variants), rows=layout.rows, is_enum=kind.name == "enum"
    ):
        yield bitmap.KIND, bitmap.build(texts)
        return
    yield from _filters(_hashes(texts, layout), layout, policy)


def _filters(grid: Hashes, layout: ZoneLayout, policy: IndexPolicy) -> Iterator[tuple[str, bytes]]:
    hashes, zones = _pairs(grid)
    # A sample of a sixteenth of the values, with all of their zones, is as good as all values.
    sample = np.sort(hashes[hashes & _SAMPLE_MASK == 0] if len(hashes) > _SAMPLE_MIN else hashes)
    distinct = int((sample[1:] != sample[:-1]).sum()) + 1 if len(sample) else 0
    if not policy.has_filters(pairs=len(sample), distinct=distinct, zones=layout.zones):
        return
    yield membership.FILE_KIND, membership.build_file(hashes)
    if layout.zones > 1:
        yield membership.KIND, membership.build_zones(hashes, zones, layout.zones)


def _pairs(grid: Hashes) -> tuple[Hashes, NDArray[np.int64]]:
    """The distinct hashes of each zone, and their zones, from a grid that is sorted by zone."""
    is_new = grid != NO_HASH
    is_new[:, 1:] &= grid[:, 1:] != grid[:, :-1]
    zones, _ = np.nonzero(is_new)
    return grid[is_new], zones


def _hashes(texts: CodedTextColumn | TextColumn, layout: ZoneLayout) -> Hashes:
    if isinstance(texts, CodedTextColumn):
        by_code = hashing.of_texts(pa.array(texts.variants, pa.binary()))
        grid = np.append(by_code, NO_HASH)[texts.codes]
    else:
        grid = layout.grid(hashing.of_texts(texts.texts), NO_HASH)
        grid[~texts.valid] = NO_HASH
    grid.sort(axis=1)
    return grid


def _number_hashes(numbers: NumberColumn) -> Hashes:
    """Hashes in the order of the sorted values, so that equal hashes are neighbours, too."""
    assert DTYPES[numbers.kind.name] in ("<u8", "<i8")
    grid = hashing.of_numbers(numbers.sorted)
    columns = np.arange(grid.shape[1])
    grid[columns >= numbers.present[:, None]] = NO_HASH
    return grid
