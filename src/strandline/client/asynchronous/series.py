"""A series of a server: records by source and time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Literal, overload

import msgspec

from strandline.api import series as wire
from strandline.client.asynchronous.endpoint import AsyncRoute
from strandline.client.series_codec import (
    appended_of,
    by_source,
    is_small,
    point_told,
    points_of,
    source_told,
    table_of,
)
from strandline.errors import Invalid
from strandline.records import Appended
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payload_versions import PayloadVersions, check_version
from strandline.views.series.values import (
    AppendedPoints,
    Available,
    Point,
    Retained,
    SeriesStatistics,
    SourceName,
    check_at,
    check_limit,
    name_of,
)

_SOURCES_AT_ONCE = 64


class AsyncSeries:
    """Records by source and time. Safe from many tasks of one loop."""

    def __init__(self, at: AsyncRoute, name: str) -> None:
        self.name = name
        self._at = at
        self.versions = PayloadVersions()
        """How payloads are read, by their version."""

    def __repr__(self) -> str:
        return f"AsyncSeries({self.name!r})"

    async def append(
        self, source: SourceName, at: int, payload: bytes, *, version: int = 0
    ) -> Appended:
        """Append one point."""
        return await self.append_many([(source, at, payload)], version=version)

    @overload
    async def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = ...,
        drop_refused: Literal[True],
    ) -> AppendedPoints: ...

    @overload
    async def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = ...,
        drop_refused: bool = ...,
    ) -> Appended: ...

    async def append_many(
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
        names, ats, payloads = _columns(points)
        if is_small(payloads):
            told = [point_told(*point) for point in zip(names, ats, payloads, strict=True)]
            asked = wire.AppendPoints(points=told, version=version, drop_refused=drop_refused)
            done = await self._at.do("append", asked, wire.Appended)
        else:
            query = {"version": str(version), "drop_refused": str(drop_refused).lower()}
            table = table_of(names, ats, payloads)
            done = await self._at.send("append", table, wire.Appended, query)
        return appended_of(done, drop_refused=drop_refused)

    @overload
    async def range(  # type: ignore[overload-overlap]  # text is iterable too, and one source all the same
        self, source: SourceName, start: int = ..., end: int = ..., *, limit: int = ...
    ) -> list[Point]: ...

    @overload
    async def range(
        self, source: Iterable[SourceName], start: int = ..., end: int = ..., *, limit: int = ...
    ) -> dict[SourceName, list[Point]]: ...

    async def range(
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
        _check_bounds(start, end, limit)
        if isinstance(source, int | str | bytes):
            found = await self._range([source], start, end, limit)
            return found.get(name_of(source), [])
        given = list(dict.fromkeys(source))
        found = await self._range(given, start, end, limit)
        return {each: found.get(name_of(each), []) for each in given}

    async def range_all(
        self, start: int = AT_MIN, end: int = AT_MAX, *, limit: int = 0
    ) -> dict[bytes, list[Point]]:
        """The same of all sources that have such points, in order of their names."""
        _check_bounds(start, end, limit)
        return await self._range(None, start, end, limit)

    async def range_from_available(
        self, sources: Iterable[SourceName], start: int, window: int, *, limit: int = 0
    ) -> Available:
        """The points within a window that begins with the earliest there is from start on.

        ``end`` of the answer is where the window ends; go on behind it. None: there is nothing.
        """
        check_at("window", window)
        given = list(dict.fromkeys(sources))
        first = await self.earliest(given, start)
        if first is None or window < 0:
            return Available(None, {})
        end = min(first + window, AT_MAX)
        return Available(end, await self.range(given, first, end, limit=limit))

    async def visit(
        self,
        callback: Callable[[Point], bool | None],
        sources: Iterable[SourceName] | None = None,
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> int:
        """Call back with every point, source after source, until it says False; how many it were.

        Only the points of a few sources are in memory at a time. Each source is seen as it is when
        its turn comes; without sources it is all that there are now.
        """
        visited = 0
        async for point in self.points(sources, start, end, limit=limit):
            visited += 1
            if callback(point) is False:
                break
        return visited

    def points(
        self,
        sources: Iterable[SourceName] | None = None,
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> AsyncIterator[Point]:
        """Every point, source after source, as ``visit`` sees them."""
        _check_bounds(start, end, limit)
        names = None if sources is None else [name_of(each) for each in dict.fromkeys(sources)]
        return self._points(names, start, end, limit)

    async def latest(self, source: SourceName) -> Point | None:
        """The point of a source with the greatest at, of equal ones the last to come."""
        told = source_told(source)
        asked = wire.Latest(source=told.source, source_base64=told.source_base64)
        found = await self._latest(asked)
        return found.get(name_of(source))

    async def read_latest(self) -> dict[bytes, Point]:
        """The same of every source that has points, in order of their names."""
        return await self._latest(wire.Latest())

    async def earliest(
        self, sources: Iterable[SourceName] | None = None, start: int = AT_MIN
    ) -> int | None:
        """The smallest at from start on, of these sources or of all; None when there is none."""
        check_at("start", start)
        names = None if sources is None else [source_told(each) for each in sources]
        asked = wire.Earliest(sources=names, start=start)
        return (await self._at.find("earliest", asked, wire.At)).at

    async def run_retention(self, floor: int | None = None) -> Retained:
        """Forget all points before the floor, or before what ``retention`` keeps.

        The floor never falls: a lower one changes nothing. Records leave the log as far as views
        are saved, the rest after the next save.
        """
        if floor is not None:
            check_at("floor", floor)
        told = await self._at.find("retention", wire.Retain(floor=floor), wire.Retained)
        return msgspec.convert(msgspec.to_builtins(told), Retained)

    async def statistics(self) -> SeriesStatistics:
        """The series in numbers, at this moment."""
        told = msgspec.to_builtins(await self._at.get("", wire.SeriesState))
        return msgspec.convert(told, SeriesStatistics)

    async def _range(
        self, sources: Sequence[SourceName] | None, start: int, end: int, limit: int
    ) -> dict[bytes, list[Point]]:
        names = None if sources is None else [source_told(each) for each in sources]
        asked = wire.Range(sources=names, start=start, end=end, limit=limit)
        return by_source(await self._at.table("range", asked))

    async def _points(
        self, names: list[bytes] | None, start: int, end: int, limit: int
    ) -> AsyncIterator[Point]:
        if names is None:
            names = list(await self._range(None, start, end, 1))
        for place in range(0, len(names), _SOURCES_AT_ONCE):
            some = list(names[place : place + _SOURCES_AT_ONCE])
            found = await self._range(some, start, end, limit)
            for name in some:
                for point in found.get(name, []):
                    yield point

    async def _latest(self, asked: wire.Latest) -> dict[bytes, Point]:
        told = await self._at.find("latest", asked, wire.Points)
        found = dict(points_of(each) for each in told.sources)
        return {name: points[0] for name, points in found.items() if points}


def _columns(
    points: Iterable[tuple[SourceName, int, bytes]],
) -> tuple[list[bytes], list[int], list[bytes]]:
    """Names, ats and payloads, checked."""
    try:
        sources, ats, payloads = zip(*points, strict=True)
    except (TypeError, ValueError):
        raise Invalid("points are (source, at, payload), at least one") from None
    names = {source: name_of(source) for source in dict.fromkeys(sources)}
    for at in ats:
        check_at("at", at)
    for place, payload in enumerate(payloads):
        if not isinstance(payload, bytes):
            raise Invalid(
                f"record {place} is {type(payload).__name__}, not bytes: convert it first"
            )
    return [names[source] for source in sources], list(ats), list(payloads)


def _check_bounds(start: int, end: int, limit: int) -> None:
    check_at("start", start)
    check_at("end", end)
    check_limit(limit)
