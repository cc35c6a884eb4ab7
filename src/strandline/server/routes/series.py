"""Routes of series: every verb of ``store.series(name)``. Many points travel best in Arrow."""

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
from strandline.server.serializers import series as told
from strandline.views.series.series import Series
from strandline.views.series.values import AppendedPoints, Point

_BATCH_POINTS = 8192
_line = msgspec.json.Encoder().encode


async def append(call: Call) -> Answer:
    if call.media_type == ARROW:
        points = told.new_points(table_of(call.raw))
        given: wire.AppendQuery | wire.AppendPoints = call.query
    else:
        given = call.body
        points = [told.new_point(each) for each in call.body.points]
    points_max = call.parts.settings.limits.batch_records_max
    if call.media_type != ARROW and len(points) > points_max:
        raise Refused(400, "batch_too_large", f"give at most {points_max} points, or send Arrow")
    done = await write(
        call,
        find_series,
        lambda series: series.append_many(
            points, version=given.version, drop_refused=given.drop_refused
        ),
    )
    return Answer(_appended(done))


async def read_range(call: Call) -> Answer | Response:
    asked: wire.Range = call.body
    sources = None if asked.sources is None else told.sources_of(asked.sources)

    def work(series: Series) -> dict[bytes, list[Point]]:
        if sources is None:
            return series.range_all(asked.start, asked.end, limit=asked.limit)
        found = series.range(sources, asked.start, asked.end, limit=asked.limit)
        return {name: found[name] for name in sources}

    return await _told(call, await ask_slowly(call, find_series, work))


async def read_window(call: Call) -> Answer:
    asked: wire.Window = call.body
    sources = told.sources_of(asked.sources)

    def work(series: Series) -> wire.Points:
        found = series.range_from_available(sources, asked.start, asked.window, limit=asked.limit)
        points = {name: found.points[name] for name in sources if name in found.points}
        end = UNSET if found.end is None else found.end
        return wire.Points(sources=told.by_source(points), end=end)

    return Answer(await ask_slowly(call, find_series, work))


async def visit(call: Call) -> Response:
    """All points, source after source, made while they are sent."""
    asked: wire.Range = call.body
    sources = None if asked.sources is None else told.sources_of(asked.sources)
    series = await find_view(call, find_series)
    points = series.points(sources, asked.start, asked.end, limit=asked.limit)
    batches = told.batches(points, _BATCH_POINTS)
    if wants(call, ARROW):
        return await streamed(call, ipc_chunks(told.SCHEMA, batches), ARROW)
    return await streamed(call, _lines(points), NDJSON)


async def latest(call: Call) -> Answer:
    asked: wire.Latest = call.body
    if asked.source is None and asked.source_base64 is None:
        every = await ask_slowly(call, find_series, lambda series: series.read_latest())
        found = {name: [point] for name, point in every.items()}
    else:
        name = told.source_of(asked.source, asked.source_base64)
        one = await ask(call, find_series, lambda series: series.latest(name))
        found = {} if one is None else {name: [one]}
    return Answer(wire.Points(sources=told.by_source(found)))


async def earliest(call: Call) -> Answer:
    asked: wire.Earliest = call.body
    sources = None if asked.sources is None else told.sources_of(asked.sources)
    at = await ask_slowly(call, find_series, lambda series: series.earliest(sources, asked.start))
    return Answer(wire.At(at=at))


async def retain(call: Call) -> Answer:
    asked: wire.Retain = call.body
    done = await ask_slowly(call, find_series, lambda series: series.run_retention(asked.floor))
    return Answer(wire.Retained(floor=done.floor, released=done.released, waiting=done.waiting))


async def state(call: Call) -> Answer:
    found = await ask(call, find_series, lambda series: series.statistics())
    return Answer(msgspec.convert(found, wire.SeriesState, from_attributes=True))


async def _told(call: Call, found: dict[bytes, list[Point]]) -> Answer | Response:
    if not wants(call, ARROW):
        return Answer(wire.Points(sources=told.by_source(found)))
    every = (point for points in found.values() for point in points)
    return await streamed(call, ipc_chunks(told.SCHEMA, told.batches(every, _BATCH_POINTS)), ARROW)


def _lines(points: Iterator[Point]) -> Generator[bytes]:
    some: list[bytes] = []
    for each in points:
        some.append(_line(told.line(each)))
        if len(some) == _BATCH_POINTS:
            yield b"\n".join(some) + b"\n"
            some = []
    yield b"\n".join(some) + b"\n" if some else b""


def _appended(done: Appended) -> wire.Appended:
    refused = done.refused if isinstance(done, AppendedPoints) else ()
    return wire.Appended(
        first_seq=done.first_seq,
        last_seq=done.last_seq,
        head_seq=done.head_seq,
        deduped=done.deduped,
        refused=[wire.RefusedPoint(**point._asdict()) for point in refused],
    )


_route = partial(Route, method="POST", errors=("topic_not_found", "not_found", "batch_too_large"))
_read = partial(_route, needs=(Need("read", "topic"),))
_JSON = "application/json"

ROUTES: tuple[Route, ...] = (
    _route(
        path="/v0/series/{topic}/append",
        handler=append,
        needs=(Need("write", "topic"),),
        summary="Append points, all or none, or all that are not refused: as JSON, or in Arrow.",
        query=wire.AppendQuery,
        body=wire.AppendPoints,
        takes=(_JSON, ARROW),
        answers={200: wire.Appended},
    ),
    _read(
        path="/v0/series/{topic}/range",
        handler=read_range,
        summary="Points of sources, or of all, between two moments.",
        body=wire.Range,
        answers={200: wire.Points},
        gives=(_JSON, ARROW),
    ),
    _read(
        path="/v0/series/{topic}/window",
        handler=read_window,
        summary="Points within a window that begins with the earliest there is.",
        body=wire.Window,
        answers={200: wire.Points},
    ),
    _read(
        path="/v0/series/{topic}/visit",
        handler=visit,
        summary="All points, source after source, made while they are sent.",
        body=wire.Range,
        answers={200: None},
        gives=(NDJSON, ARROW),
    ),
    _read(
        path="/v0/series/{topic}/latest",
        handler=latest,
        summary="The newest point of a source, or of every one.",
        body=wire.Latest,
        answers={200: wire.Points},
    ),
    _read(
        path="/v0/series/{topic}/earliest",
        handler=earliest,
        summary="The smallest at from a moment on.",
        body=wire.Earliest,
        answers={200: wire.At},
    ),
    _route(
        path="/v0/series/{topic}/retention",
        handler=retain,
        needs=(Need("delete", "topic"),),
        summary="Forget all points before a floor.",
        body=wire.Retain,
        answers={200: wire.Retained},
    ),
    Route(
        method="GET",
        path="/v0/series/{topic}",
        handler=state,
        needs=(Need("read", "topic"),),
        summary="A series in numbers.",
        answers={200: wire.SeriesState},
        errors=("topic_not_found", "not_found"),
    ),
)
