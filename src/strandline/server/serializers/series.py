"""Points of series as they are told, in JSON and in Arrow, and what requests say of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from strandline.api import series as wire
from strandline.api.bytes_fields import given_value, told_key, told_value
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
    """The source that a request names."""
    if (source is None) == (base64 is None):
        raise Invalid("say source or source_base64")
    return name_of(source if base64 is None else base64)  # type: ignore[arg-type]  # one is there


def sources_of(given: Sequence[wire.SourceName]) -> list[bytes]:
    return [source_of(each.source, each.source_base64) for each in given]


def new_point(given: wire.NewPoint) -> tuple[SourceName, int, bytes]:
    payload = given_value("payload", given.payload, given.payload_base64)
    return source_of(given.source, given.source_base64), given.at, payload


def new_points(table: pa.Table) -> list[tuple[SourceName, int, bytes]]:
    """Points of an Arrow body: columns ``source``, ``at`` and ``payload``."""
    missing = {"source", "at", "payload"} - set(table.column_names)
    if missing:
        raise Invalid(f"the Arrow body lacks the column {min(missing)!r}")
    columns = [table.column(name).to_pylist() for name in ("source", "at", "payload")]
    points: list[tuple[SourceName, int, bytes]] = list(zip(*columns, strict=True))
    for source, at, payload in points:
        if source is None or at is None or not isinstance(payload, bytes):
            raise Invalid("a point has a source, an at and a payload, which is binary")
    return points


def point(found: Point) -> wire.Point:
    payload, base64 = told_value(found.payload)
    return wire.Point(
        at=found.at, seq=found.seq, version=found.version, payload=payload, payload_base64=base64
    )


def line(found: Point) -> wire.VisitedPoint:
    payload, base64 = told_value(found.payload)
    source, source_base64 = told_key(found.source)
    return wire.VisitedPoint(
        at=found.at,
        seq=found.seq,
        version=found.version,
        source=source,
        source_base64=source_base64,
        payload=payload,
        payload_base64=base64,
    )


def by_source(found: Mapping[bytes, Sequence[Point]]) -> list[wire.SourcePoints]:
    told = []
    for name, points in found.items():
        source, base64 = told_key(name)
        listed = [point(each) for each in points]
        told.append(wire.SourcePoints(points=listed, source=source, source_base64=base64))
    return told


def batch(points: Sequence[Point]) -> pa.RecordBatch:
    columns = zip(*((p.source, p.at, p.payload, p.version, p.seq) for p in points), strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def batches(points: Iterable[Point], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Points in pieces of at most so many."""
    some: list[Point] = []
    for each in points:
        some.append(each)
        if len(some) == rows_max:
            yield batch(some)
            some = []
    if some:
        yield batch(some)
