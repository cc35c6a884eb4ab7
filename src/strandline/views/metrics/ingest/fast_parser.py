"""Line protocol -> tables, fast: parses plain lines, and passes others to a callback.

A plain line has no escapes, strings, comments or extra blanks. Numbers are converted a column at a
time; Python's ``int`` and ``float`` accept more than the protocol (underscores, blanks, other
digits, words), so the characters of a column are checked first.

It reports no errors: for invalid text it returns None, and strict_parser.py parses the whole text
again to find the position. strict_parser.py accepts all texts that it accepts, with the same
result: tests/unit/views/metrics/ingest/test_fast_parser.py checks that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from strandline.views.metrics.ingest.batch import PointTable
from strandline.views.metrics.ingest.batch_builder import TableBuilder
from strandline.views.metrics.names import NAME_BYTES_MAX
from strandline.views.metrics.value_types import AT_MAX, Ints, ValueKind, Values, to_bits

BOOLS = dict.fromkeys(("t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("f", "F", "false", "False", "FALSE"), False
)

_FLOATS = re.compile(r"[-+.0-9eE\n]*")
_INTS = re.compile(r"(?:[-+]?[0-9]+i\n?)*")
_TIMES = re.compile(r"[-0-9\n]*")
_SPECIAL = re.compile(r'[\\"#\x00-\x1f\x7f]')
_HEADS_MAX = 32_768

_heads: dict[str, tuple[str, bytes] | None] = {}
"""Cache of parsed heads of lines, which are usually repeated."""

HeadOf = Callable[[str], tuple[str, bytes] | None]
AddLine = Callable[[str, int, TableBuilder], None]
"""Parses one line of any form, or raises."""


class _Rows:
    """Lines with the same measurement and field names."""

    def __init__(self, width: int) -> None:
        self.series: dict[bytes, int] = {}
        self.rows: list[int] = []
        self.times: list[str] = []
        self.raws: list[list[str]] = [[] for _ in range(width)]
        self.order: list[int] = []


_Shapes = dict[tuple[str, tuple[str, ...]], _Rows]


def fast_parse(
    text: str, *, unit: int, now_ns: int, head_of: HeadOf, add_line: AddLine
) -> list[PointTable] | None:
    """The tables of a text; None if strict_parser.py has to find the error."""
    shapes: _Shapes = {}
    others = TableBuilder()
    plain = not _SPECIAL.search(text.replace("\n", ""))
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        if not ((plain or not _SPECIAL.search(line)) and _add_plain(shapes, line, number, head_of)):
            add_line(line, number, others)
    table_counts = Counter(measurement for measurement, _ in shapes) + others.measurements()
    tables = []
    for (measurement, names), rows in shapes.items():
        table = _table(measurement, names, rows, unit, now_ns)
        if table is None:
            return None
        tables.append(table)
    return [
        table if table_counts[table.measurement] > 1 else table._replace(order=None)
        for table in (*tables, *others.tables())
    ]


def _add_plain(shapes: _Shapes, line: str, number: int, head_of: HeadOf) -> bool:
    parts = line.split(" ")
    if len(parts) == 3:
        head_text, body, time = parts
    elif len(parts) == 2:
        head_text, body = parts
        time = ""
    else:
        return False
    head = cached_head(head_text, head_of)
    if head is None:
        return False
    names, raws = [], []
    for pair in body.split(","):
        name, _, raw = pair.partition("=")
        names.append(name)
        raws.append(raw)
    shape = head[0], tuple(names)
    rows = shapes.get(shape)
    if rows is None:
        if not are_valid_names(names):
            return False
        rows = shapes[shape] = _Rows(len(names))
    rows.rows.append(rows.series.setdefault(head[1], len(rows.series)))
    rows.times.append(time)
    rows.order.append(number)
    for column, raw in zip(rows.raws, raws, strict=True):
        column.append(raw)
    return True


def cached_head(text: str, head_of: HeadOf) -> tuple[str, bytes] | None:
    """The parsed head of a line, from a cache."""
    head = _heads.get(text)
    if head is None:
        head = head_of(text)
        if len(_heads) >= _HEADS_MAX:
            _heads.clear()
        _heads[text] = head
    return head


def are_valid_names(names: Sequence[str]) -> bool:
    """Whether these are valid names of the fields of one line."""
    return len(set(names)) == len(names) and all(
        name and len(name) * 4 <= NAME_BYTES_MAX and "=" not in name for name in names
    )


def _table(
    measurement: str, names: tuple[str, ...], rows: _Rows, unit: int, now_ns: int
) -> PointTable | None:
    at = _times(rows.times, unit, now_ns)
    if at is None:
        return None
    columns = [_column(raws) for raws in rows.raws]
    sorted_names = sorted(range(len(names)), key=names.__getitem__)
    fields, bits = [], []
    for number in sorted_names:
        column = columns[number]
        if column is None:
            return None
        fields.append((names[number], column[0]))
        bits.append(column[1])
    one_each = len(rows.series) in (1, len(rows.rows))
    return PointTable(
        measurement=measurement,
        fields=tuple(fields),
        series=list(rows.series),
        rows=None if one_each else np.array(rows.rows, dtype="<i8"),
        at=at,
        columns=bits,
        order=np.array(rows.order, dtype="<i8"),
    )


def _times(raws: list[str], unit: int, now_ns: int) -> Ints | None:
    if not all(raws):
        if any(raws):
            return None  # some with a time and some without
        return np.full(len(raws), now_ns, dtype="<i8")
    if not _TIMES.fullmatch("\n".join(raws)):
        return None
    try:
        at = np.array(list(map(int, raws)), dtype="<i8")
    except (ValueError, OverflowError):
        return None
    if unit > 1:
        if not fit_nanoseconds(at, unit):
            return None
        at = at * unit
    return at if fit_nanoseconds(at, 1) else None


def fit_nanoseconds(at: Ints, unit: int) -> bool:
    """Whether times in this unit are in the range of nanoseconds."""
    return int(at.max()) <= AT_MAX // unit and int(at.min()) >= -(AT_MAX // unit)


def _column(raws: list[str]) -> tuple[ValueKind, Ints] | None:
    joined = "\n".join(raws)
    try:
        if _FLOATS.fullmatch(joined):
            floats: Values = np.array(list(map(float, raws)), dtype="<f8")
            return (
                (ValueKind.FLOAT, to_bits(floats, ValueKind.FLOAT))
                if np.isfinite(floats).all()
                else None
            )
        if _INTS.fullmatch(joined):
            ints = np.array([int(raw[:-1]) for raw in raws], dtype="<i8")
            return ValueKind.INT, ints
        if raws[0] in BOOLS:
            return ValueKind.BOOL, np.array([BOOLS[raw] for raw in raws], dtype="<i8")
    except (ValueError, OverflowError, KeyError):
        pass
    return None
