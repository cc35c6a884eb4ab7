"""Routes of queries: commands, SQL, and materialized queries.

The permissions that a text needs are found by parsing it, and checked before anything runs
(``server/auth/query_permissions.py``). As Arrow and NDJSON a result of SQL is computed while it is
sent; as JSON it is collected first, so that an error can still change the status. Queries are
counted, bounded, and stopped at their deadline or when their client disconnects
(``server/limits/query_registry.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial

import msgspec
import pyarrow as pa
from starlette.responses import Response

from strandline.api import results as wire
from strandline.api.results import ARROW, NDJSON
from strandline.config.settings import MIB
from strandline.errors import Invalid, StrandlineError
from strandline.query.execute.command_result import CommandResult
from strandline.query.execute.interrupt import Interrupt
from strandline.query.execute.result import Result
from strandline.query.language.ast import BatchCommand, Command, Plot
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.query.materialized.change_feed import ResultDelta
from strandline.query.materialized.describe import Description
from strandline.query.sql.process_sandbox import ProcessSandbox
from strandline.query.sql.relations.metrics import MetricsChanged
from strandline.query.sql.relations.relation import Notes
from strandline.server.auth import query_permissions
from strandline.server.auth.query_permissions import TopicPermission, VisibleStore, check
from strandline.server.handlers.query_request import query_of
from strandline.server.handlers.view_lookup import check_capacity
from strandline.server.http import audit
from strandline.server.http.arrow_streams import accepts, chunked_response, ipc_chunks, ipc_of
from strandline.server.http.event_stream import EVENTS, RECHECK_S, EventStream, frame
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route
from strandline.server.limits.query_registry import RunningQuery
from strandline.server.limits.result_limits import (
    check_columns,
    check_text,
    limit_error,
    limited_batches,
)
from strandline.server.serializers import result_formats as formats
from strandline.server.settings import RequestLimits

JSON = "application/json"

OpenResult = Callable[..., contextlib.AbstractContextManager[pa.RecordBatchReader]]
"""Opens a result that is computed while it is read."""


async def command(call: RequestContext) -> Response:
    """Run a command."""
    call.parts.auth.check_live(call.who)
    text = _text(call) if call.media_type == wire.COMMAND else call.body.command
    visible = _visible_store(call)
    parsed = await call.parts.bridge.run(parse, text)
    if accepts_chart(call) and not isinstance(parsed, Plot):
        raise Invalid("only a PLOT returns a chart: accept JSON, NDJSON or Arrow")
    if call.who.kind == "user":
        await call.parts.bridge.run(visible.check_user, call.who.name, parsed)
    else:
        needs = await _needs(call, visible.needs_of_command(parsed))
        check(call.parts.auth, call.who, needs)
    if call.who.kind == "local":
        query_permissions.check_first_user(parsed)
    if query_permissions.is_write(parsed):
        check_capacity(call)
    if not query_permissions.is_query(parsed):
        result = await _run_command(call, parsed, text, visible, Interrupt())
        return await _response(call, result)
    async with query_of(call) as query:
        result = await _run_command(call, parsed, text, visible, query.interrupt)
        query.end()
        return await _response(call, result)


async def _run_command(
    call: RequestContext, parsed: Command, text: str, visible: VisibleStore, interrupt: Interrupt
) -> Result:
    """Run a command and audit it; of a BATCH that fails, audit the commands before."""
    try:
        result: Result = await call.parts.bridge.query(interrupt, call.parts.store.run, text)
    except StrandlineError as error:
        if isinstance(parsed, BatchCommand):
            await _audit(call, *parsed.commands[: len(error.results)])
        reported = error
        if isinstance(error, QueryError):
            reported = await call.parts.bridge.run(visible.without_names, error)
        arrow = accepts(call, ARROW)
        raise await call.parts.bridge.slow(formats.with_results, reported, arrow=arrow) from None
    await _audit(call, parsed)
    return result


async def _audit(call: RequestContext, *commands: Command) -> None:
    for command in commands:
        for entry in query_permissions.audit_fields(command):
            await audit.write_entry(call, "command", **entry)


async def sql(call: RequestContext) -> Response:
    """Run a SELECT over topics, views and tables, all at one snapshot."""
    call.parts.auth.check_live(call.who)
    body: wire.SqlRequest = (
        wire.SqlRequest(sql=_text(call)) if call.media_type == wire.SQL else call.body
    )
    check_text(body.sql, call.parts.settings.limits)
    params = formats.params_of(body.params)
    queries, visible = call.parts.store.queries, _visible_store(call)
    async with query_of(call) as query:
        sandbox = await _sandbox(call, query)
        read = partial(queries.statement, body.sql, sandbox=sandbox)
        statement = await call.parts.bridge.query(query.interrupt, read)
        check(call.parts.auth, call.who, await _needs(call, visible.needs_of_sql(statement)))
        open_result = partial(
            queries.stream,
            body.sql,
            as_of=body.as_of,
            params=params,
            store=visible,
            sandbox=sandbox,
        )
        chunks, media_type = _chunks(call, open_result)
        return await chunked_response(call, chunks, media_type, query)


async def _sandbox(call: RequestContext, query: RunningQuery) -> ProcessSandbox:
    """A process that runs this query; it is released when the query ends."""
    processes = call.parts.processes
    await query.acquire(call.parts.queries.processes)
    sandbox: ProcessSandbox = await call.parts.bridge.query(
        query.interrupt, processes.acquire, query.interrupt
    )
    query.at_end(partial(processes.release, sandbox))
    return sandbox


def _chunks(call: RequestContext, open_result: OpenResult) -> tuple[Generator[bytes], str]:
    """The result in the media type that the client accepts."""
    limits = call.parts.settings.limits
    if accepts(call, ARROW):
        return _arrow(open_result, limits), ARROW
    if accepts(call, NDJSON):
        return formats.error_as_last_line(_lines(open_result, limits)), NDJSON
    return _json(open_result, limits), JSON


async def remembered(call: RequestContext) -> JsonResponse:
    """Materialized queries whose events the client may read."""
    call.parts.auth.check_live(call.who)
    queries = await call.parts.bridge.run(call.parts.store.queries.remembered.list)
    visible = _visible_store(call)
    visible_queries = []
    for each in queries:
        needs = await _needs(call, visible.needs_of_alias(each.alias))
        if all(visible.sees(need.topic) for need in needs):
            visible_queries.append(_to_wire(each))
    return JsonResponse(wire.MaterializedQueriesResponse(remembered=visible_queries))


async def describe(call: RequestContext) -> JsonResponse:
    alias = call.path["alias"]
    await _allow_alias(call, alias)
    query = await call.parts.bridge.run(call.parts.store.queries.remembered.describe, alias)
    return JsonResponse(_to_wire(query))


async def follow(call: RequestContext) -> EventStream:
    """Stream the changes of a materialized query's result."""
    alias = call.path["alias"]
    await _allow_alias(call, alias)
    after = call.connection.headers.get("last-event-id") or call.query.after
    return EventStream(call, _changes(call, alias, after))


