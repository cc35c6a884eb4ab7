"""Reads points: from the fold, under its lock; then payloads that it does not have from the log.

All payloads of a call that come from the log come in one walk through it, in order of seq, whatever
sources they belong to. A record that retention takes away between the two is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strandline.views.series import meta
from strandline.views.series.block import Bounds, Points
from strandline.views.series.fold import SeriesFold
from strandline.views.series.meta import version_of
from strandline.views.series.values import Point
from strandline.views.view_runner import Host

CHUNK = 4096
"""Points whose payloads are in memory together while one visits them."""

SeriesHost = Host[SeriesFold]


def select(host: SeriesHost, names: Iterable[bytes], bounds: Bounds, limit: int) -> list[Points]:
    """The points of these sources, in their order."""
    with host.reading() as fold:
        return [fold.select(name, bounds, limit) for name in names]


def select_all(host: SeriesHost, bounds: Bounds, limit: int) -> dict[bytes, Points]:
    """The points of all sources that have some, in order of their names."""
    with host.reading() as fold:
        names = fold.names(bounds.first_at, bounds.last_at)
        found = {name: fold.select(name, bounds, limit) for name in names}
    return {name: points for name, points in found.items() if points.seqs}


def fetch(host: SeriesHost, names: Sequence[bytes], found: Sequence[Points]) -> list[list[Point]]:
    """The points themselves, of each source a list."""
    missing = [seq for points in found if None in points.payloads for seq in _missing(points)]
    payloads = _payloads(host, sorted(missing)) if missing else {}
    return [_points(name, points, payloads) for name, points in zip(names, found, strict=True)]


def visit(host: SeriesHost, name: bytes, bounds: Bounds, limit: int) -> Iterator[Point]:
    """The points of one source, a few in memory at a time."""
    left = limit
    while True:
        wanted = min(left, CHUNK) if limit else CHUNK
        (found,) = select(host, (name,), bounds, wanted)
        if found.seqs:
            yield from fetch(host, (name,), (found,))[0]
        left -= len(found.seqs)
        if len(found.seqs) < wanted or (limit and not left):
            return
        bounds = Bounds(found.ats[-1], found.seqs[-1] + 1, bounds.last_at)


def newest(host: SeriesHost, name: bytes) -> Point | None:
    """The newest point of a source."""
    with host.reading() as fold:
        points = fold.newest_of(name)
    found = fetch(host, (name,), (points,))[0]
    return found[0] if found else None


def newest_of_all(host: SeriesHost) -> dict[bytes, Point]:
    """The newest points of all sources, in order of their names."""
    with host.reading() as fold:
        known, seqs = fold.newest_of_all()
    lists = fetch(host, list(known), list(known.values()))
    found = {points[0].source: points[0] for points in lists if points}
    found.update(_by_source(host, sorted(seqs.values())))
    return {name: found[name] for name in sorted(found)}


def _by_source(host: SeriesHost, seqs: list[int]) -> dict[bytes, Point]:
    """The points with these seqs."""
    found = {}
    records = host.records(0, seqs) if seqs else []
    for record in records:
        assert record.key is not None, "a point has a source"
        told = meta.decode(record.meta)
        at, version = (record.ts, 0) if told is None else (told.at, told.version)
        found[record.key] = Point(record.key, at, record.data, version, record.seq)
    return found


def _missing(points: Points) -> Iterator[int]:
    """The seqs of points whose payloads are in the log."""
    for seq, payload in zip(points.seqs, points.payloads, strict=True):
        if payload is None:
            yield seq


def _points(name: bytes, points: Points, payloads: dict[int, bytes]) -> list[Point]:
    """The points of one source, without those whose payload is nowhere."""
    found = []
    for at, seq, kind, kept in zip(*points, strict=True):
        payload = payloads.get(seq) if kept is None else kept
        if payload is not None:
            found.append(Point(name, at, payload, version_of(kind), seq))
    return found


def _payloads(host: SeriesHost, seqs: list[int]) -> dict[int, bytes]:
    page = host.topics[0].pick(seqs)
    if len(page) == len(seqs):
        return dict(zip(seqs, page.data, strict=True))
    return {record.seq: record.data for record in page.records}
