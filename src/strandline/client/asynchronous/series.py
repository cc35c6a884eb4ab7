"""A series of a server: records by source and time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Literal, overload

import msgspec

from strandline.api import series as wire
from strandline.client.asynchronous.endpoint import AsyncEndpoint
from strandline.client.series_codec import (
    appended_of,
    by_source,
    is_small,
    point_fields,
    points_of,
    source_fields,
    table_of,
)
from strandline.errors import Invalid
from strandline.records import AppendResult
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payload_versions import PayloadVersions, check_version
from strandline.views.series.values import (
    AppendedPoints,
    AvailablePoints,
    Point,
    RetentionResult,
    SeriesStatistics,
    SourceName,
    check_at,
    check_limit,
    name_of,
)

_SOURCES_BATCH = 64


class AsyncSeries:
    """Records by source and time. Safe from many tasks of one loop."""

    def __init__(self, endpoint: AsyncEndpoint, name: str) -> None:
        self.name = name
        self._endpoint = endpoint
        self.versions = PayloadVersions()
        """Decoders of payloads, by version."""

    def __repr__(self) -> str:
        return f"AsyncSeries({self.name!r})"

    async def append(
        self, source: SourceName, at: int, payload: bytes, *, version: int = 0
    ) -> AppendResult:
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
    ) -> AppendResult: ...

    async def append_many(
        self,
        points: Iterable[tuple[SourceName, int, bytes]],
        *,
        version: int = 0,
        drop_refused: bool = False,
    ) -> AppendResult:
        """Append points, each (source, at, payload), as one batch: all of them, or none.

        With ``drop_refused`` rejected points are left out, and listed in the result.
        """
        check_version(version)
        names, ats, payloads = _columns(points)
        if is_small(payloads):
            lines = [point_fields(*point) for point in zip(names, ats, payloads, strict=True)]
            body = wire.AppendPoints(points=lines, version=version, drop_refused=drop_refused)
            response = await self._endpoint.post("append", body, wire.AppendPointsResponse)
        else:
            query = {"version": str(version), "drop_refused": str(drop_refused).lower()}
            table = table_of(names, ats, payloads)
            response = await self._endpoint.send("append", table, wire.AppendPointsResponse, query)
        return appended_of(response, drop_refused=drop_refused)

    @overload
    async def range(  # type: ignore[overload-overlap]  # text is iterable too, but names one source
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

        ``limit`` is the number of points of each source, the earliest first; 0 is all.
        """
        _check_bounds(start, end, limit)
        if isinstance(source, int | str | bytes):
            points = await self._range([source], start, end, limit)
            return points.get(name_of(source), [])
        distinct = list(dict.fromkeys(source))
        points = await self._range(distinct, start, end, limit)
        return {each: points.get(name_of(each), []) for each in distinct}

    async def range_all(
        self, start: int = AT_MIN, end: int = AT_MAX, *, limit: int = 0
    ) -> dict[bytes, list[Point]]:
        """The same of all sources that have such points, in order of their names."""
        _check_bounds(start, end, limit)
        return await self._range(None, start, end, limit)

    async def range_from_available(
        self, sources: Iterable[SourceName], start: int, window: int, *, limit: int = 0
    ) -> AvailablePoints:
        """The points of a window that begins at the earliest point from ``start`` on.

        ``end`` of the result is the end of the window; continue after it. None: there is no point.
        """
        check_at("window", window)
        distinct = list(dict.fromkeys(sources))
        first = await self.earliest(distinct, start)
        if first is None or window < 0:
            return AvailablePoints(None, {})
        end = min(first + window, AT_MAX)
        return AvailablePoints(end, await self.range(distinct, first, end, limit=limit))

    async def visit(
        self,
        callback: Callable[[Point], bool | None],
        sources: Iterable[SourceName] | None = None,
        start: int = AT_MIN,
        end: int = AT_MAX,
        *,
        limit: int = 0,
    ) -> int:
        """Call back with every point, source after source, until it returns False; their number.

        Only the points of a few sources are in memory at a time. Each source is current when it is
        read; the default is all sources that exist at the call.
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
        """Every point, source after source, as ``visit`` reads them."""
        _check_bounds(start, end, limit)
        names = None if sources is None else [name_of(each) for each in dict.fromkeys(sources)]
        return self._points(names, start, end, limit)

    async def latest(self, source: SourceName) -> Point | None:
        """The point of a source with the greatest ``at``; of equal ones the last appended."""
        name = source_fields(source)
        body = wire.LatestRequest(source=name.source, source_base64=name.source_base64)
        points = await self._latest(body)
        return points.get(name_of(source))

    async def read_latest(self) -> dict[bytes, Point]:
        """The same for every source that has points, in order of their names."""
        return await self._latest(wire.LatestRequest())

    async def earliest(
        self, sources: Iterable[SourceName] | None = None, start: int = AT_MIN
    ) -> int | None:
        """The smallest ``at`` from ``start`` on, of these or all sources; None if there is none."""
        check_at("start", start)
        names = None if sources is None else [source_fields(each) for each in sources]
        body = wire.EarliestRequest(sources=names, start=start)
        return (await self._endpoint.post_safe("earliest", body, wire.EarliestResponse)).at

    async def run_retention(self, floor: int | None = None) -> RetentionResult:
        """Delete all points before the floor, or before what ``retention`` keeps.

        The floor never falls: a lower one changes nothing. Records leave the log as far as views
        are saved, the rest after the next save.
        """
        if floor is not None:
            check_at("floor", floor)
        response = await self._endpoint.post_safe(
            "retention", wire.RetainRequest(floor=floor), wire.RetainResponse
        )
        return msgspec.convert(msgspec.to_builtins(response), RetentionResult)

    async def statistics(self) -> SeriesStatistics:
        """The current statistics of the series."""
        fields = msgspec.to_builtins(await self._endpoint.get("", wire.SeriesState))
        return msgspec.convert(fields, SeriesStatistics)

    async def _range(
        self, sources: Sequence[SourceName] | None, start: int, end: int, limit: int
    ) -> dict[bytes, list[Point]]:
        names = None if sources is None else [source_fields(each) for each in sources]
        body = wire.RangeRequest(sources=names, start=start, end=end, limit=limit)
        return by_source(await self._endpoint.table("range", body))

    async def _points(
        self, names: list[bytes] | None, start: int, end: int, limit: int
    ) -> AsyncIterator[Point]:
        if names is None:
            names = list(await self._range(None, start, end, 1))
        for first in range(0, len(names), _SOURCES_BATCH):
            batch = list(names[first : first + _SOURCES_BATCH])
            points = await self._range(batch, start, end, limit)
            for name in batch:
                for point in points.get(name, []):
                    yield point

    async def _latest(self, body: wire.LatestRequest) -> dict[bytes, Point]:
        response = await self._endpoint.post_safe("latest", body, wire.PointsResponse)
        by_name = dict(points_of(each) for each in response.sources)
        return {name: points[0] for name, points in by_name.items() if points}


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
    for index, payload in enumerate(payloads):
        if not isinstance(payload, bytes):
            raise Invalid(
                f"record {index} is {type(payload).__name__}, not bytes: convert it first"
            )
    return [names[source] for source in sources], list(ats), list(payloads)


def _check_bounds(start: int, end: int, limit: int) -> None:
    check_at("start", start)
    check_at("end", end)
    check_limit(limit)
