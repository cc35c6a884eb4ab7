"""A series: append points, read ranges and the newest points, apply retention.

    gps = store.series("gps", jitter=2_000_000, retention=60 * 86_400_000_000)
    gps.append("bus-17", at=now_us, payload=b"...", version=1)
    gps.range("bus-17", start, end)                     a list of points
    gps.range(["bus-17", "tram-3"], start, end)         lists by source
    gps.range_all(start, end, limit=100)                lists by source, of all sources

``at`` is any integer of 64 bits, in a unit that the application chooses; start and end are both
included. Points are returned in order of (at, seq). Duplicates are not removed.

The route of a point is decided when it is appended, and stored in its record:

    normal    not before the newest point of its source
    jitter    before it, within the jitter window
    late      earlier than that
    refused   before the floor, or too far in the future (admission.py): an error, or dropped;
              counted, nothing is appended

Retention raises the floor with a record, then removes points below it from the index, then from the
log. Calls block, and are safe from many threads.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, overload

from strandline.errors import Invalid, PointsRefused, StrandlineError
from strandline.records import AppendResult
from strandline.views.series import meta, point_reader, retention
from strandline.views.series.admission import ceiling_of, refused_error, refused_points
from strandline.views.series.block import PointBounds
from strandline.views.series.fold import SeriesFold, route_of
from strandline.views.series.meta import AT_MAX, AT_MIN, NORMAL
from strandline.views.series.payload_versions import PayloadVersions, check_version
from strandline.views.series.point_reader import SeriesHost
from strandline.views.series.source_state import PAYLOAD_BYTES, POINT_BYTES, SOURCE_BYTES
from strandline.views.series.values import (
    AppendedPoints,
    AvailablePoints,
    Point,
    RefusedPoint,
    RetentionResult,
    SeriesStatistics,
    SourceName,
    check_at,
    check_limit,
    name_of,
)
from strandline.views.view import ViewAppend

_FLOOR_STEPS = 100
"""Maintenance raises the floor in steps of this fraction of the retention, not at every save."""


class Series:
    """Records by source and time. Safe to call from many threads. Opened by ``Store.series``."""

    def __init__(self, host: SeriesHost) -> None:
        self._host = host
        self._topic = host.topics[0]
        self._share = host.world.share
        self._refused = 0
        self.versions = PayloadVersions()
        """The readers of payloads, by version."""
        self._share.add_evictor(_evictor(weakref.ref(host)))

    def __repr__(self) -> str:
        return f"Series({self._host.name!r})"

    @property
    def name(self) -> str:
        return self._host.name

    def append(
        self, source: SourceName, at: int, payload: bytes, *, version: int = 0
    ) -> AppendResult:
        """Append one point."""
        name = name_of(source)
        check_at("at", at)
        check_version(version)
        self._share.admit(SOURCE_BYTES + POINT_BYTES + self._inline_size(payload))

        def decide(fold: SeriesFold) -> ViewAppend:
            self._check([name], [at], fold)
            return ViewAppend(
                0, (payload,), (name,), (meta.encode(fold.route(name, at), version, at),)
            )

        appended, floor = self._append(decide)
        assert appended is not None, "a point is always appended"
        if at < floor:
            raise self._refused_error([name], [RefusedPoint(0, at, "floor")], floor, too_late=True)
        return appended

    @overload
    def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = ...,
        drop_refused: Literal[True],
    ) -> AppendedPoints: ...

    @overload
    def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = ...,
        drop_refused: bool = ...,
    ) -> AppendResult: ...

    def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = 0,
        drop_refused: bool = False,
    ) -> AppendResult:
        """Append points, each (source, at, payload), as one batch: all of them or none.

        With ``drop_refused``, refused points are left out and listed in the result.
        """
        check_version(version)
        batch = _PointBatch(*_columns(points))
        self._reserve(len(set(batch.names)), batch.payloads)
        accepted, refused = batch, list[RefusedPoint]()

        def decide(fold: SeriesFold) -> ViewAppend | None:
            nonlocal accepted, refused
            if drop_refused:
                refused = refused_points(batch.ats, fold.floor, self._ceiling())
                accepted = batch.without({point.place for point in refused})
            else:
                self._check(batch.names, batch.ats, fold)
            names, ats, payloads = accepted
            if not names:
                return None
            metas = meta.encode_many(_routes(fold, names, ats), version, ats)
            return ViewAppend(0, payloads, names, metas)

        appended, floor = self._append(decide)
        dropped = {point.place for point in refused}
        late = [
            each for each in refused_points(batch.ats, floor, AT_MAX) if each.place not in dropped
        ]
        if late and not drop_refused:
            raise self._refused_error(batch.names, late, floor, too_late=True)
        if appended is None:
            head = self._topic.head_seq
            appended = AppendResult(head + 1, head, head)
        if not drop_refused:
            return appended
        self._count_refused(len(refused) + len(late))
        return AppendedPoints(
            appended.first_seq,
            appended.last_seq,
            appended.head_seq,
            appended.deduped,
            tuple(sorted([*refused, *late])),
        )

    @overload
    def range(  # type: ignore[overload-overlap]  # text is iterable, too, but is one source
        self, source: SourceName, start: int = ..., end: int = ..., *, limit: int = ...
    ) -> list[Point]: ...

    @overload
    def range(
        self, source: Iterable[SourceName], start: int = ..., end: int = ..., *, limit: int = ...
    ) -> dict[SourceName, list[Point]]: ...

    def range(
        self,
        source: SourceName | Iterable[SourceName],
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> list[Point] | dict[SourceName, list[Point]]:
        """Points of one source from start to end, both included; of several sources, by source.

        ``limit`` is the maximal number of points per source, the earliest ones; 0 is all.
        """
        bounds = _bounds(start, end, limit)
        if isinstance(source, int | str | bytes):
            return self._range([name_of(source)], bounds, limit)[0]
        sources = list(dict.fromkeys(source))
        lists = self._range([name_of(each) for each in sources], bounds, limit)
        return dict(zip(sources, lists, strict=True))

    def range_all(
        self, start: int = AT_MIN, end: int = AT_MAX, *, limit: int = 0
    ) -> dict[bytes, list[Point]]:
        """Points of all sources that have points from start to end, in order of source names."""
        bounds = _bounds(start, end, limit)
        selected = point_reader.select_all(self._host, bounds, limit)
        lists = point_reader.fetch(self._host, list(selected), list(selected.values()))
        return dict(zip(selected, lists, strict=True))

    def range_from_available(
        self, sources: Iterable[SourceName], start: int, window: int, *, limit: int = 0
    ) -> AvailablePoints:
        """The points within a window that starts at the earliest point from start on.

        ``end`` of the result is the end of the window: continue after it. None: no points.
        """
        check_at("window", window)
        distinct = list(dict.fromkeys(sources))
        first = self.earliest(distinct, start)
        if first is None or window < 0:
            return AvailablePoints(None, {})
        end = min(first + window, AT_MAX)
        return AvailablePoints(end, self.range(distinct, first, end, limit=limit))

    def visit(
        self,
        callback: Callable[[Point], bool | None],
        sources: Iterable[SourceName] | None = None,
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> int:
        """Call back with every point, by source, until it returns False; return their number.

        Only a few points are in memory at a time, and no lock is held during a callback. Each
        source is read at its own moment; without ``sources``, all current sources are read.
        """
        visited = 0
        for point in self.points(sources, start, end, limit=limit):
            visited += 1
            if callback(point) is False:
                return visited
        return visited

    def points(
        self,
        sources: Iterable[SourceName] | None = None,
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> Iterator[Point]:
        """Iterate over the same points as ``visit``."""
        bounds = _bounds(start, end, limit)
        if sources is None:
            with self._host.reading() as fold:
                names = fold.names(start, end)
        else:
            names = [name_of(each) for each in dict.fromkeys(sources)]
        each = (point_reader.visit(self._host, name, bounds, limit) for name in names)
        return itertools.chain.from_iterable(each)

    def latest(self, source: SourceName) -> Point | None:
        """The point of a source with the greatest at; of equal ats the last appended."""
        name = name_of(source)
        return point_reader.newest(self._host, name)

    def read_latest(self) -> dict[bytes, Point]:
        """The newest point of every source that has points, in order of source names."""
        return point_reader.newest_of_all(self._host)

    def earliest(
        self, sources: Iterable[SourceName] | None = None, start: int = AT_MIN
    ) -> int | None:
        """The smallest at from start on, of these sources or of all; None without points."""
        bounds = _bounds(start, AT_MAX, 0)
        names = None if sources is None else [name_of(each) for each in sources]
        with self._host.reading() as fold:
            if names is None:
                names = fold.names(start, AT_MAX)
            firsts = [fold.select(name, bounds, 1, payloads=False).ats for name in names]
        return min((ats[0] for ats in firsts if ats), default=None)

    def run_retention(self, floor: int | None = None) -> RetentionResult:
        """Remove all points before the floor, or before the floor that ``retention`` implies.

        The floor never falls: a lower one changes nothing. Records are removed from the log up to
        the saved state of views, the remaining ones after the next save.
        """
        if floor is not None:
            check_at("floor", floor)
        retention.raise_floor(self._host, floor)
        return retention.remove_below_floor(self._host)

    def maintain(self) -> None:
        """Apply retention if it is due. The store calls it after every save of views."""
        config = self._host.fold.config
        if config.effective_retention:
            step = max(1, config.effective_retention // _FLOOR_STEPS)
            retention.raise_floor(self._host, None, step)
        retention.remove_below_floor(self._host)

    def wait_for_pending(self) -> None:
        """Write all waiting index entries. For tests: reads include waiting entries anyway."""
        with self._host.reading() as fold:
            fold.index.write_all()

    def statistics(self) -> SeriesStatistics:
        """Statistics of the series at this moment."""
        with self._host.reading() as fold:
            return _statistics(fold, self._refused)

    def _range(self, names: list[bytes], bounds: PointBounds, limit: int) -> list[list[Point]]:
        selected = point_reader.select(self._host, names, bounds, limit)
        return point_reader.fetch(self._host, names, selected)

    def _reserve(self, sources: int, payloads: list[bytes]) -> None:
        """Reserve the memory that points will take."""
        points = len(payloads) * POINT_BYTES + sum(map(self._inline_size, payloads))
        self._share.admit(sources * SOURCE_BYTES + points)

    def _inline_size(self, payload: bytes) -> int:
        """Memory of a payload that is stored inline. Other types are rejected by the topic."""
        size = len(payload) if isinstance(payload, bytes) else 0
        return size + PAYLOAD_BYTES if 0 < size <= self._host.fold.config.inline_bytes else 0

    def _append(
        self, decide: Callable[[SeriesFold], ViewAppend | None]
    ) -> tuple[AppendResult | None, int]:
        """The seqs of points, and a floor that was raised just before; ``AT_MIN`` for none."""
        if self._topic.config.durability != "fsync":
            return self._host.decide(decide), AT_MIN
        # Other threads must not wait for this sync, so a floor may be raised between the check and
        # the append. Then the point is in the log, but before the floor: no read returns it.
        with self._host.reading() as fold:
            draft = decide(fold)
        if draft is None:
            return None, AT_MIN
        appended = self._host.append(draft)
        with self._host.reading() as fold:
            return appended, fold.floor if fold.floor_seq < appended.first_seq else AT_MIN

    def _ceiling(self) -> int:
        return ceiling_of(self._host.fold.config, self._host.world.clock.now_us())

    def _check(self, names: list[bytes], ats: list[int], fold: SeriesFold) -> None:
        """Raise PointsRefused if a point is refused."""
        ceiling = self._ceiling()
        if min(ats) < fold.floor or max(ats) > ceiling:
            raise self._refused_error(names, refused_points(ats, fold.floor, ceiling), fold.floor)

    def _refused_error(
        self,
        names: list[bytes],
        refused: list[RefusedPoint],
        floor: int,
        *,
        too_late: bool = False,
    ) -> PointsRefused:
        """Count refused points and return the error to raise."""
        self._count_refused(len(refused))
        return refused_error(names, refused, floor, self._ceiling(), too_late=too_late)

    def _count_refused(self, count: int) -> None:
        if count:
            with self._host.lock:
                self._refused += count


class _PointBatch(NamedTuple):
    """Points as columns."""

    names: list[bytes]
    ats: list[int]
    payloads: list[bytes]

    def without(self, places: set[int]) -> _PointBatch:
        if not places:
            return self
        indices = [index for index in range(len(self.ats)) if index not in places]
        names, ats, payloads = self
        return _PointBatch(
            [names[index] for index in indices],
            [ats[index] for index in indices],
            [payloads[index] for index in indices],
        )


def _evictor(host: weakref.ref[SeriesHost]) -> Callable[[int], int]:
    """Evicts memory of a view that may be closed by then. A failure frees nothing."""

    def evict(size: int) -> int:
        runner = host()
        if runner is None or not runner.lock.acquire(blocking=False):
            return 0
        try:
            return runner.fold.evict(size)
        except (StrandlineError, OSError):
            return 0
        finally:
            runner.lock.release()

    return evict


def _columns(
    points: Iterable[tuple[SourceName, int, bytes]],
) -> tuple[list[bytes], list[int], list[bytes]]:
    """Names, ats and payloads, validated."""
    try:
        sources, ats, payloads = zip(*points, strict=True)
    except (TypeError, ValueError):
        raise Invalid("points are (source, at, payload), at least one") from None
    names = {source: name_of(source) for source in dict.fromkeys(sources)}
    if set(map(type, ats)) != {int} or min(ats) < AT_MIN or max(ats) > AT_MAX:
        for at in ats:
            check_at("at", at)
    return [names[source] for source in sources], list(ats), list(payloads)


def _routes(fold: SeriesFold, names: list[bytes], ats: list[int]) -> list[int]:
    """The routes of points that are appended one after the other."""
    newest = {name: fold.max_at(name) for name in dict.fromkeys(names)}
    jitter = fold.config.jitter
    routes = []
    for name, at in zip(names, ats, strict=True):
        newest_at = newest[name]
        if at >= newest_at:
            newest[name] = at
            routes.append(NORMAL)
        else:
            routes.append(route_of(at, newest_at, jitter))
    return routes


def _bounds(start: int, end: int, limit: int) -> PointBounds:
    check_at("start", start)
    check_at("end", end)
    check_limit(limit)
    return PointBounds(start, 0, end)


def _statistics(fold: SeriesFold, refused: int) -> SeriesStatistics:
    tuning = fold.index.tuning
    return SeriesStatistics(
        unit=fold.config.unit,
        sources=fold.sources.count,
        points=fold.points,
        newest=None if fold.newest == AT_MIN else fold.newest,
        floor=None if fold.floor == AT_MIN else fold.floor,
        normal=fold.counts.normal,
        jitter_absorbed=fold.counts.jitter,
        late_arrivals=fold.counts.late,
        below_floor=fold.counts.below_floor,
        refused=refused,
        level=tuning.level,
        spacing=tuning.spacing,
        batch=tuning.batch,
        scale_up=tuning.ups,
        scale_down=tuning.downs,
        pending=len(fold.index.pending),
        queue_full=fold.index.full,
        unreleased=len(fold.gone),
    )
