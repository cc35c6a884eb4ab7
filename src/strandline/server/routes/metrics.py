"""Routes of metrics views: every verb of ``store.metrics(name)``.

The server's own metrics are in ``prometheus.py``.
"""

from __future__ import annotations

from functools import partial

import msgspec
import pyarrow as pa
from starlette.responses import Response

from strandline.api import metrics as wire
from strandline.api.results import ARROW
from strandline.errors import Invalid
from strandline.query.language.times import parse_time
from strandline.records import AppendResult
from strandline.server.handlers.view_lookup import (
    find_metrics,
    run_on_metrics,
    run_on_view,
    write_to_view,
)
from strandline.server.http.arrow_streams import accepts, ipc_of, table_of
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.views.metrics.metrics import Metrics
from strandline.views.metrics.query import result
from strandline.views.metrics.rules import DownsamplingRule, Rule
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX

ANSWER = b"strandline.answer"


async def write_point(call: RequestContext) -> JsonResponse:
    body: wire.WritePoint = call.body
    at = None if body.at_ns is None else _ns(body.at_ns)
    result = await write_to_view(
        call, find_metrics, lambda m: m.write(body.measurement, body.tags, body.fields, at)
    )
    return JsonResponse(_write_response(result))


async def write_lines(call: RequestContext) -> JsonResponse:
    precision = call.query.precision
    result = await write_to_view(
        call, find_metrics, lambda m: m.write_lines(call.raw, precision=precision)
    )
    return JsonResponse(_write_response(result))


async def write_table(call: RequestContext) -> JsonResponse:
    query: wire.TableQuery = call.query
    table = table_of(call.raw)
    tags = [tag for tag in query.tags.split(",") if tag]
    result = await write_to_view(
        call,
        find_metrics,
        lambda m: m.write_table(query.measurement, table, at=query.at, tags=tags),
    )
    return JsonResponse(_write_response(result))


async def query(call: RequestContext) -> JsonResponse | Response:
    body: wire.MetricsQueryRequest = call.body
    return _response(call, await run_on_metrics(call, lambda m: m.query(body.query)))


async def read(call: RequestContext) -> JsonResponse | Response:
    body: wire.MetricsReadRequest = call.body
    first, next_ns = _between(body)

    def work(metrics: Metrics) -> result.MetricsResult:
        return metrics.read(
            body.measurement,
            body.field,
            tags=body.tags,
            first=first,
            next=next_ns,
            limit=body.limit,
        )

    return _response(call, await run_on_metrics(call, work))


async def aggregate(call: RequestContext) -> JsonResponse | Response:
    body: wire.AggregateRequest = call.body
    first, next_ns = _between(body)

    def work(metrics: Metrics) -> result.MetricsResult:
        return metrics.aggregate(
            body.measurement,
            body.aggregate,
            body.field,
            window=body.window,
            by=body.by,
            tags=body.tags,
            first=first,
            next=next_ns,
        )

    return _response(call, await run_on_metrics(call, work))


async def names(call: RequestContext) -> JsonResponse:
    measurements = await run_on_view(call, find_metrics, lambda m: m.measurements())
    return JsonResponse(wire.MeasurementsResponse(measurements=measurements))


async def fields(call: RequestContext) -> JsonResponse:
    query: wire.FieldsQuery = call.query
    return JsonResponse(
        wire.FieldsResponse(
            fields=await run_on_view(call, find_metrics, lambda m: m.fields(query.measurement))
        )
    )


async def series(call: RequestContext) -> JsonResponse:
    body: wire.MetricsSeriesRequest = call.body
    tags = await run_on_metrics(call, lambda m: m.series(body.measurement, body.tags))
    return JsonResponse(wire.MetricsSeriesResponse(series=tags))


async def cardinality(call: RequestContext) -> JsonResponse:
    found = await run_on_metrics(call, lambda m: m.cardinality())
    return JsonResponse(msgspec.convert(found, wire.CardinalityResponse, from_attributes=True))


