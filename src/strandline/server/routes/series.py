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
from strandline.records import Appended
from strandline.server.handlers.view_lookup import ask, ask_slowly, find_series, find_view, write
from strandline.server.http.arrow_streams import ipc_chunks, streamed, table_of, wants
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.server.serializers import series as codec
from strandline.views.series.series import Series
from strandline.views.series.values import AppendedPoints, Point

_BATCH_POINTS = 8192
_line = msgspec.json.Encoder().encode


async def append(call: Call) -> Answer:
    if call.media_type == ARROW:
        points = codec.new_points(table_of(call.raw))
        options: wire.AppendQuery | wire.AppendPoints = call.query
    else:
        options = call.body
        points = [codec.new_point(each) for each in call.body.points]
    points_max = call.parts.settings.limits.batch_records_max
    if call.media_type != ARROW and len(points) > points_max:
        raise Refused(400, "batch_too_large", f"send at most {points_max} points, or Arrow")
    result = await write(
        call,
        find_series,
        lambda series: series.append_many(
            points, version=options.version, drop_refused=options.drop_refused
        ),
    )
    return Answer(_append_response(result))


async def read_range(call: Call) -> Answer | Response:
    body: wire.Range = call.body
    sources = None if body.sources is None else codec.sources_of(body.sources)

    def work(series: Series) -> dict[bytes, list[Point]]:
        if sources is None:
            return series.range_all(body.start, body.end, limit=body.limit)
        points = series.range(sources, body.start, body.end, limit=body.limit)
        return {name: points[name] for name in sources}

    return await _response(call, await ask_slowly(call, find_series, work))


async def read_window(call: Call) -> Answer:
    body: wire.Window = call.body
    sources = codec.sources_of(body.sources)

    def work(series: Series) -> wire.Points:
        window = series.range_from_available(sources, body.start, body.window, limit=body.limit)
        points = {name: window.points[name] for name in sources if name in window.points}
        end = UNSET if window.end is None else window.end
        return wire.Points(sources=codec.by_source(points), end=end)

    return Answer(await ask_slowly(call, find_series, work))


async def visit(call: Call) -> Response:
    """Stream all points, source by source, read while they are sent."""
    body: wire.Range = call.body
    sources = None if body.sources is None else codec.sources_of(body.sources)
    series = await find_view(call, find_series)
    points = series.points(sources, body.start, body.end, limit=body.limit)
    batches = codec.batches(points, _BATCH_POINTS)
    if wants(call, ARROW):
        return await streamed(call, ipc_chunks(codec.SCHEMA, batches), ARROW)
    return await streamed(call, _lines(points), NDJSON)


async def latest(call: Call) -> Answer:
    body: wire.Latest = call.body
    if body.source is None and body.source_base64 is None:
        every = await ask_slowly(call, find_series, lambda series: series.read_latest())
        points = {name: [point] for name, point in every.items()}
    else:
        name = codec.source_of(body.source, body.source_base64)
        one = await ask(call, find_series, lambda series: series.latest(name))
        points = {} if one is None else {name: [one]}
    return Answer(wire.Points(sources=codec.by_source(points)))


async def earliest(call: Call) -> Answer:
    body: wire.Earliest = call.body
    sources = None if body.sources is None else codec.sources_of(body.sources)
    at = await ask_slowly(call, find_series, lambda series: series.earliest(sources, body.start))
    return Answer(wire.At(at=at))


async def retain(call: Call) -> Answer:
    body: wire.Retain = call.body
    result = await ask_slowly(call, find_series, lambda series: series.run_retention(body.floor))
    return Answer(
        wire.Retained(floor=result.floor, released=result.released, waiting=result.waiting)
    )


async def state(call: Call) -> Answer:
    found = await ask(call, find_series, lambda series: series.statistics())
    return Answer(msgspec.convert(found, wire.SeriesState, from_attributes=True))


async def _response(call: Call, points_by_source: dict[bytes, list[Point]]) -> Answer | Response:
    if not wants(call, ARROW):
        return Answer(wire.Points(sources=codec.by_source(points_by_source)))
    every_point = (point for points in points_by_source.values() for point in points)
    return await streamed(
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


def _append_response(result: Appended) -> wire.Appended:
    rejected = result.refused if isinstance(result, AppendedPoints) else ()
    return wire.Appended(
        first_seq=result.first_seq,
        last_seq=result.last_seq,
        head_seq=result.head_seq,
        deduped=result.deduped,
        refused=[wire.RefusedPoint(**point._asdict()) for point in rejected],
    )


_route = partial(Route, method="POST", errors=("topic_not_found", "not_found", "batch_too_large"))
_read = partial(_route, needs=(Need("read", "topic"),))
_JSON = "application/json"

ROUTES: tuple[Route, ...] = (
    _route(
        path="/v0/series/{topic}/append",
        handler=append,
        needs=(Need("write", "topic"),),
        summary="Append points as JSON or Arrow: all or none, or without rejected ones.",
        query=wire.AppendQuery,
        body=wire.AppendPoints,
        takes=(_JSON, ARROW),
        answers={200: wire.Appended},
    ),
    _read(
        path="/v0/series/{topic}/range",
        handler=read_range,
        summary="Read points of some or all sources between two times.",
        body=wire.Range,
        answers={200: wire.Points},
        gives=(_JSON, ARROW),
    ),
    _read(
        path="/v0/series/{topic}/window",
        handler=read_window,
        summary="Read points of a window that starts at the earliest point.",
        body=wire.Window,
        answers={200: wire.Points},
    ),
    _read(
        path="/v0/series/{topic}/visit",
        handler=visit,
        summary="Stream all points, source by source.",
        body=wire.Range,
        answers={200: None},
        gives=(NDJSON, ARROW),
    ),
    _read(
        path="/v0/series/{topic}/latest",
        handler=latest,
        summary="Read the newest point of one or every source.",
        body=wire.Latest,
        answers={200: wire.Points},
    ),
    _read(
        path="/v0/series/{topic}/earliest",
        handler=earliest,
        summary="Find the smallest at from a time on.",
        body=wire.Earliest,
        answers={200: wire.At},
    ),
    _route(
        path="/v0/series/{topic}/retention",
        handler=retain,
        needs=(Need("delete", "topic"),),
        summary="Delete all points before a floor.",
        body=wire.Retain,
        answers={200: wire.Retained},
    ),
    Route(
        method="GET",
        path="/v0/series/{topic}",
        handler=state,
        needs=(Need("read", "topic"),),
        summary="Get a series' statistics.",
        answers={200: wire.SeriesState},
        errors=("topic_not_found", "not_found"),
    ),
)
