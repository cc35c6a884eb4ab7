"""A column of a table in the form that indexes are built from. Pure.

Rows are cut into zones of equal size, the last may be shorter. A column is one of

    Numbers    sorted in each zone, nulls behind them: bounds, ranks, bins and distinct values are
               then found without looking at a row again
    Coded      texts of which there are few: the number of each in the sorted list of all
    Texts      texts of which there are many

A column of floats with a NaN, which no JSON holds, is none of them: it has no order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from strandline.schema import Kind, KindName
from strandline.views.table.index.index_choice import Policy
from strandline.views.table.snapshot import CONTEXT, SEQ, TS

Grid = NDArray[Any]
"""A row for each zone."""

CORE_KINDS = {SEQ: Kind("u64"), TS: Kind("datetime"), CONTEXT: Kind("string")}
"""Of the columns that every table has."""

DTYPES: dict[KindName, str] = {
    "u64": "<u8",
    "i64": "<i8",
    "f64": "<f8",
    "bool": "<u1",
    "datetime": "<i8",
    "date": "<i4",
}

_PLAIN: dict[KindName, pa.DataType] = {
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.uint8(),
    "datetime": pa.int64(),
    "date": pa.int32(),
}
_TEXT_BYTES_MAX = 1 << 30
"""Above, offsets of 32 bits may not be enough."""
_SAMPLE_ROWS = 1 << 15


class Layout(NamedTuple):
    """How rows are cut into zones."""

    rows: int
    zone_rows: int

    @property
    def zones(self) -> int:
        return -(-self.rows // self.zone_rows)

    def begins(self) -> NDArray[np.int64]:
        """The first row of each zone."""
        return np.arange(self.zones, dtype="<i8") * self.zone_rows

    def sizes(self) -> NDArray[np.int64]:
        """Rows of each zone."""
        return (self.rows - self.begins()).clip(max=self.zone_rows)

    def grid(self, values: NDArray[Any], fill: Any) -> Grid:
        """Values of all rows, a line for each zone; the last is filled up."""
        width = min(self.zone_rows, self.rows)
        full = np.full((self.zones, width), fill, values.dtype)
        full.reshape(-1)[: self.rows] = values
        return full


class Numbers(NamedTuple):
    """A column of numbers, or of what is kept as a number."""

    kind: Kind
    sorted: Grid
    """The values of each zone in order."""
    present: NDArray[np.int64]
    """How many of them there are; behind them is something larger or equal."""


class Coded(NamedTuple):
    """A column of few different texts."""

    codes: Grid
    """Places in ``variants``, -1 for null and behind the end."""
    variants: list[bytes]
    """Sorted; each is there."""
    present: NDArray[np.int64]


class Texts(NamedTuple):
    """A column of many different texts."""

    texts: pa.Array
    """Strings; a null has no meaning but by ``valid``."""
    valid: Grid
    present: NDArray[np.int64]


def numbers_of(column: pa.ChunkedArray, kind: Kind, layout: Layout) -> Numbers | None:
    """A column of numbers, or None when it has no order."""
    plain = column.cast(_PLAIN[kind.name])
    values = pc.fill_null(plain, 0).to_numpy().astype(DTYPES[kind.name], copy=True)
    if kind.name == "f64":
        if np.isnan(values).any():
            return None
        values += 0.0  # -0.0 becomes 0.0, which it is equal to
    valid = _valid(plain)
    last = np.inf if kind.name == "f64" else np.iinfo(values.dtype).max
    values[~valid] = last
    grid = layout.grid(values, last)
    grid.sort(axis=1)
    return Numbers(kind, grid, layout.grid(valid, fill=False).sum(axis=1))


def texts_of(column: pa.ChunkedArray, layout: Layout, policy: Policy) -> Coded | Texts:
    """A column of texts, coded when the policy wants that for as many as there are."""
    if not pa.types.is_dictionary(column.type):
        column = _plain(column)
        column = column.dictionary_encode() if _seems_coded(column, policy) else column
    if pa.types.is_dictionary(column.type):
        array = _only_chunk(column.unify_dictionaries())
        if policy.may_be_coded(len(array.dictionary)):
            return _coded(array, layout)
        column = _plain(column.cast(pa.string()))
    valid = layout.grid(_valid(column), fill=False)
    return Texts(_only_chunk(column), valid, valid.sum(axis=1))


def _coded(array: pa.DictionaryArray, layout: Layout) -> Coded:
    """The codes of a dictionary array, after the order of the texts that are in use. A dictionary
    may hold a text twice, and null."""
    rows = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype("<i4")
    used = np.zeros(len(array.dictionary) + 1, bool)
    used[rows] = True  # nulls mark the last
    told = [None if text is None else text.encode() for text in array.dictionary.to_pylist()]
    variants = sorted(
        {text for text, is_used in zip(told, used, strict=False) if is_used and text is not None}
    )
    place_of = {text: place for place, text in enumerate(variants)}
    codes = np.array([*(place_of.get(text, -1) for text in told), -1], "<i4")[rows]
    grid = layout.grid(codes, -1)
    return Coded(grid, variants, (grid >= 0).sum(axis=1))


def _seems_coded(column: pa.ChunkedArray, policy: Policy) -> bool:
    """Whether a part of the rows, taken from everywhere, has few different texts: to encode a
    column of many costs more than all else."""
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
