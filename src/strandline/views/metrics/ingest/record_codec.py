"""Records of a metrics view <-> their content, by their meta. Pure.

    meta                                data
    0x00 "mx" "p"                       points (batch.py)
    0x00 "mx" "d" and a Progress        points that downsampling computed
    0x00 "mx" "r"                       a rule (rules.py)
    0x00 "mx" "f"                       a floor: a measurement has no points below it any more
    anything else, or none              line protocol in nanoseconds, if it is valid; a line without
                                        a time has the time of the record

Rules and floors are MessagePack. A record without the mark that is not line protocol, and a marked
one that cannot be read, have no content for this view: they are counted and stay in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from strandline.errors import Corrupt, Invalid
from strandline.views.metrics.ingest.batch import (
    TABLE_BYTES_MAX,
    PointRow,
    PointTable,
    decode,
    encode,
    encode_row,
    split_table,
    table_of,
    with_rows,
)
from strandline.views.metrics.ingest.strict_parser import parse
from strandline.views.metrics.rules import (
    DownsamplingRule,
    Progress,
    RetentionRule,
    Rule,
    RuleRemoval,
)
from strandline.views.view import MARKS, ViewAppend

MARK = MARKS["metrics"]
POINTS = MARK + b"p"
DOWNSAMPLED = MARK + b"d"
RULE = MARK + b"r"
FLOOR = MARK + b"f"
_POINTS_ONCE = (POINTS,)


class FloorRecord(msgspec.Struct, frozen=True, array_like=True):
    """The measurement has no points below this time any more."""

    measurement: str
    floor: int


class WrittenPoints(msgspec.Struct, frozen=True):
    """Points, and the progress of the rule that computed them."""

    tables: list[PointTable]
    progress: Progress | None = None


RecordContent = (
    PointRow | WrittenPoints | RetentionRule | DownsamplingRule | RuleRemoval | FloorRecord | None
)
"""The content of a record; None if it has none for this view."""

_encode = msgspec.msgpack.Encoder().encode
_progress = msgspec.msgpack.Decoder(Progress)
_rule = msgspec.msgpack.Decoder(RetentionRule | DownsamplingRule | RuleRemoval)
_floor = msgspec.msgpack.Decoder(FloorRecord)


def draft_points(tables: Sequence[PointTable], progress: Progress | None = None) -> ViewAppend:
    """The records of a write, as few as possible; the last has the progress of a rule."""
    data = _records(tables)
    metas = [POINTS] * len(data)
    if progress is not None:
        metas[-1] = DOWNSAMPLED + _encode(progress)
    return ViewAppend(0, data, metas=metas)


def draft_row(row: PointRow) -> ViewAppend:
    """The record of one row."""
    return ViewAppend(0, (encode_row(row),), metas=_POINTS_ONCE)


def draft_rule(rule: Rule | RuleRemoval) -> ViewAppend:
    return ViewAppend(0, [_encode(rule)], metas=[RULE])


def draft_floor(measurement: str, floor: int) -> ViewAppend:
    return ViewAppend(0, [_encode(FloorRecord(measurement, floor))], metas=[FLOOR])


def decode_record(meta: bytes | None, data: bytes, ts_us: int) -> RecordContent:
    """The content of a record for the view."""
    try:
        if meta is None or not meta.startswith(MARK):
            return WrittenPoints(parse(data, precision="ns", now_ns=ts_us * 1000))
        if meta == POINTS:
            points = decode(data)
            return points if isinstance(points, PointRow) else WrittenPoints(points)
        if meta.startswith(DOWNSAMPLED):
            points = decode(data)
            tables = [table_of(points)] if isinstance(points, PointRow) else points
            return WrittenPoints(tables, _progress.decode(meta[len(DOWNSAMPLED) :]))
        if meta == RULE:
            rule: RetentionRule | DownsamplingRule | RuleRemoval = _rule.decode(data)
            return rule
        if meta == FLOOR:
            return _floor.decode(data)
    except (Invalid, Corrupt, msgspec.DecodeError):
        pass
    return None


def _records(tables: Sequence[PointTable]) -> list[bytes]:
    """The data of records, as many as needed so that none is too large."""
    if _size(tables) <= TABLE_BYTES_MAX:
        return [encode(tables)]
    ordered = [table for table in tables if table.order is not None]
    records = [
        encode([part]) for table in tables if table.order is None for part in split_table(table)
    ]
    return records + [encode(parts) for parts in _by_order(ordered)]


def _by_order(tables: Sequence[PointTable]) -> Iterator[list[PointTable]]:
    """Tables that may have equal points, cut at the same rows of the write, in order."""
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
            rows = np.flatnonzero((table.order >= low) & (table.order <= high))
            if len(rows):
                parts.append(with_rows(table, rows))
        yield parts


def _size(tables: Sequence[PointTable]) -> int:
    """The approximate size of tables before they are packed."""
    rows = sum(table.points + 2 * len(table.at) for table in tables)
    return 8 * rows + sum(len(series) for table in tables for series in table.series)
