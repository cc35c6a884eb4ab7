"""Routes of series: every verb of ``store.series(name)``. Use Arrow for many points."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from strandline.api import series as wire
from strandline.api.errors import Refused
from strandline.api.results import ARROW, NDJSON
from strandline.records import AppendResult
from strandline.server.handlers.view_lookup import (
    find_series,
    find_view,
    run_on_view,
    run_slow_on_view,
    write_to_view,
)
from strandline.server.http.arrow_streams import accepts, chunked_response, ipc_chunks, table_of
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.server.serializers import series as codec
from strandline.views.series.series import Series
from strandline.views.series.values import AppendedPoints, Point

_BATCH_POINTS = 8192
_line = msgspec.json.Encoder().encode


async def append(call: RequestContext) -> JsonResponse:
    if call.media_type == ARROW:
        points = codec.new_points(table_of(call.raw))
        options: wire.AppendPointsQuery | wire.AppendPoints = call.query
    else:
        options = call.body
        points = [codec.new_point(each) for each in call.body.points]
    points_max = call.parts.settings.limits.batch_records_max
    if call.media_type != ARROW and len(points) > points_max:
        raise Refused(400, "batch_too_large", f"send at most {points_max} points, or Arrow")
    result = await write_to_view(
        call,
        find_series,
        lambda series: series.append_many(
            points, version=options.version, drop_refused=options.drop_refused
        ),
    )
    return JsonResponse(_append_response(result))


async def read_range(call: RequestContext) -> JsonResponse | Response:
    body: wire.RangeRequest = call.body
    sources = None if body.sources is None else codec.sources_of(body.sources)

    def work(series: Series) -> dict[bytes, list[Point]]:
        if sources is None:
            return series.range_all(body.start, body.end, limit=body.limit)
        points = series.range(sources, body.start, body.end, limit=body.limit)
        return {name: points[name] for name in sources}

    return await _response(call, await run_slow_on_view(call, find_series, work))


async def read_window(call: RequestContext) -> JsonResponse:
    body: wire.WindowRequest = call.body
    sources = codec.sources_of(body.sources)

    def work(series: Series) -> wire.PointsResponse:
        window = series.range_from_available(sources, body.start, body.window, limit=body.limit)
        points = {name: window.points[name] for name in sources if name in window.points}
        end = UNSET if window.end is None else window.end
        return wire.PointsResponse(sources=codec.by_source(points), end=end)

    return JsonResponse(await run_slow_on_view(call, find_series, work))


async def visit(call: RequestContext) -> Response:
    """Stream all points, source by source, read while they are sent."""
    body: wire.RangeRequest = call.body
    sources = None if body.sources is None else codec.sources_of(body.sources)
    series = await find_view(call, find_series)
    points = series.points(sources, body.start, body.end, limit=body.limit)
    batches = codec.batches(points, _BATCH_POINTS)
    if accepts(call, ARROW):
        return await chunked_response(call, ipc_chunks(codec.SCHEMA, batches), ARROW)
    return await chunked_response(call, _lines(points), NDJSON)


async def latest(call: RequestContext) -> JsonResponse:
    body: wire.LatestRequest = call.body
    if body.source is None and body.source_base64 is None:
        every = await run_slow_on_view(call, find_series, lambda series: series.read_latest())
        points = {name: [point] for name, point in every.items()}
    else:
        name = codec.source_of(body.source, body.source_base64)
        one = await run_on_view(call, find_series, lambda series: series.latest(name))
        points = {} if one is None else {name: [one]}
    return JsonResponse(wire.PointsResponse(sources=codec.by_source(points)))


async def earliest(call: RequestContext) -> JsonResponse:
    body: wire.EarliestRequest = call.body
    sources = None if body.sources is None else codec.sources_of(body.sources)
    at = await run_slow_on_view(
        call, find_series, lambda series: series.earliest(sources, body.start)
    )
    return JsonResponse(wire.EarliestResponse(at=at))


async def retain(call: RequestContext) -> JsonResponse:
    body: wire.RetainRequest = call.body
    result = await run_slow_on_view(
        call, find_series, lambda series: series.run_retention(body.floor)
    )
    return JsonResponse(
        wire.RetainResponse(floor=result.floor, released=result.released, waiting=result.waiting)
    )


async def state(call: RequestContext) -> JsonResponse:
    found = await run_on_view(call, find_series, lambda series: series.statistics())
    return JsonResponse(msgspec.convert(found, wire.SeriesState, from_attributes=True))


async def _response(
    call: RequestContext, points_by_source: dict[bytes, list[Point]]
) -> JsonResponse | Response:
    if not accepts(call, ARROW):
        return JsonResponse(wire.PointsResponse(sources=codec.by_source(points_by_source)))
    every_point = (point for points in points_by_source.values() for point in points)
    return await chunked_response(
        call, ipc_chunks(codec.SCHEMA, codec.batches(every_point, _BATCH_POINTS)), ARROW
    )


def _lines(points: Iterator[Point]) -> Generator[bytes]:
    lines: list[bytes] = []
    for each in points:
        lines.append(_line(codec.line(each)))
        if len(lines) == _BATCH_POINTS:
            yield b"\n".join(lines) + b"\n"
            lines = []
    yield b"\n".join(lines) + b"\n" if lines else b""


def _append_response(result: AppendResult) -> wire.AppendPointsResponse:
    rejected = result.refused if isinstance(result, AppendedPoints) else ()
    return wire.AppendPointsResponse(
        first_seq=result.first_seq,
        last_seq=result.last_seq,
        head_seq=result.head_seq,
        deduped=result.deduped,
        refused=[wire.DroppedPoint(**point._asdict()) for point in rejected],
    )


_route = partial(Route, method="POST", errors=("topic_not_found", "not_found", "batch_too_large"))
_read = partial(_route, needs=(RoutePermission("read", "topic"),))
_JSON = "application/json"

ROUTES: tuple[Route, ...] = (
    _route(
        path="/v0/series/{topic}/append",
        handler=append,
        needs=(RoutePermission("write", "topic"),),
        summary="Append points as JSON or Arrow: all or none, or without rejected ones.",
        query=wire.AppendPointsQuery,
        body=wire.AppendPoints,
        takes=(_JSON, ARROW),
        answers={200: wire.AppendPointsResponse},
    ),
    _read(
        path="/v0/series/{topic}/range",
        handler=read_range,
        summary="Read points of some or all sources between two times.",
        body=wire.RangeRequest,
        answers={200: wire.PointsResponse},
        gives=(_JSON, ARROW),
    ),
    _read(
        path="/v0/series/{topic}/window",
        handler=read_window,
        summary="Read points of a window that starts at the earliest point.",
        body=wire.WindowRequest,
        answers={200: wire.PointsResponse},
    ),
    _read(
        path="/v0/series/{topic}/visit",
        handler=visit,
        summary="Stream all points, source by source.",
        body=wire.RangeRequest,
        answers={200: None},
        gives=(NDJSON, ARROW),
    ),
    _read(
        path="/v0/series/{topic}/latest",
        handler=latest,
        summary="Read the newest point of one or every source.",
        body=wire.LatestRequest,
        answers={200: wire.PointsResponse},
    ),
    _read(
        path="/v0/series/{topic}/earliest",
        handler=earliest,
        summary="Find the smallest at from a time on.",
        body=wire.EarliestRequest,
        answers={200: wire.EarliestResponse},
    ),
    _route(
        path="/v0/series/{topic}/retention",
        handler=retain,
        needs=(RoutePermission("delete", "topic"),),
        summary="Delete all points before a floor.",
        body=wire.RetainRequest,
        answers={200: wire.RetainResponse},
    ),
    Route(
        method="GET",
        path="/v0/series/{topic}",
        handler=state,
        needs=(RoutePermission("read", "topic"),),
        summary="Get a series' statistics.",
        answers={200: wire.SeriesState},
        errors=("topic_not_found", "not_found"),
    ),
)
