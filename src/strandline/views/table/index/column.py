"""Converts a column of a table to the form that indexes are built from. Pure.

Rows are divided into zones of equal size; the last may be shorter. A column is one of

    Numbers    sorted in each zone, with nulls at the end: bounds, ranks, bins and distinct values
               are then found without reading the rows again
    Coded      few distinct texts: the index of each in the sorted list of all
    Texts      many distinct texts

A column of floats with a NaN, which JSON cannot express, is not converted: it has no order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from strandline.schema import FieldType, FieldTypeName
from strandline.views.table.index.index_choice import IndexPolicy
from strandline.views.table.snapshot import CONTEXT, SEQ, TS

Grid = NDArray[Any]
"""A row for each zone."""

CORE_KINDS = {SEQ: FieldType("u64"), TS: FieldType("datetime"), CONTEXT: FieldType("string")}
"""The kinds of the columns that every table has."""

DTYPES: dict[FieldTypeName, str] = {
    "u64": "<u8",
    "i64": "<i8",
    "f64": "<f8",
    "bool": "<u1",
    "datetime": "<i8",
    "date": "<i4",
}

_PLAIN: dict[FieldTypeName, pa.DataType] = {
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.uint8(),
    "datetime": pa.int64(),
    "date": pa.int32(),
}
_TEXT_BYTES_MAX = 1 << 30
"""Above this size, offsets of 32 bits may not be enough."""
_SAMPLE_ROWS = 1 << 15


class ZoneLayout(NamedTuple):
    """The division of rows into zones."""

    rows: int
    zone_rows: int

    @property
    def zones(self) -> int:
        return -(-self.rows // self.zone_rows)

    def begins(self) -> NDArray[np.int64]:
        """The first row of each zone."""
        return np.arange(self.zones, dtype="<i8") * self.zone_rows

    def sizes(self) -> NDArray[np.int64]:
        """The number of rows of each zone."""
        return (self.rows - self.begins()).clip(max=self.zone_rows)

    def grid(self, values: NDArray[Any], fill: Any) -> Grid:
        """Values of all rows, a grid row for each zone; the last is padded with ``fill``."""
        width = min(self.zone_rows, self.rows)
        full = np.full((self.zones, width), fill, values.dtype)
        full.reshape(-1)[: self.rows] = values
        return full


class NumberColumn(NamedTuple):
    """A column of numbers, or of values that are stored as numbers."""

    kind: FieldType
    sorted: Grid
    """The values of each zone in order."""
    present: NDArray[np.int64]
    """The number of values of each zone; the padding after them is not less than they are."""


class CodedTextColumn(NamedTuple):
    """A column of few distinct texts."""

    codes: Grid
    """Indices in ``variants``; -1 for null and padding."""
    variants: list[bytes]
    """Sorted; each is in some row."""
    present: NDArray[np.int64]


class TextColumn(NamedTuple):
    """A column of many distinct texts."""

    texts: pa.Array
    """Strings; ``valid`` has the nulls."""
    valid: Grid
    present: NDArray[np.int64]


def numbers_of(column: pa.ChunkedArray, kind: FieldType, layout: ZoneLayout) -> NumberColumn | None:
    """A column of numbers, or None if it has no order."""
    plain = column.cast(_PLAIN[kind.name])
    values = pc.fill_null(plain, 0).to_numpy().astype(DTYPES[kind.name], copy=True)
    if kind.name == "f64":
        if np.isnan(values).any():
            return None
        values += 0.0  # -0.0 becomes 0.0, which equals it
    valid = _valid(plain)
    last = np.inf if kind.name == "f64" else np.iinfo(values.dtype).max
    values[~valid] = last
    grid = layout.grid(values, last)
    grid.sort(axis=1)
    return NumberColumn(kind, grid, layout.grid(valid, fill=False).sum(axis=1))


def texts_of(
    column: pa.ChunkedArray, layout: ZoneLayout, policy: IndexPolicy
) -> CodedTextColumn | TextColumn:
    """A column of texts, coded if the policy allows it for their number."""
    if not pa.types.is_dictionary(column.type):
        column = _plain(column)
        column = column.dictionary_encode() if _should_encode(column, policy) else column
    if pa.types.is_dictionary(column.type):
        array = _only_chunk(column.unify_dictionaries())
        if policy.may_be_coded(len(array.dictionary)):
            return _coded(array, layout)
        column = _plain(column.cast(pa.string()))
    valid = layout.grid(_valid(column), fill=False)
    return TextColumn(_only_chunk(column), valid, valid.sum(axis=1))


def _coded(array: pa.DictionaryArray, layout: ZoneLayout) -> CodedTextColumn:
    """The codes of a dictionary array, by the order of the used texts. A dictionary may have a text
    twice, and null."""
    rows = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype("<i4")
    used = np.zeros(len(array.dictionary) + 1, bool)
    used[rows] = True  # the code -1 of nulls marks the last entry
    texts = [None if text is None else text.encode() for text in array.dictionary.to_pylist()]
    variants = sorted(
        {text for text, is_used in zip(texts, used, strict=False) if is_used and text is not None}
    )
    code_of = {text: code for code, text in enumerate(variants)}
    codes = np.array([*(code_of.get(text, -1) for text in texts), -1], "<i4")[rows]
    grid = layout.grid(codes, -1)
    return CodedTextColumn(grid, variants, (grid >= 0).sum(axis=1))


def _should_encode(column: pa.ChunkedArray, policy: IndexPolicy) -> bool:
    """Whether an evenly spaced sample of the rows has few distinct texts: to encode a column with
    many of them costs more than all other steps."""
    step = max(1, len(column) // _SAMPLE_ROWS)
    sample = column.take(pa.array(np.arange(0, len(column), step)))
    return policy.may_be_coded(len(sample.unique()))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    wide = pa.large_string() if column.nbytes > _TEXT_BYTES_MAX else pa.string()
    return column if column.type == wide else column.cast(wide)


def _valid(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = column.is_valid().to_numpy()
    return valid


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
