"""Routes of records: append, read, delete, find by time or seq."""

from __future__ import annotations

from starlette.responses import Response

from strandline.api import arrow_records
from strandline.api import topics as wire
from strandline.api.records import RecordFields, encode_records
from strandline.security.scopes import Action
from strandline.server.handlers import append as handlers_append
from strandline.server.handlers import read
from strandline.server.handlers.topic_cache import topic_of, touch
from strandline.server.http.request import RequestContext
from strandline.server.http.request_decoder import invalid
from strandline.server.http.responses import TimedBody
from strandline.server.http.route import JsonResponse, Route, RoutePermission

_TS_US_MAX = 2**63 - 1
_LOOP_RECORDS_MAX = 16
"""Up to this many records are serialized on the loop; more, on a thread."""


async def append(call: RequestContext) -> JsonResponse:
    """Append records, all or none."""
    query = call.query
    if query == wire.AppendQuery(return_seqs=query.return_seqs):
        query = handlers_append.NO_QUERY_OPTIONS
    placed = await handlers_append.append(
        call.parts,
        call.who,
        call.path["topic"],
        call.raw,
        call.media_type,
        idempotency_key=call.connection.headers.get("idempotency-key"),
        return_seqs=call.query.return_seqs,
        query=query,
    )
    status, body = placed.response()
    return JsonResponse(TimedBody(body), status)


async def diff(call: RequestContext) -> JsonResponse | Response:
    """Read records after a cursor, or wait for some."""
    name = call.path["topic"]
    result = await read.read(call.parts, name, call.body)
    call.performance["records_scanned"] = len(result.page)
    call.parts.counters.records_read += len(result.page)
    if arrow_records.MEDIA_TYPE in call.accept:
        table, page = read.arrow_of(name, result, call.body)
        body = await call.parts.bridge.run(arrow_records.stream_of, table, page)
        return Response(body, media_type=arrow_records.MEDIA_TYPE)
    if len(result.page) > _LOOP_RECORDS_MAX:
        return JsonResponse(await call.parts.bridge.run(read.json_of, name, result, call.body))
    return JsonResponse(read.json_of(name, result, call.body))


async def delete_records(call: RequestContext) -> JsonResponse:
    """Delete records for good: below a seq, by tag, or both."""
    parts = call.parts
    topic = topic_of(parts, call.path["topic"])
    match = _match(call.body.match)
    # Only a delete by tag reads the lake; a floor alone is a number.
    pool = parts.bridge.slow if match is None or topic.is_local() else parts.bridge.lake
    done = await pool(topic.delete, before=call.body.before_seq, match=match)
    numbers = await parts.bridge.run(topic.statistics)
    return JsonResponse(
        wire.DeleteRecordsResponse(
            topic=topic.name,
            deleted=done.deleted,
            earliest_seq=done.earliest_seq,
            head_seq=done.head_seq,
            count=numbers.count,
            bytes=numbers.payload_bytes,
        )
    )


async def seek(call: RequestContext) -> JsonResponse:
    """Find the cursor of a time."""
    ts, ts_us = call.query.ts, call.query.ts_us
    if (ts is None) == (ts_us is None):
        raise invalid("send either ts (milliseconds) or ts_us (microseconds)")
    moment = ts_us if ts is None else ts * 1000
    if abs(moment) > _TS_US_MAX:
        raise invalid("the time is out of range")
    parts = call.parts
    topic = topic_of(parts, call.path["topic"])
    cursor = await parts.bridge.slow(topic.cursor_at, moment)
    numbers = await parts.bridge.run(topic.statistics)
    return JsonResponse(
        wire.SeekResponse(
            topic=topic.name,
            from_seq=cursor,
            head_seq=numbers.head_seq,
            earliest_seq=numbers.earliest_seq,
        )
    )


async def pick(call: RequestContext) -> JsonResponse:
    """Read single records by their seqs."""
    topic = topic_of(call.parts, call.path["topic"])
    touch(call.parts, topic.name)
    body = call.body
    bridge = call.parts.bridge
    pool = bridge.slow if topic.is_local(min(body.seqs, default=1) - 1) else bridge.lake
    page = await pool(topic.get_many, body.seqs)
    records = encode_records(
        page.records, RecordFields(body.include_tags, body.include_meta, True, body.include_micros)
    )
    return JsonResponse(
        b'{"topic":"%b","records":%b,"head_seq":%d,"epoch":%d}'
        % (topic.name.encode(), records, topic.head_seq, topic.epoch)
    )


