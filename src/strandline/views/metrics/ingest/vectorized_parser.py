"""Line protocol -> tables, all lines at once; None for what is not plain and alike.

Alike is a text whose lines are as fast_parser.py wants them, all with a time or all without, and in
which all lines of a measurement have the same fields in the same order, of float64 or int64. So do
most texts that agents send. Lines are split and numbers converted by Arrow, without a step of
Python for each: five to eight times as quick.

As fast_parser.py, it is held to what strict_parser.py says. Arrow reads numbers as Python does
not: hex digits are looked for, and what is not finite is left to the others.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strandline.views.metrics.ingest.batch import Table
from strandline.views.metrics.ingest.fast_parser import HeadOf, are_names, fits, known_head
from strandline.views.metrics.value_types import Ints, Kind, to_bits

LINES_MIN = 32
"""Fewer lines are quicker one by one."""

_UNFIT = re.compile(r'[\\"#\x00-\x09\x0b-\x1f\x7f]')
_DIGITS = np.zeros(256, dtype=bool)
_DIGITS[list(b"0123456789-")] = True


class _Unlike(Exception):
    """Something is not as it must be here."""


def column_parse(text: str, *, unit: int, now_ns: int, head_of: HeadOf) -> list[Table] | None:
    """The tables of a text; None when somebody else must read it."""
    if text.count("\n") < LINES_MIN or _UNFIT.search(text):
        return None
    try:
        return _tables(text.rstrip("\n").split("\n"), unit, now_ns, head_of)
    except (_Unlike, pa.ArrowInvalid):
        return None


def _tables(lines: list[str], unit: int, now_ns: int, head_of: HeadOf) -> list[Table]:
    parts = pc.split_pattern(pa.array(lines, pa.string()), " ")
    width = _width(parts)
    if width not in (2, 3):
        raise _Unlike
    heads, bodies = pc.list_element(parts, 0), pc.list_element(parts, 1)
    times = _times(pc.list_element(parts, 2), unit) if width == 3 else np.full(len(lines), now_ns)
    heads = pc.dictionary_encode(heads)
    known = [known_head(head, head_of) for head in heads.dictionary.to_pylist()]
    named = [head for head in known if head is not None]
    if len(named) < len(known):
        raise _Unlike
    numbers = heads.indices.to_numpy().astype("<i8")
    measurements = sorted({head[0] for head in named})
    if len(measurements) == 1:
        return [_table(named, numbers, bodies, times)]
    places = {name: place for place, name in enumerate(measurements)}
    codes = np.array([places[head[0]] for head in named])[numbers]
    found = []
    for place in range(len(measurements)):
        mine = np.flatnonzero(codes == place)
        found.append(_table(named, numbers[mine], bodies.take(pa.array(mine)), times[mine]))
    return found


def _table(heads: list[tuple[str, bytes]], numbers: Ints, bodies: Any, times: Ints) -> Table:
    """The lines of one measurement; each with the number of its head."""
    used, rows = np.unique(numbers, return_inverse=True)
    series: dict[bytes, int] = {}
    order = [series.setdefault(heads[number][1], len(series)) for number in used.tolist()]
    places = np.array(order, dtype="<i8")[rows]
    fields = _fields(bodies)
    one_each = len(series) == 1 or (
        len(series) == len(places) and bool((places == np.arange(len(places))).all())
    )
    return Table(
        measurement=heads[int(used[0])][0],
        fields=tuple((name, kind) for name, kind, _ in fields),
        series=list(series),
        rows=None if one_each else places,
        at=times,
        columns=[bits for _, _, bits in fields],
    )


def _fields(bodies: Any) -> list[tuple[str, Kind, Ints]]:
    """Name, kind and bits of every field, in the order of names."""
    pairs = pc.split_pattern(bodies, ",")
    width = _width(pairs)
    halves = pc.split_pattern(pc.list_flatten(pairs), "=")
    if _width(halves) != 2:
        raise _Unlike
    names, raws = pc.list_element(halves, 0), pc.list_element(halves, 1)
    found = []
    for place in range(width):
        mine = names if width == 1 else names.take(_every(place, width, len(names)))
        if not pc.all(pc.equal(mine, mine[0])).as_py():
            raise _Unlike
        raw = raws if width == 1 else raws.take(_every(place, width, len(names)))
        found.append((mine[0].as_py(), *_numbers(raw)))
    if not are_names([name for name, _, _ in found]):
        raise _Unlike
    return sorted(found, key=lambda each: each[0])


def _numbers(raws: Any) -> tuple[Kind, Ints]:
    if pc.all(pc.ends_with(raws, "i")).as_py():
        digits = pc.utf8_slice_codeunits(raws, 0, -1)
        return Kind.INT, _whole(digits)
    floats = pc.cast(raws, pa.float64()).to_numpy()
    if not np.isfinite(floats).all():
        raise _Unlike
    return Kind.FLOAT, to_bits(floats, Kind.FLOAT)


def _times(raws: Any, unit: int) -> Ints:
    at = _whole(raws)
    if not fits(at, unit):
        raise _Unlike
    return at * unit


def _whole(raws: Any) -> Ints:
    """Whole numbers of decimal digits."""
    raws = pa.concat_arrays([raws])  # from its own beginning on
    _, _, data = raws.buffers()
    if data is None or not _DIGITS[np.frombuffer(data, dtype=np.uint8)[: _size(raws)]].all():
        raise _Unlike
    numbers: Ints = pc.cast(raws, pa.int64()).to_numpy().astype("<i8")
    return numbers


def _size(strings: Any) -> int:
    """Bytes of all strings of an array that begins at 0."""
    offsets = np.frombuffer(strings.buffers()[1], dtype="<i4")
    return int(offsets[len(strings)])


def _width(lists: Any) -> int:
    """How many elements every list has, when it is the same for all."""
    lengths = pc.list_value_length(lists).to_numpy()
    if (lengths != lengths[0]).any():
        raise _Unlike
    return int(lengths[0])


def _every(first: int, step: int, count: int) -> Any:
    return pa.array(np.arange(first, count, step))