async def keep(call: RequestContext) -> JsonResponse:
    body: wire.KeepRequest = call.body

    def work(metrics: Metrics) -> wire.MetricsDoneResponse:
        if body.keep is None:
            metrics.keep_all(body.measurement)
        else:
            metrics.keep(body.measurement, body.keep)
        return wire.MetricsDoneResponse(topic=metrics.name)

    return JsonResponse(await run_on_view(call, find_metrics, work))


async def downsample(call: RequestContext) -> JsonResponse:
    body: wire.DownsampleRequest = call.body

    def work(metrics: Metrics) -> wire.MetricsDoneResponse:
        metrics.downsample(
            body.source,
            into=body.into,
            window=body.window,
            aggregates=body.aggregates,
            by=body.by,
            delay=body.delay,
        )
        return wire.MetricsDoneResponse(topic=metrics.name)

    return JsonResponse(await run_on_view(call, find_metrics, work))


async def stop_downsampling(call: RequestContext) -> JsonResponse:
    body: wire.StopDownsamplingRequest = call.body

    def work(metrics: Metrics) -> wire.MetricsDoneResponse:
        metrics.stop_downsampling(body.into)
        return wire.MetricsDoneResponse(topic=metrics.name)

    return JsonResponse(await run_on_view(call, find_metrics, work))


async def rules(call: RequestContext) -> JsonResponse:
    found = await run_on_view(call, find_metrics, lambda m: m.rules())
    return JsonResponse(wire.RulesResponse(rules=[_rule(each) for each in found]))


async def run_rules(call: RequestContext) -> JsonResponse:
    def work(metrics: Metrics) -> wire.MetricsDoneResponse:
        metrics.run_once()
        return wire.MetricsDoneResponse(topic=metrics.name)

    return JsonResponse(await run_on_metrics(call, work))


async def state(call: RequestContext) -> JsonResponse:
    found = await run_on_view(call, find_metrics, lambda m: m.statistics())
    return JsonResponse(msgspec.convert(found, wire.MetricsState, from_attributes=True))


def _response(call: RequestContext, answer: result.MetricsResult) -> JsonResponse | Response:
    if accepts(call, ARROW):
        return Response(_ipc(answer), media_type=ARROW)
    listed = [
        wire.MetricsResultSeries(
            tags=each.tags, at_ns=each.at.tolist(), values=each.values.tolist()
        )
        for each in answer.series()
    ]
    return JsonResponse(wire.MetricsResponse(name=answer.name, series=listed))


def _ipc(answer: result.MetricsResult) -> bytes:
    """The result as Arrow IPC, from which a client builds an equal result."""
    head = wire.MetricsResultHeader(name=answer.name, groups=list(answer.groups))
    columns = {"group": pa.array(answer.group), "at": pa.array(answer.at)}
    columns["value"] = pa.array(answer.values)
    table = pa.table(columns)
    return ipc_of(table.replace_schema_metadata({ANSWER: msgspec.json.encode(head)}))


def _between(body: wire.MetricsReadRequest | wire.AggregateRequest) -> tuple[int, int]:
    first = AT_MIN if body.first_ns is None else _ns(body.first_ns)
    return first, INT64_MAX if body.next_ns is None else _ns(body.next_ns)


def _ns(time: int | str) -> int:
    """A time in nanoseconds."""
    if isinstance(time, int):
        return time
    try:
        return parse_time(time) * 1000
    except (Invalid, ValueError) as error:
        raise Invalid(f"{time!r} is not a time: nanoseconds, or 2026-03-28T14:05:00Z") from error


def _write_response(seqs: AppendResult | None) -> wire.MetricsWriteResponse:
    if seqs is None:
        return wire.MetricsWriteResponse(first_seq=0, last_seq=0, head_seq=0)
    return wire.MetricsWriteResponse(
        first_seq=seqs.first_seq, last_seq=seqs.last_seq, head_seq=seqs.head_seq
    )


