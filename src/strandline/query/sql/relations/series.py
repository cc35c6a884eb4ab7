"""A series as rows: a row for each point of every source, up to a position.

Points never change, so those of a position are those whose seq is not after it. But retention
removes points: when the floor was raised after the position, the query fails. Sources are read one
after the other, some points at a time, and only those that a condition on ``source`` or ``tick``
allows; payloads that are only in the log are read when they are requested.

``tick`` is the ``at`` of the series, which is a keyword of SQL, in the unit of the series; ``time``
is the same time as a timestamp, null when the unit is unknown (not s, ms, us or ns), or the year is
not from 1 to 9999.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from strandline.errors import NotFound
from strandline.query.sql.filters import Where, bounds, values
from strandline.query.sql.relations.relation import ROWS_AT_ONCE, TIME, Position, Relation, texts
from strandline.views.series import point_reader
from strandline.views.series.block import PointBounds, SeriesPoints
from strandline.views.series.fold import SeriesFold
from strandline.views.series.meta import AT_MAX, AT_MIN, version_of
from strandline.views.view_runner import ViewRunner

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICRO = 1_000_000
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The years from 1 to 9999."""

Part = tuple[bytes, SeriesPoints]


class SeriesSource:
    """A series."""

    held: Sequence[ViewRunner[Any]] = ()

    def __init__(self, host: ViewRunner[SeriesFold]) -> None:
        self._host = host
        self.topics = host.topics

    def at(self, position: Position) -> Relation:
        return SeriesRows(self._host, position.heads[self.topics[0].name])


class SeriesRows:
    """Points up to a seq. Safe from many threads."""

    schema = pa.schema(
        [
            pa.field("source", pa.string()),
            pa.field("source_bytes", pa.binary(), nullable=False),
            pa.field("tick", pa.int64(), nullable=False),
            pa.field("time", TIME),
            pa.field("seq", pa.uint64(), nullable=False),
            pa.field("version", pa.uint16(), nullable=False),
            pa.field("payload", pa.binary(), nullable=False),
            pa.field("text", pa.string()),
        ]
    )

    def __init__(self, host: ViewRunner[SeriesFold], head: int) -> None:
        self._host = host
        self.head_seq = head

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        payloads = "payload" in columns or "text" in columns
        unit = self._host.fold.config.unit
        parts: list[Part] = []
        rows = 0
        for part in self._parts(where, payloads=payloads):
            parts.append(part)
            rows += len(part[1].seqs)
            if rows >= ROWS_AT_ONCE:
                yield _batch(parts, columns, unit)
                parts, rows = [], 0
        if rows:
            yield _batch(parts, columns, unit)

    def _parts(self, where: Where | None, *, payloads: bool) -> Iterator[Part]:
        span = _span(where)
        with self._host.reading() as fold:
            names = _sources_of(where, fold.names(span.first_at, span.last_at))
        for name in names:
            rest = span
            while True:
                with self._host.reading() as fold:
                    self._check_floor(fold)
                    points = fold.select(name, rest, point_reader.CHUNK, payloads=payloads)
                if points.seqs:
                    visible = self._up_to_position(name, points, payloads=payloads)
                    if visible.seqs:
                        yield name, visible
                if len(points.seqs) < point_reader.CHUNK:
                    break
                rest = PointBounds(points.ats[-1], points.seqs[-1] + 1, span.last_at)

    def _check_floor(self, fold: SeriesFold) -> None:
        if fold.floor_seq > self.head_seq:
            raise NotFound(
                f"series {self._host.name!r} has forgotten points since seq {self.head_seq}: "
                f"retention raised the floor to {fold.floor} with seq {fold.floor_seq}; use a "
                "position from that seq on"
            )

    def _up_to_position(self, name: bytes, points: SeriesPoints, *, payloads: bool) -> SeriesPoints:
        """The points up to the position, with payloads from the log where needed."""
        keep = [seq <= self.head_seq for seq in points.seqs]
        if not all(keep):
            points = SeriesPoints(
                list(compress(points.ats, keep)),
                list(compress(points.seqs, keep)),
                list(compress(points.kinds, keep)),
                list(compress(points.payloads, keep)),
            )
        if not payloads or None not in points.payloads:
            return points
        fetched = point_reader.fetch(self._host, (name,), (points,))[0]
        kinds = dict(zip(points.seqs, points.kinds, strict=True))
        return SeriesPoints(
            [point.at for point in fetched],
            [point.seq for point in fetched],
            [kinds[point.seq] for point in fetched],
            [point.payload for point in fetched],
        )


def _span(where: Where | None) -> PointBounds:
    low, high = bounds(where, "tick")
    return PointBounds(
        AT_MIN if low is None else int(low), 0, AT_MAX if high is None else int(high)
    )


def _sources_of(where: Where | None, names: list[bytes]) -> list[bytes]:
    """Sources that a condition does not rule out."""
    text, plain = values(where, "source"), values(where, "source_bytes")
    if text is not None:
        chosen = {name.encode() for name in text}
        names = [name for name in names if name in chosen]
    if plain is not None:
        names = [name for name in names if name in plain]
    return names


def _batch(parts: list[Part], columns: Sequence[str], unit: str) -> pa.RecordBatch:
    def all_of(place: int) -> list[Any]:
        return [value for _, points in parts for value in points[place]]

    arrays: dict[str, pa.Array] = {}
    if "source" in columns or "source_bytes" in columns:
        names = [name for name, points in parts for _ in points.seqs]
        arrays["source_bytes"] = pa.array(names, pa.binary())
        arrays["source"] = texts(arrays["source_bytes"])
    if "tick" in columns or "time" in columns:
        ats = np.array(all_of(0), dtype=np.int64)
        arrays["tick"] = pa.array(ats)
        arrays["time"] = times_of(ats, unit)
    if "seq" in columns:
        arrays["seq"] = pa.array(all_of(1), pa.uint64())
    if "version" in columns:
        arrays["version"] = pa.array(map(version_of, all_of(2)), pa.uint16())
    if "payload" in columns or "text" in columns:
        arrays["payload"] = pa.array(all_of(3), pa.binary())
        arrays["text"] = texts(arrays["payload"])
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))


def times_of(ats: np.ndarray[Any, Any], unit: str) -> pa.Array:
    """Times of points as timestamps, null where there is none."""
    scale = _PER_SECOND.get(unit)
    if scale is None:
        return pa.nulls(len(ats), TIME)
    seconds = ats // scale
    outside = (seconds < _FIRST_S) | (seconds > _LAST_S)
    inside = np.where(outside, 0, ats)
    micros = inside * (_MICRO // scale) if scale <= _MICRO else inside // (scale // _MICRO)
    return pa.array(micros, mask=outside).cast(TIME)