async def producers(call: RequestContext) -> JsonResponse:
    """List the producers that number their batches."""
    topic = topic_of(call.parts, call.path["topic"])
    names = topic.producers(call.query.prefix)
    return JsonResponse(wire.ProducersResponse(topic=topic.name, producers=names))


async def producer(call: RequestContext) -> JsonResponse:
    """Return the highest number that was accepted from a producer."""
    topic = topic_of(call.parts, call.path["topic"])
    name = call.path["producer"]
    return JsonResponse(
        wire.ProducerResponse(topic=topic.name, producer=name, number=topic.last_number(name))
    )


def _match(match: str | list[str] | None) -> str | None:
    """The match as ``Topic.delete`` takes it: a tag, or a prefix and a star."""
    if match is None or isinstance(match, str):
        if match is not None and match.endswith("*"):
            raise invalid('match "X" is a whole tag: for a prefix use ["tag","Glob","X*"]')
        return match
    field, operator, tag = match
    if field != "tag" or operator not in ("Eq", "Glob"):
        raise invalid('match is ["tag", "Eq", TAG] or ["tag", "Glob", "PREFIX*"]')
    if operator == "Glob" and not tag.endswith("*"):
        raise invalid("a Glob has to end in *")
    if operator == "Eq" and tag.endswith("*"):
        raise invalid("a tag that ends in * cannot be matched: use Glob")
    return tag


def _needs(action: Action) -> tuple[RoutePermission, ...]:
    return (RoutePermission(action, "topic"),)


_PATH = "/v0/topics/{topic}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=_PATH,
        handler=append,
        needs=_needs("write"),
        summary="Append records.",
        query=wire.AppendQuery,
        body=wire.AppendBody,
        decodes=True,
        takes=handlers_append.MEDIA_TYPES,
        answers={200: wire.AppendResponse, 201: wire.AppendResponse},
        errors=(
            "batch_too_large",
            "record_too_large",
            "topic_not_found",
            "conflict",
            "topic_full",
            "throttled",
            "disk_full",
            "unavailable",
        ),
    ),
    Route(
        method="POST",
        path=f"{_PATH}/diff",
        handler=diff,
        needs=_needs("read"),
        summary="Read records after a cursor.",
        body=wire.DiffRequest,
        answers={200: wire.DiffResponse},
        gives=("application/json", arrow_records.MEDIA_TYPE),
        errors=("topic_not_found", "unavailable"),
    ),
    Route(
        method="POST",
        path=f"{_PATH}/delete",
        handler=delete_records,
        needs=_needs("delete"),
        summary="Delete records below a seq, by tag, or both.",
        body=wire.DeleteRecordsRequest,
        answers={200: wire.DeleteRecordsResponse},
        errors=("topic_not_found", "unavailable"),
    ),
    Route(
        method="GET",
        path=f"{_PATH}/seek",
        handler=seek,
        needs=_needs("read"),
        summary="Find the cursor of a time.",
        query=wire.SeekQuery,
        answers={200: wire.SeekResponse},
        errors=("topic_not_found", "unavailable"),
    ),
    Route(
        method="POST",
        path=f"{_PATH}/pick",
        handler=pick,
        needs=_needs("read"),
        summary="Read single records by their seqs.",
        body=wire.PickRequest,
        answers={200: wire.PickResponse},
        errors=("topic_not_found", "unavailable"),
    ),
    Route(
        method="GET",
        path=f"{_PATH}/producers",
        handler=producers,
        needs=_needs("read"),
        summary="List producers that number their batches.",
        query=wire.ProducersQuery,
        answers={200: wire.ProducersResponse},
        errors=("topic_not_found",),
    ),
    Route(
        method="GET",
        path=f"{_PATH}/producers/{{producer}}",
        handler=producer,
        needs=_needs("read"),
        summary="Get the highest number accepted from a producer.",
        answers={200: wire.ProducerResponse},
        errors=("topic_not_found",),
    ),
)
