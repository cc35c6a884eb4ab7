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
from strandline.query.language.times import moment
from strandline.records import Appended
from strandline.server.handlers.view_lookup import ask, ask_metrics, find_metrics, write
from strandline.server.http.arrow_streams import ipc_of, table_of, wants
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.views.metrics.metrics import Metrics
from strandline.views.metrics.query import result
from strandline.views.metrics.rules import Downsample, Rule
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX

ANSWER = b"strandline.answer"


async def write_point(call: Call) -> Answer:
    body: wire.WritePoint = call.body
    at = None if body.at_ns is None else _ns(body.at_ns)
    result = await write(
        call, find_metrics, lambda m: m.write(body.measurement, body.tags, body.fields, at)
    )
    return Answer(_write_response(result))


async def write_lines(call: Call) -> Answer:
    precision = call.query.precision
    result = await write(call, find_metrics, lambda m: m.write_lines(call.raw, precision=precision))
    return Answer(_write_response(result))


async def write_table(call: Call) -> Answer:
    query: wire.TableQuery = call.query
    table = table_of(call.raw)
    tags = [tag for tag in query.tags.split(",") if tag]
    result = await write(
        call,
        find_metrics,
        lambda m: m.write_table(query.measurement, table, at=query.at, tags=tags),
    )
    return Answer(_write_response(result))


async def query(call: Call) -> Answer | Response:
    body: wire.Ask = call.body
    return _response(call, await ask_metrics(call, lambda m: m.query(body.query)))


async def read(call: Call) -> Answer | Response:
    body: wire.Read = call.body
    first, next_ns = _between(body)

    def work(metrics: Metrics) -> result.Answer:
        return metrics.read(
            body.measurement,
            body.field,
            tags=body.tags,
            first=first,
            next=next_ns,
            limit=body.limit,
        )

    return _response(call, await ask_metrics(call, work))


async def aggregate(call: Call) -> Answer | Response:
    body: wire.Aggregate = call.body
    first, next_ns = _between(body)

    def work(metrics: Metrics) -> result.Answer:
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

    return _response(call, await ask_metrics(call, work))


async def names(call: Call) -> Answer:
    measurements = await ask(call, find_metrics, lambda m: m.measurements())
    return Answer(wire.Names(measurements=measurements))


async def fields(call: Call) -> Answer:
    query: wire.FieldsQuery = call.query
    return Answer(
        wire.Fields(fields=await ask(call, find_metrics, lambda m: m.fields(query.measurement)))
    )


async def series(call: Call) -> Answer:
    body: wire.SeriesOf = call.body
    tags = await ask_metrics(call, lambda m: m.series(body.measurement, body.tags))
    return Answer(wire.SeriesFound(series=tags))


async def cardinality(call: Call) -> Answer:
    found = await ask_metrics(call, lambda m: m.cardinality())
    return Answer(msgspec.convert(found, wire.Cardinality, from_attributes=True))


async def keep(call: Call) -> Answer:
    body: wire.KeepRule = call.body

    def work(metrics: Metrics) -> wire.Done:
        if body.keep is None:
            metrics.keep_all(body.measurement)
        else:
            metrics.keep(body.measurement, body.keep)
        return wire.Done(topic=metrics.name)

    return Answer(await ask(call, find_metrics, work))


async def downsample(call: Call) -> Answer:
    body: wire.DownsampleRule = call.body

    def work(metrics: Metrics) -> wire.Done:
        metrics.downsample(
            body.source,
            into=body.into,
            window=body.window,
            aggregates=body.aggregates,
            by=body.by,
            delay=body.delay,
        )
        return wire.Done(topic=metrics.name)

    return Answer(await ask(call, find_metrics, work))


async def stop_downsampling(call: Call) -> Answer:
    body: wire.StopRule = call.body

    def work(metrics: Metrics) -> wire.Done:
        metrics.stop_downsampling(body.into)
        return wire.Done(topic=metrics.name)

    return Answer(await ask(call, find_metrics, work))


async def rules(call: Call) -> Answer:
    found = await ask(call, find_metrics, lambda m: m.rules())
    return Answer(wire.Rules(rules=[_rule(each) for each in found]))


async def run_rules(call: Call) -> Answer:
    def work(metrics: Metrics) -> wire.Done:
        metrics.run_once()
        return wire.Done(topic=metrics.name)

    return Answer(await ask_metrics(call, work))


async def state(call: Call) -> Answer:
    found = await ask(call, find_metrics, lambda m: m.statistics())
    return Answer(msgspec.convert(found, wire.MetricsState, from_attributes=True))