async def _changes(call: RequestContext, alias: str, after: str) -> AsyncIterator[bytes | None]:
    remembered, bridge = call.parts.store.queries.remembered, call.parts.bridge
    interrupt = Interrupt()
    next_change = remembered.change_poller(alias, after)
    while True:
        heads = await bridge.query(interrupt, remembered.heads, alias)
        change = await bridge.query(interrupt, next_change)
        yield None if change is None else frame("change", _change(change), change.cursor)
        if change is None:
            event, head = next(iter(heads.items()))
            topic = call.parts.store.existing_topic(event)
            recheck_s = 0.1 if len(heads) > 1 else RECHECK_S
            await call.parts.hub.wait_for(topic, head, recheck_s)


async def _response(call: RequestContext, result: Result) -> Response:
    """A computed result in the media type that the client accepts."""
    chart = result.chart if isinstance(result, CommandResult) else None
    if accepts_chart(call) and chart is not None:
        if accepts(call, wire.PNG):
            return Response(await call.parts.bridge.slow(chart.png), media_type=wire.PNG)
        return Response(msgspec.json.encode(chart.vega), media_type=wire.VEGA)
    if accepts(call, ARROW):
        return await chunked_response(call, formats.arrow_chunks(result), ARROW)
    if accepts(call, NDJSON):
        parts = result.schema, result.batches(), result.message, result.results
        chunks = formats.ndjson_chunks(*parts)
        return await chunked_response(call, chunks, NDJSON)
    return await chunked_response(call, formats.json_chunks(result), JSON)


def accepts_chart(call: RequestContext) -> bool:
    return accepts(call, wire.PNG) or accepts(call, wire.VEGA)


def _arrow(open_result: OpenResult, limits: RequestLimits) -> Generator[bytes]:
    def trailer() -> dict[bytes, bytes]:
        texts = notes.texts()
        return {wire.NOTES: msgspec.json.encode(texts)} if texts else {}

    notes = Notes()
    with open_result(notes=notes) as reader:
        check_columns(reader.schema, limits)
        yield from ipc_chunks(reader.schema, limited_batches(reader, limits), trailer)


