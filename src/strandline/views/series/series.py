"""The public face of a series: append, range, latest, retention.

    gps = store.series("gps", jitter=2_000_000, retention=60 * 86_400_000_000)
    gps.append("bus-17", at=now_us, payload=b"...", version=1)
    gps.range("bus-17", start, end)                     a list of points
    gps.range(["bus-17", "tram-3"], start, end)         lists by source
    gps.range_all(start, end, limit=100)                lists by source, of all

``at`` is any whole number of 64 bits, in a unit that is yours; start and end are both included.
Points come in order of (at, seq): those of equal ats as they came, each as often as it came.

Where a point goes is decided when it is appended, and told on the log with it:

    normal    at or behind the newest of its source
    jitter    before it, within the jitter window
    late      longer before it
    refused   before the floor, or too far in the future (admission.py): an error, or dropped;
              counted, nothing is appended

Retention raises the floor with a record of its own, then forgets what is below, then lets the log
forget it. Blocking, and safe from many threads.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, overload

from strandline.errors import Invalid, PointsRefused, StrandlineError
from strandline.records import Appended
from strandline.views.series import meta, point_reader, retention
from strandline.views.series.admission import ceiling_of, refusal, refusals
from strandline.views.series.block import Bounds
from strandline.views.series.fold import SeriesFold, route_of
from strandline.views.series.meta import AT_MAX, AT_MIN, NORMAL
from strandline.views.series.payload_versions import PayloadVersions, check_version
from strandline.views.series.point_reader import SeriesHost
from strandline.views.series.source_state import PAYLOAD_BYTES, POINT_BYTES, SOURCE_BYTES
from strandline.views.series.values import (
    AppendedPoints,
    Available,
    Point,
    RefusedPoint,
    Retained,
    SeriesStatistics,
    SourceName,
    check_at,
    check_limit,
    name_of,
)
from strandline.views.view import Draft

_FLOOR_STEPS = 100
"""By itself the floor rises when it is due by this part of the retention, not at every save."""


class Series:
    """Records by source and time. Safe from many threads. Get one from ``Store.series``."""

    def __init__(self, host: SeriesHost) -> None:
        self._host = host
        self._topic = host.topics[0]
        self._share = host.world.share
        self._refused = 0
        self.versions = PayloadVersions()
        """How payloads are read, by their version."""
        self._share.evicts(_evictor(weakref.ref(host)))

    def __repr__(self) -> str:
        return f"Series({self._host.name!r})"

    @property
    def name(self) -> str:
        return self._host.name

    def append(self, source: SourceName, at: int, payload: bytes, *, version: int = 0) -> Appended:
        """Append one point."""
        name = name_of(source)
        check_at("at", at)
        check_version(version)
        self._share.admit(SOURCE_BYTES + POINT_BYTES + self._kept(payload))

        def decision(fold: SeriesFold) -> Draft:
            self._check([name], [at], fold)
            return Draft(0, (payload,), (name,), (meta.encode(fold.route(name, at), version, at),))

        appended, floor = self._append(decision)
        assert appended is not None, "a point is always appended"
        if at < floor:
            raise self._refuse([name], [RefusedPoint(0, at, "floor")], floor, too_late=True)
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
    ) -> Appended: ...

    def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = 0,
        drop_refused: bool = False,
    ) -> Appended:
        """Append points, each (source, at, payload), as one batch: all of them, or none.

        With ``drop_refused`` points that are refused are left out, and listed in the result.
        """
        check_version(version)
        batch = Batch(*_columns(points))
        self._admit(len(set(batch.names)), batch.payloads)
        taken, refused = batch, list[RefusedPoint]()

        def decision(fold: SeriesFold) -> Draft | None:
            nonlocal taken, refused
            if drop_refused:
                refused = refusals(batch.ats, fold.floor, self._ceiling())
                taken = batch.without({point.place for point in refused})
            else:
                self._check(batch.names, batch.ats, fold)
            names, ats, payloads = taken
            if not names:
                return None
            metas = meta.encode_many(_routes(fold, names, ats), version, ats)
            return Draft(0, payloads, names, metas)

        appended, floor = self._append(decision)
        known = {point.place for point in refused}
        late = [each for each in refusals(batch.ats, floor, AT_MAX) if each.place not in known]
        if late and not drop_refused:
            raise self._refuse(batch.names, late, floor, too_late=True)
        if appended is None:
            head = self._topic.head_seq
            appended = Appended(head + 1, head, head)
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
    def range(  # type: ignore[overload-overlap]  # text is iterable too, and one source all the same
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
        """Points of one source from start to end, both included; of several, by source.

        ``limit`` is how many of each source, the earliest; 0 is all.
        """
        bounds = _bounds(start, end, limit)
        if isinstance(source, int | str | bytes):
            return self._range([name_of(source)], bounds, limit)[0]
        given = list(dict.fromkeys(source))
        found = self._range([name_of(each) for each in given], bounds, limit)
        return dict(zip(given, found, strict=True))

    def range_all(
        self, start: int = AT_MIN, end: int = AT_MAX, *, limit: int = 0
    ) -> dict[bytes, list[Point]]:
        """The same of all sources that have such points, in order of their names."""
        bounds = _bounds(start, end, limit)
        found = point_reader.select_all(self._host, bounds, limit)
        lists = point_reader.fetch(self._host, list(found), list(found.values()))
        return dict(zip(found, lists, strict=True))

    def range_from_available(
        self, sources: Iterable[SourceName], start: int, window: int, *, limit: int = 0
    ) -> Available:
        """The points within a window that begins with the earliest there is from start on.

        ``end`` of the answer is where the window ends; go on behind it. None: there is nothing.
        """
        check_at("window", window)
        given = list(dict.fromkeys(sources))
        first = self.earliest(given, start)
        if first is None or window < 0:
            return Available(None, {})
        end = min(first + window, AT_MAX)
        return Available(end, self.range(given, first, end, limit=limit))

    def visit(
        self,
        callback: Callable[[Point], bool | None],
        sources: Iterable[SourceName] | None = None,
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> int:
        """Call back with every point, source after source, until it says False; how many it were.

        Only a few points are in memory at a time, and nobody waits for the callback. Each source is
        seen as it is when its turn comes; without sources it is all that there are now.
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
        """The same points as ``visit``, one after the other."""
        bounds = _bounds(start, end, limit)
        if sources is None:
            with self._host.reading() as fold:
                names = fold.names(start, end)
        else:
            names = [name_of(each) for each in dict.fromkeys(sources)]
        each = (point_reader.visit(self._host, name, bounds, limit) for name in names)
        return itertools.chain.from_iterable(each)

    def latest(self, source: SourceName) -> Point | None:
        """The point of a source with the greatest at, of equal ones the last to come."""
        name = name_of(source)
        return point_reader.newest(self._host, name)

    def read_latest(self) -> dict[bytes, Point]:
        """The same of every source that has points, in order of their names."""
        return point_reader.newest_of_all(self._host)

    def earliest(
        self, sources: Iterable[SourceName] | None = None, start: int = AT_MIN
    ) -> int | None:
        """The smallest at from start on, of these sources or of all; None when there is none."""
        bounds = _bounds(start, AT_MAX, 0)
        names = None if sources is None else [name_of(each) for each in sources]
        with self._host.reading() as fold:
            if names is None:
                names = fold.names(start, AT_MAX)
            firsts = [fold.select(name, bounds, 1, payloads=False).ats for name in names]
        return min((ats[0] for ats in firsts if ats), default=None)

    def run_retention(self, floor: int | None = None) -> Retained:
        """Forget all points before the floor, or before what ``retention`` keeps.

        The floor never falls: a lower one changes nothing. Records leave the log as far as views
        are saved, the rest after the next save.
        """
        if floor is not None:
            check_at("floor", floor)
        retention.raise_floor(self._host, floor)
        return retention.forget(self._host)

    def maintain(self) -> None:
        """What the store does after every save of views: retention, when it is due."""
        config = self._host.fold.config
        if config.kept:
            step = max(1, config.kept // _FLOOR_STEPS)
            retention.raise_floor(self._host, None, step)
        retention.forget(self._host)

    def wait_for_pending(self) -> None:
        """Return once every index entry that waits is written. For tests: nobody needs to wait."""
        with self._host.reading() as fold:
            fold.index.write_all()

    def statistics(self) -> SeriesStatistics:
        """The series in numbers, at this moment."""
        with self._host.reading() as fold:
            return _statistics(fold, self._refused)

    def _range(self, names: list[bytes], bounds: Bounds, limit: int) -> list[list[Point]]:
        found = point_reader.select(self._host, names, bounds, limit)
        return point_reader.fetch(self._host, names, found)

    def _admit(self, sources: int, payloads: list[bytes]) -> None:
        """Ask for the memory that points will take."""
        points = len(payloads) * POINT_BYTES + sum(map(self._kept, payloads))
        self._share.admit(sources * SOURCE_BYTES + points)

    def _kept(self, payload: bytes) -> int:
        """Memory of a payload, if it is kept. What is not bytes the topic refuses, and says why."""
        size = len(payload) if isinstance(payload, bytes) else 0
        return size + PAYLOAD_BYTES if 0 < size <= self._host.fold.config.inline_bytes else 0

    def _append(
        self, decision: Callable[[SeriesFold], Draft | None]
    ) -> tuple[Appended | None, int]:
        """Where points landed, and a floor that was raised just before; ``AT_MIN`` for none."""
        if self._topic.config.durability != "fsync":
            return self._host.decide(decision), AT_MIN
        # Others must not wait for our sync: so a floor may be raised between looking and placing.
        # Then the point is on the log and before the floor, where nobody will ever see it.
        with self._host.reading() as fold:
            draft = decision(fold)
        if draft is None:
            return None, AT_MIN
        appended = self._host.append(draft)
        with self._host.reading() as fold:
            return appended, fold.floor if fold.floor_seq < appended.first_seq else AT_MIN

    def _ceiling(self) -> int:
        return ceiling_of(self._host.fold.config, self._host.world.clock.now_us())

    def _check(self, names: list[bytes], ats: list[int], fold: SeriesFold) -> None:
        """Raise when one of the points is refused."""
        ceiling = self._ceiling()
        if min(ats) < fold.floor or max(ats) > ceiling:
            raise self._refuse(names, refusals(ats, fold.floor, ceiling), fold.floor)

    def _refuse(
        self,
        names: list[bytes],
        refused: list[RefusedPoint],
        floor: int,
        *,
        too_late: bool = False,
    ) -> PointsRefused:
        """Count refused points; what to raise."""
        self._count_refused(len(refused))
        return refusal(names, refused, floor, self._ceiling(), too_late=too_late)

    def _count_refused(self, count: int) -> None:
        if count:
            with self._host.lock:
                self._refused += count


class Batch(NamedTuple):
    """Points as columns."""

    names: list[bytes]
    ats: list[int]
    payloads: list[bytes]

    def without(self, places: set[int]) -> Batch:
        if not places:
            return self
        kept = [place for place in range(len(self.ats)) if place not in places]
        names, ats, payloads = self
        return Batch(
            [names[place] for place in kept],
            [ats[place] for place in kept],
            [payloads[place] for place in kept],
        )


def _evictor(host: weakref.ref[SeriesHost]) -> Callable[[int], int]:
    """Frees memory of a view that may be gone by then. Who needs memory is told of no failure."""

    def evict(wanted: int) -> int:
        found = host()
        if found is None or not found.lock.acquire(blocking=False):
            return 0
        try:
            return found.fold.evict(wanted)
        except (StrandlineError, OSError):
            return 0
        finally:
            found.lock.release()

    return evict


def _columns(
    points: Iterable[tuple[SourceName, int, bytes]],
) -> tuple[list[bytes], list[int], list[bytes]]:
    """Names, ats and payloads, checked."""
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
    """The ways of points that come one after the other."""
    newest = {name: fold.max_at(name) for name in dict.fromkeys(names)}
    jitter = fold.config.jitter
    routes = []
    for name, at in zip(names, ats, strict=True):
        known = newest[name]
        if at >= known:
            newest[name] = at
            routes.append(NORMAL)
        else:
            routes.append(route_of(at, known, jitter))
    return routes


def _bounds(start: int, end: int, limit: int) -> Bounds:
    check_at("start", start)
    check_at("end", end)
    check_limit(limit)
    return Bounds(start, 0, end)


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
