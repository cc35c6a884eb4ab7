"""Reads points: which they are from the fold, under its lock; their payloads from the log, then.

All payloads of a call come in one walk through the log, in order of seq, whatever sources they
belong to. A record that retention takes away between the two is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strandline.views.host import Host
from strandline.views.series import meta
from strandline.views.series.block import Bounds, Points
from strandline.views.series.fold import SeriesFold
from strandline.views.series.meta import version_of
from strandline.views.series.values import Point

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
    payloads = _payloads(host, sorted(seq for points in found for seq in points.seqs))
    return [
        [
            Point(name, at, payloads[seq], version_of(kind), seq)
            for at, seq, kind in zip(*points, strict=True)
            if seq in payloads
        ]
        for name, points in zip(names, found, strict=True)
    ]


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


def newest(host: SeriesHost, seqs: dict[bytes, int]) -> dict[bytes, Point]:
    """The points with these seqs, by their source."""
    records = host.records(0, sorted(seqs.values()))
    found = {}
    for record in records:
        assert record.key is not None, "a point has a source"
        told = meta.decode(record.meta)
        at, version = (record.ts, 0) if told is None else (told.at, told.version)
        found[record.key] = Point(record.key, at, record.data, version, record.seq)
    return {name: found[name] for name in sorted(found)}


def _payloads(host: SeriesHost, seqs: list[int]) -> dict[int, bytes]:
    page = host.topics[0].pick(seqs)
    if len(page) == len(seqs):
        return dict(zip(seqs, page.data, strict=True))
    return {record.seq: record.data for record in page.records}
