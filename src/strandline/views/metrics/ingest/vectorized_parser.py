"""Line protocol -> tables, all lines at once; None for text that is not plain and uniform.

In a uniform text, all lines are plain (fast_parser.py), all have a time or none has, and all lines
of a measurement have the same fields in the same order, of float64 or int64. Most texts of agents
are uniform. Arrow splits lines and converts numbers, without a Python step for each: five to eight
times as fast.

Like fast_parser.py, it has the same results as strict_parser.py. Arrow accepts other numbers than
Python: hex digits are excluded, and numbers that are not finite are left to the other parsers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strandline.views.metrics.ingest.batch import PointTable
from strandline.views.metrics.ingest.fast_parser import (
    HeadOf,
    are_valid_names,
    cached_head,
    fit_nanoseconds,
)
from strandline.views.metrics.value_types import Ints, ValueKind, to_bits

LINES_MIN = 32
"""Fewer lines are faster one by one."""

_SPECIAL = re.compile(r'[\\"#\x00-\x09\x0b-\x1f\x7f]')
_DIGITS = np.zeros(256, dtype=bool)
_DIGITS[list(b"0123456789-")] = True


class _NotUniform(Exception):
    """The text is not plain and uniform."""


def vectorized_parse(
    text: str, *, unit: int, now_ns: int, head_of: HeadOf
) -> list[PointTable] | None:
    """The tables of a text; None if another parser has to read it."""
    if text.count("\n") < LINES_MIN or _SPECIAL.search(text):
        return None
    try:
        return _tables(text.rstrip("\n").split("\n"), unit, now_ns, head_of)
    except (_NotUniform, pa.ArrowInvalid):
        return None


def _tables(lines: list[str], unit: int, now_ns: int, head_of: HeadOf) -> list[PointTable]:
    parts = pc.split_pattern(pa.array(lines, pa.string()), " ")
    width = _width(parts)
    if width not in (2, 3):
        raise _NotUniform
    heads, bodies = pc.list_element(parts, 0), pc.list_element(parts, 1)
    times = _times(pc.list_element(parts, 2), unit) if width == 3 else np.full(len(lines), now_ns)
    heads = pc.dictionary_encode(heads)
    parsed = [cached_head(head, head_of) for head in heads.dictionary.to_pylist()]
    valid = [head for head in parsed if head is not None]
    if len(valid) < len(parsed):
        raise _NotUniform
    numbers = heads.indices.to_numpy().astype("<i8")
    measurements = sorted({head[0] for head in valid})
    if len(measurements) == 1:
        return [_table(valid, numbers, bodies, times)]
    code_of = {name: code for code, name in enumerate(measurements)}
    codes = np.array([code_of[head[0]] for head in valid])[numbers]
    tables = []
    for code in range(len(measurements)):
        rows = np.flatnonzero(codes == code)
        tables.append(_table(valid, numbers[rows], bodies.take(pa.array(rows)), times[rows]))
    return tables


def _table(heads: list[tuple[str, bytes]], numbers: Ints, bodies: Any, times: Ints) -> PointTable:
    """The lines of one measurement, each with the number of its head."""
    used, rows = np.unique(numbers, return_inverse=True)
    series: dict[bytes, int] = {}
    order = [series.setdefault(heads[number][1], len(series)) for number in used.tolist()]
    series_rows = np.array(order, dtype="<i8")[rows]
    fields = _fields(bodies)
    one_each = len(series) == 1 or (
        len(series) == len(series_rows) and bool((series_rows == np.arange(len(series_rows))).all())
    )
    return PointTable(
        measurement=heads[int(used[0])][0],
        fields=tuple((name, kind) for name, kind, _ in fields),
        series=list(series),
        rows=None if one_each else series_rows,
        at=times,
        columns=[bits for _, _, bits in fields],
    )


def _fields(bodies: Any) -> list[tuple[str, ValueKind, Ints]]:
    """Name, kind and bits of every field, in the order of names."""
    pairs = pc.split_pattern(bodies, ",")
    width = _width(pairs)
    halves = pc.split_pattern(pc.list_flatten(pairs), "=")
    if _width(halves) != 2:
        raise _NotUniform
    names, raws = pc.list_element(halves, 0), pc.list_element(halves, 1)
    fields = []
    for first in range(width):
        column = names if width == 1 else names.take(_stride(first, width, len(names)))
        if not pc.all(pc.equal(column, column[0])).as_py():
            raise _NotUniform
        raw = raws if width == 1 else raws.take(_stride(first, width, len(names)))
        fields.append((column[0].as_py(), *_numbers(raw)))
    if not are_valid_names([name for name, _, _ in fields]):
        raise _NotUniform
    return sorted(fields, key=lambda each: each[0])


def _numbers(raws: Any) -> tuple[ValueKind, Ints]:
    if pc.all(pc.ends_with(raws, "i")).as_py():
        digits = pc.utf8_slice_codeunits(raws, 0, -1)
        return ValueKind.INT, _integers(digits)
    floats = pc.cast(raws, pa.float64()).to_numpy()
    if not np.isfinite(floats).all():
        raise _NotUniform
    return ValueKind.FLOAT, to_bits(floats, ValueKind.FLOAT)


def _times(raws: Any, unit: int) -> Ints:
    at = _integers(raws)
    if not fit_nanoseconds(at, unit):
        raise _NotUniform
    return at * unit


def _integers(raws: Any) -> Ints:
    """Integers from decimal digits."""
    raws = pa.concat_arrays([raws])  # a copy without an offset
    _, _, data = raws.buffers()
    if data is None or not _DIGITS[np.frombuffer(data, dtype=np.uint8)[: _size(raws)]].all():
        raise _NotUniform
    numbers: Ints = pc.cast(raws, pa.int64()).to_numpy().astype("<i8")
    return numbers


def _size(strings: Any) -> int:
    """Bytes of all strings of an array without an offset."""
    offsets = np.frombuffer(strings.buffers()[1], dtype="<i4")
    return int(offsets[len(strings)])


def _width(lists: Any) -> int:
    """The number of elements of every list, if it is the same for all."""
    lengths = pc.list_value_length(lists).to_numpy()
    if (lengths != lengths[0]).any():
        raise _NotUniform
    return int(lengths[0])


def _stride(first: int, step: int, count: int) -> Any:
    return pa.array(np.arange(first, count, step))
