"""Encodes and decodes points of a series, as structs and as columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import pyarrow as pa

from strandline.api import series as wire
from strandline.client.bytes_fields import sure_bytes, value_pair
from strandline.records import AppendResult
from strandline.views.series.values import (
    AppendedPoints,
    Point,
    RefusedPoint,
    SourceName,
    name_of,
)

_JSON_POINTS_MAX = 32
_JSON_BYTES_MAX = 64 * 1024
COLUMNS = pa.schema(
    [
        pa.field("source", pa.binary(), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


def appended_of(done: wire.AppendPointsResponse, *, drop_refused: bool) -> AppendResult:
    """The seqs of an appended batch, from JSON."""
    if not drop_refused:
        return AppendResult(done.first_seq, done.last_seq, done.head_seq, done.deduped)
    refused = tuple(RefusedPoint(each.place, each.at, each.reason) for each in done.refused)
    return AppendedPoints(done.first_seq, done.last_seq, done.head_seq, done.deduped, refused)


def source_fields(source: SourceName) -> wire.SourceName:
    """A source as fields of a request."""
    name = name_of(source)
    try:
        return wire.SourceName(source=name.decode())
    except UnicodeDecodeError:
        return wire.SourceName(source_base64=name)


def point_fields(name: bytes, at: int, payload: bytes) -> wire.NewPoint:
    name_fields = source_fields(name)
    return wire.NewPoint(
        at=at,
        source=name_fields.source,
        source_base64=name_fields.source_base64,
        **value_pair(payload, "payload"),
    )


def is_small(payloads: Sequence[bytes]) -> bool:
    """Whether points are sent as JSON rather than as columns."""
    return len(payloads) <= _JSON_POINTS_MAX and sum(map(len, payloads)) <= _JSON_BYTES_MAX


def table_of(names: list[bytes], ats: list[int], payloads: list[bytes]) -> pa.Table:
    """Points as columns."""
    return pa.table([names, ats, payloads], schema=COLUMNS)


def points_of(points: wire.SourcePoints) -> tuple[bytes, list[Point]]:
    """A source and its points, from JSON."""
    name = sure_bytes(points.source, points.source_base64)
    return name, [
        Point(name, each.at, sure_bytes(each.payload, each.payload_base64), each.version, each.seq)
        for each in points.points
    ]


def by_source(table: pa.Table) -> dict[bytes, list[Point]]:
    """Points by their source, from columns, in the order of the sources."""
    names = ("source", "at", "payload", "version", "seq")
    rows: Iterable[tuple[bytes, int, bytes, int, int]] = zip(
        *(table[name].to_pylist() for name in names), strict=True
    )
    points = (Point(*row) for row in rows)
    return {source: list(group) for source, group in groupby(points, lambda point: point.source)}