def _lines(open_result: OpenResult, limits: RequestLimits) -> Generator[bytes]:
    notes = Notes()
    with open_result(notes=notes) as reader:
        check_columns(reader.schema, limits)
        yield from formats.ndjson_chunks(
            reader.schema, limited_batches(reader, limits), notes=notes.texts
        )


def _json(open_result: OpenResult, limits: RequestLimits) -> Generator[bytes]:
    for is_copied in (False, True):
        notes = Notes()
        try:
            with open_result(notes=notes, copied=is_copied) as reader:
                check_columns(reader.schema, limits)
                chunks = _collect_json(reader, notes, limits)
        except MetricsChanged:
            continue
        yield from chunks
        return


def _collect_json(reader: pa.RecordBatchReader, notes: Notes, limits: RequestLimits) -> list[bytes]:
    """The JSON chunks, held in memory; 413 when they are too large for that."""
    chunks: list[bytes] = []
    size = 0
    for chunk in formats.json_stream(reader.schema, limited_batches(reader, limits), notes.texts):
        chunks.append(chunk)
        size += len(chunk)
        if size > limits.query_json_bytes_max:
            limit = "query_json_bytes_max"
            raise limit_error(limit, limits.query_json_bytes_max, "accept NDJSON or Arrow")
    return chunks


async def _allow_alias(call: RequestContext, alias: str) -> None:
    call.parts.auth.check_live(call.who)
    check(call.parts.auth, call.who, await _needs(call, _visible_store(call).needs_of_alias(alias)))


async def _needs(call: RequestContext, needs: Iterator[TopicPermission]) -> list[TopicPermission]:
    """The needs as a list, found on a thread because that may read views."""
    return await call.parts.bridge.run(list, needs)


def _visible_store(call: RequestContext) -> VisibleStore:
    return VisibleStore(call.parts.store, call.parts.auth.scopes(call.who))


def _text(call: RequestContext) -> str:
    try:
        return call.raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8: {error}") from error


def _change(change: ResultDelta) -> wire.ResultChange:
    return wire.ResultChange(
        cursor=change.cursor,
        full=change.full,
        added_arrow=ipc_of(change.added),
        removed_arrow=ipc_of(change.removed),
    )


def _to_wire(query: Description) -> wire.MaterializedQueryInfo:
    return wire.MaterializedQueryInfo(
        alias=query.alias,
        query=query.query,
        kind=query.kind,
        rows=query.rows,
        bytes=query.bytes,
        runs=query.runs,
        behind=query.behind,
        created_us=query.created_us,
        refreshed_us=query.refreshed_us,
    )


_RESULTS = (JSON, NDJSON, ARROW)
_BODY_BYTES_MAX = 4 * MIB  # a decoded JSON body takes up to 20 times its bytes
_route = partial(Route, needs=OPEN, errors=("forbidden", "not_found", "topic_not_found"))

ROUTES: tuple[Route, ...] = (
    _route(
        method="POST",
        path="/v0/command",
        handler=command,
        summary="Run a command; it needs rights on every event that it names.",
        body=wire.CommandRequest,
        body_bytes_max=_BODY_BYTES_MAX,
        takes=(JSON, wire.COMMAND),
        answers={200: wire.QueryResponse},
        gives=(*_RESULTS, wire.VEGA, wire.PNG),
    ),
    _route(
        method="POST",
        path="/v0/sql",
        handler=sql,
        summary="Run a SELECT; it needs read on every topic that it names.",
        body=wire.SqlRequest,
        body_bytes_max=_BODY_BYTES_MAX,
        takes=(JSON, wire.SQL),
        answers={200: wire.QueryResponse},
        gives=_RESULTS,
    ),
    _route(
        method="GET",
        path="/v0/remembered",
        handler=remembered,
        summary="List materialized queries whose events the client may read.",
        answers={200: wire.MaterializedQueriesResponse},
    ),
    _route(
        method="GET",
        path="/v0/remembered/{alias}",
        handler=describe,
        summary="Get a materialized query and its progress.",
        answers={200: wire.MaterializedQueryInfo},
    ),
    _route(
        method="GET",
        path="/v0/remembered/{alias}/follow",
        handler=follow,
        summary="Stream the changes of a materialized query's result as SSE.",
        query=wire.FollowQuery,
        answers={200: None},
        gives=(EVENTS,),
    ),
)
