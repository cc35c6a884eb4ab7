"""Columns of the caller -> tables: a dict of lists or arrays, an Arrow table, or a record batch.

One column has the times: integers are nanoseconds since 1970, timestamps are converted. Some
columns are tags, and all others are fields: integers, floats or booleans. A null in a field is not
a point; a null or empty tag is a missing tag; a null time is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid
from strandline.views.metrics.ingest.batch import PointRow, PointTable, with_rows
from strandline.views.metrics.names import (
    BETWEEN,
    NAME_BYTES_MAX,
    canonical,
    check_name,
    check_size,
)
from strandline.views.metrics.value_types import (
    AT_MAX,
    AT_MIN,
    FLOAT_EXACT_MAX,
    Ints,
    ValueKind,
    bits_of,
    kind_of_value,
    to_bits,
)

KindOf = Callable[[str], ValueKind | None]
"""Returns the kind of a field, or None if it is not known."""

_Column = tuple[str, ValueKind, Ints, Any]
"""Name, kind, bits, and a mask of the values; None if there are no nulls."""


def tables_of(
    measurement: str, data: Any, *, at: str, tags: Sequence[str], kind_of: KindOf
) -> list[PointTable]:
    """The points of columns; each field with missing values has a separate table."""
    check_name(measurement, "a measurement")
    table = _arrow(data)
    missing = [name for name in (at, *tags) if name not in table.column_names]
    if missing:
        raise Invalid(
            f"there is no column {missing[0]!r}: there are {', '.join(table.column_names)}"
        )
    names = sorted(name for name in table.column_names if name != at and name not in tags)
    if not names:
        raise Invalid("there is no column left for a field")
    if not table.num_rows:
        return []
    times = _times(table.column(at), at)
    series, rows = _series(table, tags)
    whole = PointTable(measurement, (), series, rows, times, ())
    dense: list[_Column] = []
    sparse: list[_Column] = []
    for name in names:
        check_name(name, "a field")
        column = table.column(name)
        if column.null_count == len(column):
            continue
        (sparse if column.null_count else dense).append((name, *_values(column, name, kind_of)))
    return list(_cut(whole, dense, sparse))


def _cut(whole: PointTable, dense: list[_Column], sparse: list[_Column]) -> Iterator[PointTable]:
    order = np.arange(len(whole.at), dtype="<i8") if sparse else None
    if dense:
        fields = tuple((name, kind) for name, kind, _, _ in dense)
        yield whole._replace(fields=fields, columns=[bits for _, _, bits, _ in dense], order=order)
    for name, kind, bits, is_valid in sparse:
        present = np.flatnonzero(is_valid)
        if len(present):
            part = whole._replace(fields=((name, kind),), columns=[bits], order=order)
            yield with_rows(part, present)


def _arrow(data: Any) -> Any:
    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        return data if isinstance(data, pa.Table) else pa.table(dict(data))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Invalid(f"this is not a table of columns of equal length ({error})") from error


def _times(column: Any, name: str) -> Ints:
    if column.null_count:
        raise Invalid(f"column {name!r} has rows without a time")
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz))
        elif not pa.types.is_integer(column.type):
            raise Invalid(f"column {name!r} is {column.type}: times are integers or timestamps")
        at: Ints = column.cast(pa.int64()).to_numpy().astype("<i8")
    except pa.ArrowInvalid as error:
        raise Invalid(f"column {name!r} has times that do not fit: {error}") from error
    if int(at.min()) < AT_MIN or int(at.max()) > AT_MAX:
        raise Invalid(f"column {name!r} has times that do not fit: from 1677 to 2262")
    return at


def _series(table: Any, tags: Sequence[str]) -> tuple[list[bytes], Ints | None]:
    """The series, and the index of each row's series."""
    if not tags:
        return [b""], None
    columns = [_tag(table.column(tag), tag) for tag in tags]
    keys = np.zeros(table.num_rows, dtype="<i8")
    for values, numbers in columns:
        keys = np.unique(keys * len(values) + numbers, return_inverse=True)[1]
    _, firsts, rows = np.unique(keys, return_index=True, return_inverse=True)
    parts = []
    for tag, (values, numbers) in sorted(zip(tags, columns, strict=True)):
        packed = _packed(tag, values)
        parts.append([packed[number] for number in numbers[firsts].tolist()])
    series = [BETWEEN.join(filter(None, part)) for part in zip(*parts, strict=True)]
    check_size(max(map(len, series)))
    return series, None if len(series) == 1 else rows.astype("<i8")


