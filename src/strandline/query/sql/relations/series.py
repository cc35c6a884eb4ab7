"""A series as rows: a point each, of every source, up to a position.

Points are never changed, so those of a position are those whose seq is not behind it. But what
retention has forgotten is gone: when the floor was raised behind the position, the question is
refused. Sources are read one after the other, some points at a time, and only those that a
condition on ``source`` or ``tick`` allows; payloads that are in the log alone are read when they
are asked for.

``tick`` is what the series calls ``at``, a word that SQL keeps for itself, and counts what the
series counts; ``time`` is the same moment as a timestamp, null when the unit is none that we know
(s, ms, us, ns), or the year is none from 1 to 9999.
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
from strandline.views.series.block import Bounds, Points
from strandline.views.series.fold import SeriesFold
from strandline.views.series.meta import AT_MAX, AT_MIN, version_of
from strandline.views.view_runner import Host

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICRO = 1_000_000
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The years from 1 to 9999."""

Part = tuple[bytes, Points]


class SeriesSource:
    """A series."""

    held: Sequence[Host[Any]] = ()

    def __init__(self, host: Host[SeriesFold]) -> None:
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

    def __init__(self, host: Host[SeriesFold], head: int) -> None:
        self._host = host
        self.head_seq = head

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        payloads = "payload" in columns or "text" in columns
        unit = self._host.fold.config.unit
        some: list[Part] = []
        rows = 0
        for part in self._parts(where, payloads=payloads):
            some.append(part)
            rows += len(part[1].seqs)
            if rows >= ROWS_AT_ONCE:
                yield _batch(some, columns, unit)
                some, rows = [], 0
        if rows:
            yield _batch(some, columns, unit)

    def _parts(self, where: Where | None, *, payloads: bool) -> Iterator[Part]:
        span = _span(where)
        with self._host.reading() as fold:
            names = _wanted(where, fold.names(span.first_at, span.last_at))
        for name in names:
            left = span
            while True:
                with self._host.reading() as fold:
                    self._check_floor(fold)
                    found = fold.select(name, left, point_reader.CHUNK, payloads=payloads)
                if found.seqs:
                    seen = self._seen(name, found, payloads=payloads)
                    if seen.seqs:
                        yield name, seen
                if len(found.seqs) < point_reader.CHUNK:
                    break
                left = Bounds(found.ats[-1], found.seqs[-1] + 1, span.last_at)

    def _check_floor(self, fold: SeriesFold) -> None:
        if fold.floor_seq > self.head_seq:
            raise NotFound(
                f"series {self._host.name!r} has forgotten points since seq {self.head_seq}: "
                f"retention raised the floor to {fold.floor} with seq {fold.floor_seq}; ask for a "
                "position from there on"
            )

    def _seen(self, name: bytes, found: Points, *, payloads: bool) -> Points:
        """Those up to the position, with payloads from wherever they are."""
        keep = [seq <= self.head_seq for seq in found.seqs]
        if not all(keep):
            found = Points(
                list(compress(found.ats, keep)),
                list(compress(found.seqs, keep)),
                list(compress(found.kinds, keep)),
                list(compress(found.payloads, keep)),
            )
        if not payloads or None not in found.payloads:
            return found
        points = point_reader.fetch(self._host, (name,), (found,))[0]
        kinds = dict(zip(found.seqs, found.kinds, strict=True))
        return Points(
            [point.at for point in points],
            [point.seq for point in points],
            [kinds[point.seq] for point in points],
            [point.payload for point in points],
        )


def _span(where: Where | None) -> Bounds:
    low, high = bounds(where, "tick")
    return Bounds(AT_MIN if low is None else int(low), 0, AT_MAX if high is None else int(high))


def _wanted(where: Where | None, names: list[bytes]) -> list[bytes]:
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

    made: dict[str, pa.Array] = {}
    if "source" in columns or "source_bytes" in columns:
        names = [name for name, points in parts for _ in points.seqs]
        made["source_bytes"] = pa.array(names, pa.binary())
        made["source"] = texts(made["source_bytes"])
    if "tick" in columns or "time" in columns:
        ats = np.array(all_of(0), dtype=np.int64)
        made["tick"] = pa.array(ats)
        made["time"] = times_of(ats, unit)
    if "seq" in columns:
        made["seq"] = pa.array(all_of(1), pa.uint64())
    if "version" in columns:
        made["version"] = pa.array(map(version_of, all_of(2)), pa.uint16())
    if "payload" in columns or "text" in columns:
        made["payload"] = pa.array(all_of(3), pa.binary())
        made["text"] = texts(made["payload"])
    return pa.RecordBatch.from_arrays([made[name] for name in columns], names=list(columns))


def times_of(ats: np.ndarray[Any, Any], unit: str) -> pa.Array:
    """Ats as moments, null where there is none."""
    scale = _PER_SECOND.get(unit)
    if scale is None:
        return pa.nulls(len(ats), TIME)
    seconds = ats // scale
    outside = (seconds < _FIRST_S) | (seconds > _LAST_S)
    inside = np.where(outside, 0, ats)
    micros = inside * (_MICRO // scale) if scale <= _MICRO else inside // (scale // _MICRO)
    return pa.array(micros, mask=outside).cast(TIME)