def _response(call: Call, answer: result.Answer) -> Answer | Response:
    if wants(call, ARROW):
        return Response(_ipc(answer), media_type=ARROW)
    listed = [
        wire.AnswerSeries(tags=each.tags, at_ns=each.at.tolist(), values=each.values.tolist())
        for each in answer.series()
    ]
    return Answer(wire.Answer(name=answer.name, series=listed))


def _ipc(answer: result.Answer) -> bytes:
    """The result as Arrow IPC, from which a client builds an equal result."""
    head = wire.AnswerHead(name=answer.name, groups=list(answer.groups))
    columns = {"group": pa.array(answer.group), "at": pa.array(answer.at)}
    columns["value"] = pa.array(answer.values)
    table = pa.table(columns)
    return ipc_of(table.replace_schema_metadata({ANSWER: msgspec.json.encode(head)}))


def _between(body: wire.Read | wire.Aggregate) -> tuple[int, int]:
    first = AT_MIN if body.first_ns is None else _ns(body.first_ns)
    return first, INT64_MAX if body.next_ns is None else _ns(body.next_ns)


def _ns(time: int | str) -> int:
    """A time in nanoseconds."""
    if isinstance(time, int):
        return time
    try:
        return moment(time) * 1000
    except (Invalid, ValueError) as error:
        raise Invalid(f"{time!r} is not a time: nanoseconds, or 2026-03-28T14:05:00Z") from error


def _write_response(seqs: Appended | None) -> wire.Written:
    if seqs is None:
        return wire.Written(first_seq=0, last_seq=0, head_seq=0)
    return wire.Written(first_seq=seqs.first_seq, last_seq=seqs.last_seq, head_seq=seqs.head_seq)


def _rule(rule: Rule) -> wire.Keep | wire.Downsample:
    if not isinstance(rule, Downsample):
        return wire.Keep(measurement=rule.measurement, keep_ns=rule.keep_ns)
    return wire.Downsample(
        source=rule.source,
        into=rule.into,
        window_ns=rule.window_ns,
        aggregates=list(rule.aggregates),
        by=None if rule.by is None else list(rule.by),
        delay_ns=rule.delay_ns,
    )


_route = partial(Route, errors=("topic_not_found", "not_found"))
_READ = (Need("read", "topic"),)
_post = partial(_route, method="POST")
_get = partial(_route, method="GET", needs=_READ)
_write = partial(_post, needs=(Need("write", "topic"),), answers={200: wire.Written})
_query = partial(_post, needs=_READ, answers={200: wire.Answer}, gives=("application/json", ARROW))
_config = partial(_post, needs=(Need("config", "topic"),), answers={200: wire.Done})
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
        body=wire.Ask,
    ),
    _query(
        path=f"{_PATH}/read",
        handler=read,
        summary="Read points of a field, up to a limit for each series.",
        body=wire.Read,
    ),
    _query(
        path=f"{_PATH}/aggregate",
        handler=aggregate,
        summary="Compute one value for each group and window.",
        body=wire.Aggregate,
    ),
    _get(
        path=f"{_PATH}/names",
        handler=names,
        summary="List measurements that have points.",
        answers={200: wire.Names},
    ),
    _get(
        path=f"{_PATH}/fields",
        handler=fields,
        summary="List the fields of a measurement and their types.",
        query=wire.FieldsQuery,
        answers={200: wire.Fields},
    ),
    _post(
        path=f"{_PATH}/series",
        handler=series,
        needs=_READ,
        summary="List the tags of series that have points.",
        body=wire.SeriesOf,
        answers={200: wire.SeriesFound},
    ),
    _get(
        path=f"{_PATH}/cardinality",
        handler=cardinality,
        summary="Count series, and the values of each tag.",
        answers={200: wire.Cardinality},
    ),
    _config(
        path=f"{_PATH}/keep",
        handler=keep,
        summary="Set the retention of a measurement's points.",
        body=wire.KeepRule,
    ),
    _config(
        path=f"{_PATH}/downsample",
        handler=downsample,
        summary="Downsample: write one point of another measurement for each window.",
        body=wire.DownsampleRule,
    ),
    _config(
        path=f"{_PATH}/stop_downsampling",
        handler=stop_downsampling,
        summary="Stop downsampling into a measurement.",
        body=wire.StopRule,
    ),
    _get(
        path=f"{_PATH}/rules",
        handler=rules,
        summary="List the rules.",
        answers={200: wire.Rules},
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
