"""What the records of a metrics view say, by their meta. Pure.

    meta                                data
    0x00 "mx" "p"                       points (batch.py)
    0x00 "mx" "d" and a Progress        points that downsampling has made
    0x00 "mx" "r"                       a rule (rules.py)
    0x00 "mx" "f"                       a floor: below it a measurement has no points any more
    anything else, or none              line protocol, of nanoseconds, if it can be read as that; a
                                        line without a time is of the record's

Bodies but points are MessagePack. A record without our mark that is no line protocol, and a marked
one that cannot be read, is nothing to this view: it is counted and stays in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from strandline.errors import Corrupt, Invalid
from strandline.views.metrics.ingest.batch import (
    TABLE_BYTES_MAX,
    Row,
    Table,
    cut,
    decode,
    encode,
    encode_row,
    table_of,
    with_rows,
)
from strandline.views.metrics.ingest.strict_parser import parse
from strandline.views.metrics.rules import Downsample, Keep, Progress, Removed, Rule
from strandline.views.view import MARKS, Draft

MARK = MARKS["metrics"]
POINTS = MARK + b"p"
MADE = MARK + b"d"
RULE = MARK + b"r"
FLOOR = MARK + b"f"
_POINTS_ONCE = (POINTS,)


class Floor(msgspec.Struct, frozen=True, array_like=True):
    """Below this time the measurement has no points any more."""

    measurement: str
    floor: int


class Written(msgspec.Struct, frozen=True):
    """Points, and what they are the outcome of."""

    tables: list[Table]
    progress: Progress | None = None


Meaning = Row | Written | Keep | Downsample | Removed | Floor | None
"""What a record says to the view; None: nothing."""

_encode = msgspec.msgpack.Encoder().encode
_progress = msgspec.msgpack.Decoder(Progress)
_rule = msgspec.msgpack.Decoder(Keep | Downsample | Removed)
_floor = msgspec.msgpack.Decoder(Floor)


def draft_points(tables: Sequence[Table], progress: Progress | None = None) -> Draft:
    """Records of a write, as few as can be; how far a rule is stands in the last."""
    data = _records(tables)
    metas = [POINTS] * len(data)
    if progress is not None:
        metas[-1] = MADE + _encode(progress)
    return Draft(0, data, metas=metas)


def draft_row(row: Row) -> Draft:
    """The record of one row."""
    return Draft(0, (encode_row(row),), metas=_POINTS_ONCE)


def draft_rule(rule: Rule | Removed) -> Draft:
    return Draft(0, [_encode(rule)], metas=[RULE])


def draft_floor(measurement: str, floor: int) -> Draft:
    return Draft(0, [_encode(Floor(measurement, floor))], metas=[FLOOR])


def meaning(meta: bytes | None, data: bytes, ts_us: int) -> Meaning:
    """What a record says to the view."""
    try:
        if meta is None or not meta.startswith(MARK):
            return Written(parse(data, precision="ns", now_ns=ts_us * 1000))
        if meta == POINTS:
            found = decode(data)
            return found if isinstance(found, Row) else Written(found)
        if meta.startswith(MADE):
            made = decode(data)
            tables = [table_of(made)] if isinstance(made, Row) else made
            return Written(tables, _progress.decode(meta[len(MADE) :]))
        if meta == RULE:
            rule: Keep | Downsample | Removed = _rule.decode(data)
            return rule
        if meta == FLOOR:
            return _floor.decode(data)
    except (Invalid, Corrupt, msgspec.DecodeError):
        pass
    return None


def _records(tables: Sequence[Table]) -> list[bytes]:
    """The data of as many records as are needed, so that none is too large."""
    if _size(tables) <= TABLE_BYTES_MAX:
        return [encode(tables)]
    ordered = [table for table in tables if table.order is not None]
    records = [encode([part]) for table in tables if table.order is None for part in cut(table)]
    return records + [encode(parts) for parts in _by_order(ordered)]


def _by_order(tables: Sequence[Table]) -> Iterator[list[Table]]:
    """Tables that may meet, cut at the same places of the write: records are in order, too."""
    if not tables:
        return
    order = np.unique(np.concatenate([table.order for table in tables if table.order is not None]))
    longest = max(len(series) for table in tables for series in table.series)
    widest = max(len(table.fields) for table in tables)
    step = max(1, TABLE_BYTES_MAX // (24 + 8 * widest + longest) // len(tables))
    for first in range(0, len(order), step):
        low, high = order[first], order[min(first + step, len(order)) - 1]
        parts = []
        for table in tables:
            places = np.flatnonzero((table.order >= low) & (table.order <= high))
            if len(places):
                parts.append(with_rows(table, places))
        yield parts


def _size(tables: Sequence[Table]) -> int:
    """About so many bytes tables have before they are packed."""
    rows = sum(table.points + 2 * len(table.at) for table in tables)
    return 8 * rows + sum(len(series) for table in tables for series in table.series)