def _packed(tag: str, values: list[str]) -> list[bytes]:
    """A tag with each of its values in canonical form; empty for a missing value."""
    text = "".join(values)
    if max(map(len, values)) >= NAME_BYTES_MAX or not (text.isascii() and text.isprintable()):
        return [canonical({tag: value}) if value else b"" for value in values]
    begin = check_name(tag, "a tag") + "\x00"
    return [(begin + value).encode() if value else b"" for value in values]


def _tag(column: Any, name: str) -> tuple[list[str], Ints]:
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise Invalid(f"column {name!r} is {column.type}: tags are strings")
    packed = column.combine_chunks().fill_null("").dictionary_encode()
    packed = packed.combine_chunks() if isinstance(packed, pa.ChunkedArray) else packed
    return packed.dictionary.to_pylist(), packed.indices.to_numpy().astype("<i8")


def _values(column: Any, name: str, kind_of: KindOf) -> tuple[ValueKind, Ints, Any]:
    """Kind, bits, and a mask of the values; None if there are no nulls."""
    is_valid = column.is_valid().to_numpy() if column.null_count else None
    kind, filled = _typed(column, name)
    if kind is ValueKind.FLOAT and not bool(pc.all(pc.is_finite(filled)).as_py()):
        raise Invalid(f"column {name!r} has values that are not finite: leave them out (null)")
    values = filled.to_numpy()
    if kind is ValueKind.INT and kind_of(name) is ValueKind.FLOAT and _are_exact(values):
        kind, values = ValueKind.FLOAT, values.astype("<f8")
    return kind, to_bits(values, kind), is_valid


def _typed(column: Any, name: str) -> tuple[ValueKind, Any]:
    kinds = pa.types
    try:
        if kinds.is_boolean(column.type):
            return ValueKind.BOOL, column.fill_null(False).cast(pa.int64())
        if kinds.is_integer(column.type):
            return ValueKind.INT, column.cast(pa.int64()).fill_null(0)
        if kinds.is_floating(column.type):
            return ValueKind.FLOAT, column.cast(pa.float64()).fill_null(0.0)
    except pa.ArrowInvalid as error:
        raise Invalid(f"column {name!r} has values that do not fit: {error}") from error
    raise Invalid(f"column {name!r} is {column.type}: fields are integers, floats or booleans")


def _are_exact(values: Ints) -> bool:
    return int(values.max()) <= FLOAT_EXACT_MAX and int(values.min()) >= -FLOAT_EXACT_MAX


def row_of(
    measurement: str, tags: Mapping[str, str], fields: Mapping[str, Any], at: int, kind_of: KindOf
) -> PointRow:
    """One row. An integer in a field of floats is a float."""
    check_name(measurement, "a measurement")
    if not fields:
        raise Invalid("a point needs at least one field")
    named, bits = [], []
    for name in sorted(fields):
        value = fields[name]
        kind = kind_of_value(value)
        if (
            kind is ValueKind.INT
            and kind_of(name) is ValueKind.FLOAT
            and abs(value) <= FLOAT_EXACT_MAX
        ):
            kind = ValueKind.FLOAT
        named.append((check_name(name, "a field"), kind))
        bits.append(bits_of(value, kind))
    return PointRow(measurement, tuple(named), canonical(tags), at, tuple(bits))
