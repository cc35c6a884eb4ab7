"""Routes of measurements: every verb of ``store.metrics(name)``.

``prometheus.py`` has the server's own numbers; these are its users'.
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
    asked: wire.WritePoint = call.body
    at = None if asked.at_ns is None else _ns(asked.at_ns)
    done = await write(
        call, find_metrics, lambda m: m.write(asked.measurement, asked.tags, asked.fields, at)
    )
    return Answer(_written(done))


async def write_lines(call: Call) -> Answer:
    precision = call.query.precision
    done = await write(call, find_metrics, lambda m: m.write_lines(call.raw, precision=precision))
    return Answer(_written(done))


async def write_table(call: Call) -> Answer:
    asked: wire.TableQuery = call.query
    table = table_of(call.raw)
    tags = [tag for tag in asked.tags.split(",") if tag]
    done = await write(
        call,
        find_metrics,
        lambda m: m.write_table(asked.measurement, table, at=asked.at, tags=tags),
    )
    return Answer(_written(done))


async def query(call: Call) -> Answer | Response:
    asked: wire.Ask = call.body
    return _told(call, await ask_metrics(call, lambda m: m.query(asked.query)))


async def read(call: Call) -> Answer | Response:
    asked: wire.Read = call.body
    first, behind = _between(asked)

    def work(metrics: Metrics) -> result.Answer:
        return metrics.read(
            asked.measurement,
            asked.field,
            tags=asked.tags,
            first=first,
            next=behind,
            limit=asked.limit,
        )

    return _told(call, await ask_metrics(call, work))


async def aggregate(call: Call) -> Answer | Response:
    asked: wire.Aggregate = call.body
    first, behind = _between(asked)

    def work(metrics: Metrics) -> result.Answer:
        return metrics.aggregate(
            asked.measurement,
            asked.aggregate,
            asked.field,
            window=asked.window,
            by=asked.by,
            tags=asked.tags,
            first=first,
            next=behind,
        )

    return _told(call, await ask_metrics(call, work))


async def names(call: Call) -> Answer:
    found = await ask(call, find_metrics, lambda m: m.measurements())
    return Answer(wire.Names(measurements=found))


async def fields(call: Call) -> Answer:
    asked: wire.FieldsQuery = call.query
    return Answer(
        wire.Fields(fields=await ask(call, find_metrics, lambda m: m.fields(asked.measurement)))
    )


async def series(call: Call) -> Answer:
    asked: wire.SeriesOf = call.body
    found = await ask_metrics(call, lambda m: m.series(asked.measurement, asked.tags))
    return Answer(wire.SeriesFound(series=found))


async def cardinality(call: Call) -> Answer:
    found = await ask_metrics(call, lambda m: m.cardinality())
    return Answer(msgspec.convert(found, wire.Cardinality, from_attributes=True))


async def keep(call: Call) -> Answer:
    asked: wire.KeepRule = call.body

    def work(metrics: Metrics) -> wire.Done:
        if asked.keep is None:
            metrics.keep_all(asked.measurement)
        else:
            metrics.keep(asked.measurement, asked.keep)
        return wire.Done(topic=metrics.name)

    return Answer(await ask(call, find_metrics, work))


async def downsample(call: Call) -> Answer:
    asked: wire.DownsampleRule = call.body

    def work(metrics: Metrics) -> wire.Done:
        metrics.downsample(
            asked.source,
            into=asked.into,
            window=asked.window,
            aggregates=asked.aggregates,
            by=asked.by,
            delay=asked.delay,
        )
        return wire.Done(topic=metrics.name)

    return Answer(await ask(call, find_metrics, work))


async def stop_downsampling(call: Call) -> Answer:
    asked: wire.StopRule = call.body

    def work(metrics: Metrics) -> wire.Done:
        metrics.stop_downsampling(asked.into)
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


def _told(call: Call, found: result.Answer) -> Answer | Response:
    if wants(call, ARROW):
        return Response(_ipc(found), media_type=ARROW)
    told = [
        wire.AnswerSeries(tags=each.tags, at_ns=each.at.tolist(), values=each.values.tolist())
        for each in found.series()
    ]
    return Answer(wire.Answer(name=found.name, series=told))


def _ipc(found: result.Answer) -> bytes:
    """The answer exactly as it is: a client puts the same together from it."""
    head = wire.AnswerHead(name=found.name, groups=list(found.groups))
    columns = {"group": pa.array(found.group), "at": pa.array(found.at)}
    columns["value"] = pa.array(found.values)
    table = pa.table(columns)
    return ipc_of(table.replace_schema_metadata({ANSWER: msgspec.json.encode(head)}))


def _between(asked: wire.Read | wire.Aggregate) -> tuple[int, int]:
    first = AT_MIN if asked.first_ns is None else _ns(asked.first_ns)
    return first, INT64_MAX if asked.next_ns is None else _ns(asked.next_ns)


def _ns(given: int | str) -> int:
    """A time in nanoseconds."""
    if isinstance(given, int):
        return given
    try:
        return moment(given) * 1000
    except (Invalid, ValueError) as error:
        raise Invalid(f"{given!r} is no time: give nanoseconds, or 2026-03-28T14:05:00Z") from error


def _written(done: Appended | None) -> wire.Written:
    if done is None:
        return wire.Written(first_seq=0, last_seq=0, head_seq=0)
    return wire.Written(first_seq=done.first_seq, last_seq=done.last_seq, head_seq=done.head_seq)


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
_ask = partial(_post, needs=_READ, answers={200: wire.Answer}, gives=("application/json", ARROW))
_config = partial(_post, needs=(Need("config", "topic"),), answers={200: wire.Done})
_PATH = "/v0/measurements/{topic}"

ROUTES: tuple[Route, ...] = (
    _write(
        path=f"{_PATH}/write",
        handler=write_point,
        summary="One point for each field, at a time or now.",
        body=wire.WritePoint,
    ),
    _write(
        path=f"{_PATH}/lines",
        handler=write_lines,
        summary="Points in line protocol, all or none.",
        query=wire.LinesQuery,
        body=str,
        takes=(wire.LINES,),
    ),
    _write(
        path=f"{_PATH}/table",
        handler=write_table,
        summary="Points as an Arrow table: a column of times, tags, and fields.",
        query=wire.TableQuery,
        body=bytes,
        takes=(ARROW,),
    ),
    _ask(
        path=f"{_PATH}/query",
        handler=query,
        summary="The answer to a query in the pipe language.",
        body=wire.Ask,
    ),
    _ask(
        path=f"{_PATH}/read",
        handler=read,
        summary="Points of a field, of each series up to a limit.",
        body=wire.Read,
    ),
    _ask(
        path=f"{_PATH}/aggregate",
        handler=aggregate,
        summary="One value for each group and window.",
        body=wire.Aggregate,
    ),
    _get(
        path=f"{_PATH}/names",
        handler=names,
        summary="Measurements that have points.",
        answers={200: wire.Names},
    ),
    _get(
        path=f"{_PATH}/fields",
        handler=fields,
        summary="The fields of a measurement and their kinds.",
        query=wire.FieldsQuery,
        answers={200: wire.Fields},
    ),
    _post(
        path=f"{_PATH}/series",
        handler=series,
        needs=_READ,
        summary="The tags of the series that have points.",
        body=wire.SeriesOf,
        answers={200: wire.SeriesFound},
    ),
    _get(
        path=f"{_PATH}/cardinality",
        handler=cardinality,
        summary="How many series there are, and which tags make them many.",
        answers={200: wire.Cardinality},
    ),
    _config(
        path=f"{_PATH}/keep",
        handler=keep,
        summary="How long points of a measurement stay.",
        body=wire.KeepRule,
    ),
    _config(
        path=f"{_PATH}/downsample",
        handler=downsample,
        summary="Make one point of another measurement for each window.",
        body=wire.DownsampleRule,
    ),
    _config(
        path=f"{_PATH}/stop_downsampling",
        handler=stop_downsampling,
        summary="Make nothing into a measurement any more.",
        body=wire.StopRule,
    ),
    _get(
        path=f"{_PATH}/rules",
        handler=rules,
        summary="The rules that hold.",
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
        summary="The view in numbers.",
        answers={200: wire.MetricsState},
    ),
)
