"""Serializes points of series as JSON and Arrow, and parses requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from strandline.api import series as wire
from strandline.api.bytes_fields import key_fields, required_value, value_fields
from strandline.errors import Invalid
from strandline.views.series.values import Point, SourceName, name_of

SCHEMA = pa.schema(
    [
        pa.field("source", pa.binary(), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("seq", pa.uint64(), nullable=False),
    ]
)


def source_of(source: str | int | None, base64: bytes | None) -> bytes:
    """The source of a request."""
    if (source is None) == (base64 is None):
        raise Invalid("send either source or source_base64")
    return name_of(source if base64 is None else base64)  # type: ignore[arg-type]  # one is not None


def sources_of(names: Sequence[wire.SourceName]) -> list[bytes]:
    return [source_of(each.source, each.source_base64) for each in names]


def new_point(request: wire.NewPoint) -> tuple[SourceName, int, bytes]:
    payload = required_value("payload", request.payload, request.payload_base64)
    return source_of(request.source, request.source_base64), request.at, payload


def new_points(table: pa.Table) -> list[tuple[SourceName, int, bytes]]:
    """Points of an Arrow body: columns ``source``, ``at`` and ``payload``."""
    missing = {"source", "at", "payload"} - set(table.column_names)
    if missing:
        raise Invalid(f"the Arrow body lacks the column {min(missing)!r}")
    columns = [table.column(name).to_pylist() for name in ("source", "at", "payload")]
    points: list[tuple[SourceName, int, bytes]] = list(zip(*columns, strict=True))
    for source, at, payload in points:
        if source is None or at is None or not isinstance(payload, bytes):
            raise Invalid("a point needs a source, an at and a binary payload")
    return points


def point(stored: Point) -> wire.SeriesPoint:
    payload, base64 = value_fields(stored.payload)
    return wire.SeriesPoint(
        at=stored.at, seq=stored.seq, version=stored.version, payload=payload, payload_base64=base64
    )


def line(stored: Point) -> wire.VisitedPoint:
    payload, base64 = value_fields(stored.payload)
    source, source_base64 = key_fields(stored.source)
    return wire.VisitedPoint(
        at=stored.at,
        seq=stored.seq,
        version=stored.version,
        source=source,
        source_base64=source_base64,
        payload=payload,
        payload_base64=base64,
    )


def by_source(points_by_source: Mapping[bytes, Sequence[Point]]) -> list[wire.SourcePoints]:
    serialized = []
    for name, points in points_by_source.items():
        source, base64 = key_fields(name)
        wire_points = [point(each) for each in points]
        serialized.append(
            wire.SourcePoints(points=wire_points, source=source, source_base64=base64)
        )
    return serialized


def batch(points: Sequence[Point]) -> pa.RecordBatch:
    columns = zip(*((p.source, p.at, p.payload, p.version, p.seq) for p in points), strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def batches(points: Iterable[Point], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Points in batches of at most ``rows_max``."""
    pending: list[Point] = []
    for each in points:
        pending.append(each)
        if len(pending) == rows_max:
            yield batch(pending)
            pending = []
    if pending:
        yield batch(pending)
