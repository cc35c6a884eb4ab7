"""Reads points: from the fold, under its lock; then payloads that it does not have from the log.

All payloads of a call are read from the log in one pass, in order of seq, for all sources together.
A point whose record is removed by retention between the two steps is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strandline.views.series import meta
from strandline.views.series.block import PointBounds, SeriesPoints
from strandline.views.series.fold import SeriesFold
from strandline.views.series.meta import version_of
from strandline.views.series.values import Point
from strandline.views.view_runner import ViewRunner

CHUNK = 4096
"""Points whose payloads are in memory together during an iteration."""

SeriesHost = ViewRunner[SeriesFold]


def select(
    host: SeriesHost, names: Iterable[bytes], bounds: PointBounds, limit: int
) -> list[SeriesPoints]:
    """The points of these sources, in their order."""
    with host.reading() as fold:
        return [fold.select(name, bounds, limit) for name in names]


def select_all(host: SeriesHost, bounds: PointBounds, limit: int) -> dict[bytes, SeriesPoints]:
    """The points of all sources with points in the bounds, in order of source names."""
    with host.reading() as fold:
        names = fold.names(bounds.first_at, bounds.last_at)
        selected = {name: fold.select(name, bounds, limit) for name in names}
    return {name: points for name, points in selected.items() if points.seqs}


def fetch(
    host: SeriesHost, names: Sequence[bytes], selected: Sequence[SeriesPoints]
) -> list[list[Point]]:
    """The points with their payloads, a list for each source."""
    missing = [seq for points in selected if None in points.payloads for seq in _missing(points)]
    payloads = _payloads(host, sorted(missing)) if missing else {}
    return [_points(name, points, payloads) for name, points in zip(names, selected, strict=True)]


def visit(host: SeriesHost, name: bytes, bounds: PointBounds, limit: int) -> Iterator[Point]:
    """The points of one source, a few in memory at a time."""
    remaining = limit
    while True:
        count = min(remaining, CHUNK) if limit else CHUNK
        (chunk,) = select(host, (name,), bounds, count)
        if chunk.seqs:
            yield from fetch(host, (name,), (chunk,))[0]
        remaining -= len(chunk.seqs)
        if len(chunk.seqs) < count or (limit and not remaining):
            return
        bounds = PointBounds(chunk.ats[-1], chunk.seqs[-1] + 1, bounds.last_at)


def newest(host: SeriesHost, name: bytes) -> Point | None:
    """The newest point of a source."""
    with host.reading() as fold:
        points = fold.newest_of(name)
    fetched = fetch(host, (name,), (points,))[0]
    return fetched[0] if fetched else None


def newest_of_all(host: SeriesHost) -> dict[bytes, Point]:
    """The newest points of all sources, in order of source names."""
    with host.reading() as fold:
        in_memory, seqs = fold.newest_of_all()
    lists = fetch(host, list(in_memory), list(in_memory.values()))
    by_source = {points[0].source: points[0] for points in lists if points}
    by_source.update(_by_source(host, sorted(seqs.values())))
    return {name: by_source[name] for name in sorted(by_source)}


def _by_source(host: SeriesHost, seqs: list[int]) -> dict[bytes, Point]:
    """The points with these seqs, from the log."""
    points = {}
    records = host.records(0, seqs) if seqs else []
    for record in records:
        assert record.key is not None, "a point has a source"
        decoded = meta.decode(record.meta)
        at, version = (record.ts, 0) if decoded is None else (decoded.at, decoded.version)
        points[record.key] = Point(record.key, at, record.data, version, record.seq)
    return points


def _missing(points: SeriesPoints) -> Iterator[int]:
    """The seqs of points whose payloads are in the log."""
    for seq, payload in zip(points.seqs, points.payloads, strict=True):
        if payload is None:
            yield seq


def _points(name: bytes, points: SeriesPoints, payloads: dict[int, bytes]) -> list[Point]:
    """The points of one source, without those whose record was removed."""
    result = []
    for at, seq, kind, inline in zip(*points, strict=True):
        payload = payloads.get(seq) if inline is None else inline
        if payload is not None:
            result.append(Point(name, at, payload, version_of(kind), seq))
    return result


def _payloads(host: SeriesHost, seqs: list[int]) -> dict[int, bytes]:
    page = host.topics[0].get_many(seqs)
    if len(page) == len(seqs):
        return dict(zip(seqs, page.data, strict=True))
    return {record.seq: record.data for record in page.records}