def _rule(rule: Rule) -> wire.KeepRuleInfo | wire.DownsampleRuleInfo:
    if not isinstance(rule, DownsamplingRule):
        return wire.KeepRuleInfo(measurement=rule.measurement, keep_ns=rule.keep_ns)
    return wire.DownsampleRuleInfo(
        source=rule.source,
        into=rule.into,
        window_ns=rule.window_ns,
        aggregates=list(rule.aggregates),
        by=None if rule.by is None else list(rule.by),
        delay_ns=rule.delay_ns,
    )


_route = partial(Route, errors=("topic_not_found", "not_found"))
_READ = (RoutePermission("read", "topic"),)
_post = partial(_route, method="POST")
_get = partial(_route, method="GET", needs=_READ)
_write = partial(
    _post, needs=(RoutePermission("write", "topic"),), answers={200: wire.MetricsWriteResponse}
)
_query = partial(
    _post, needs=_READ, answers={200: wire.MetricsResponse}, gives=("application/json", ARROW)
)
_config = partial(
    _post, needs=(RoutePermission("config", "topic"),), answers={200: wire.MetricsDoneResponse}
)
_PATH = "/v0/measurements/{topic}"

ROUTES: tuple[Route, ...] = (
    _write(
        path=f"{_PATH}/write",
        handler=write_point,
        summary="Write one point for each field, at a time or now.",
        body=wire.WritePoint,
    ),
    _write(
        path=f"{_PATH}/lines",
        handler=write_lines,
        summary="Write points in line protocol, all or none.",
        query=wire.LinesQuery,
        body=str,
        takes=(wire.LINES,),
    ),
    _write(
        path=f"{_PATH}/table",
        handler=write_table,
        summary="Write points of an Arrow table with columns of times, tags and fields.",
        query=wire.TableQuery,
        body=bytes,
        takes=(ARROW,),
    ),
    _query(
        path=f"{_PATH}/query",
        handler=query,
        summary="Run a query in the pipe language.",
        body=wire.MetricsQueryRequest,
    ),
    _query(
        path=f"{_PATH}/read",
        handler=read,
        summary="Read points of a field, up to a limit for each series.",
        body=wire.MetricsReadRequest,
    ),
    _query(
        path=f"{_PATH}/aggregate",
        handler=aggregate,
        summary="Compute one value for each group and window.",
        body=wire.AggregateRequest,
    ),
    _get(
        path=f"{_PATH}/names",
        handler=names,
        summary="List measurements that have points.",
        answers={200: wire.MeasurementsResponse},
    ),
    _get(
        path=f"{_PATH}/fields",
        handler=fields,
        summary="List the fields of a measurement and their types.",
        query=wire.FieldsQuery,
        answers={200: wire.FieldsResponse},
    ),
    _post(
        path=f"{_PATH}/series",
        handler=series,
        needs=_READ,
        summary="List the tags of series that have points.",
        body=wire.MetricsSeriesRequest,
        answers={200: wire.MetricsSeriesResponse},
    ),
    _get(
        path=f"{_PATH}/cardinality",
        handler=cardinality,
        summary="Count series, and the values of each tag.",
        answers={200: wire.CardinalityResponse},
    ),
    _config(
        path=f"{_PATH}/keep",
        handler=keep,
        summary="Set the retention of a measurement's points.",
        body=wire.KeepRequest,
    ),
    _config(
        path=f"{_PATH}/downsample",
        handler=downsample,
        summary="Downsample: write one point of another measurement for each window.",
        body=wire.DownsampleRequest,
    ),
    _config(
        path=f"{_PATH}/stop_downsampling",
        handler=stop_downsampling,
        summary="Stop downsampling into a measurement.",
        body=wire.StopDownsamplingRequest,
    ),
    _get(
        path=f"{_PATH}/rules",
        handler=rules,
        summary="List the rules.",
        answers={200: wire.RulesResponse},
    ),
    _config(
        path=f"{_PATH}/rules/run",
        handler=run_rules,
        summary="Apply the rules now.",
    ),
    _get(
        path=_PATH,
        handler=state,
        summary="Get the view's statistics.",
        answers={200: wire.MetricsState},
    ),
)
