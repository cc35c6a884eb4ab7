"""Routes of questions: commands, SQL, and remembered queries.

What a text needs is found by parsing it, and asked for before anything runs
(``server/auth/query_permissions.py``). In
Arrow and as NDJSON an answer of SQL is calculated while it is sent; as JSON it is put together
first, so that an error can still be told as one. Queries are counted, bounded, and ended at their
deadline or when their client goes (``server/limits/query_registry.py``).
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
from strandline.query.execute.command_result import Told
from strandline.query.execute.interrupt import Interrupt
from strandline.query.execute.result import Result
from strandline.query.language.ast import Batch, Command, Plot
from strandline.query.language.errors import Mistake
from strandline.query.language.parser import parse
from strandline.query.materialized.change_feed import Change
from strandline.query.materialized.describe import Description
from strandline.query.sql.process_sandbox import ProcessSandbox
from strandline.query.sql.relations.metrics import Moved
from strandline.query.sql.relations.relation import Notes
from strandline.server.auth import query_permissions
from strandline.server.auth.query_permissions import Needed, Sight, check
from strandline.server.handlers.query_request import query_of
from strandline.server.handlers.view_lookup import check_room
from strandline.server.http import audit
from strandline.server.http.arrow_streams import ipc_chunks, ipc_of, streamed, wants
from strandline.server.http.event_stream import EVENTS, RECHECK_S, EventStream, frame
from strandline.server.http.request import Call
from strandline.server.http.route import OPEN, Answer, Route
from strandline.server.limits.query_registry import RunningQuery
from strandline.server.limits.result_limits import bounded, check_columns, check_text, over
from strandline.server.serializers import result_formats as formats
from strandline.server.settings import RequestLimits

JSON = "application/json"

Ask = Callable[..., contextlib.AbstractContextManager[pa.RecordBatchReader]]
"""Opens an answer that is calculated while it is read."""


async def command(call: Call) -> Response:
    """Do what a command says."""
    call.parts.auth.check_live(call.who)
    text = _text(call) if call.media_type == wire.COMMAND else call.body.command
    sight = _sight(call)
    parsed = await call.parts.bridge.run(parse, text)
    if wants_chart(call) and not isinstance(parsed, Plot):
        raise Invalid("only a PLOT gives a chart: accept JSON, NDJSON or Arrow")
    if call.who.kind == "user":
        await call.parts.bridge.run(sight.check_user, call.who.name, parsed)
    else:
        needs = await _listed(call, sight.needs_of_command(parsed))
        check(call.parts.auth, call.who, needs)
    if call.who.kind == "local":
        query_permissions.check_first_user(parsed)
    if query_permissions.is_write(parsed):
        check_room(call)
    if not query_permissions.is_query(parsed):
        result = await _done(call, parsed, text, sight, Interrupt())
        return await _answer(call, result)
    async with query_of(call) as query:
        result = await _done(call, parsed, text, sight, query.interrupt)
        query.end()
        return await _answer(call, result)


async def _done(
    call: Call, parsed: Command, text: str, sight: Sight, interrupt: Interrupt
) -> Result:
    """The result of a command, put on record; of a BATCH that fails, what was done before."""
    try:
        result: Result = await call.parts.bridge.query(interrupt, call.parts.store.run, text)
    except StrandlineError as error:
        if isinstance(parsed, Batch):
            await _put_on_record(call, *parsed.commands[: len(error.results)])
        shown = error
        if isinstance(error, Mistake):
            shown = await call.parts.bridge.run(sight.without_names, error)
        arrow = wants(call, ARROW)
        raise await call.parts.bridge.slow(formats.with_results, shown, arrow=arrow) from None
    await _put_on_record(call, parsed)
    return result


async def _put_on_record(call: Call, *done: Command) -> None:
    for command in done:
        for told in query_permissions.told_in_audit(command):
            await audit.tell(call, "command", **told)


async def sql(call: Call) -> Response:
    """Ask a SELECT over topics, views and tables, all at one moment."""
    call.parts.auth.check_live(call.who)
    asked: wire.Sql = wire.Sql(sql=_text(call)) if call.media_type == wire.SQL else call.body
    check_text(asked.sql, call.parts.settings.limits)
    params = formats.params_of(asked.params)
    questions, sight = call.parts.store.questions, _sight(call)
    async with query_of(call) as query:
        sandbox = await _sandbox(call, query)
        read = partial(questions.statement, asked.sql, sandbox=sandbox)
        statement = await call.parts.bridge.query(query.interrupt, read)
        check(call.parts.auth, call.who, await _listed(call, sight.needs_of_sql(statement)))
        ask = partial(
            questions.stream,
            asked.sql,
            as_of=asked.as_of,
            params=params,
            store=sight,
            sandbox=sandbox,
        )
        chunks, media_type = _chunks(call, ask)
        return await streamed(call, chunks, media_type, query)


async def _sandbox(call: Call, query: RunningQuery) -> ProcessSandbox:
    """A process for a query, until the query ends."""
    processes = call.parts.processes
    await query.take(call.parts.queries.processes)
    sandbox: ProcessSandbox = await call.parts.bridge.query(
        query.interrupt, processes.acquire, query.interrupt
    )
    query.at_end(partial(processes.release, sandbox))
    return sandbox


def _chunks(call: Call, ask: Ask) -> tuple[Generator[bytes], str]:
    """The answer in the form that was asked for."""
    limits = call.parts.settings.limits
    if wants(call, ARROW):
        return _arrow(ask, limits), ARROW
    if wants(call, NDJSON):
        return formats.error_told(_lines(ask, limits)), NDJSON
    return _json(ask, limits), JSON


async def remembered(call: Call) -> Answer:
    """Remembered queries whose events one may read."""
    call.parts.auth.check_live(call.who)
    found = await call.parts.bridge.run(call.parts.store.questions.remembered.list)
    sight = _sight(call)
    seen = []
    for each in found:
        needs = await _listed(call, sight.needs_of_alias(each.alias))
        if all(sight.sees(need.topic) for need in needs):
            seen.append(_described(each))
    return Answer(wire.RememberedList(remembered=seen))


async def describe(call: Call) -> Answer:
    alias = call.path["alias"]
    await _allow_alias(call, alias)
    found = await call.parts.bridge.run(call.parts.store.questions.remembered.describe, alias)
    return Answer(_described(found))


async def follow(call: Call) -> EventStream:
    """What changes in the answer of a remembered query."""
    alias = call.path["alias"]
    await _allow_alias(call, alias)
    after = call.connection.headers.get("last-event-id") or call.query.after
    return EventStream(call, _changes(call, alias, after))


async def _changes(call: Call, alias: str, after: str) -> AsyncIterator[bytes | None]:
    remembered, bridge = call.parts.store.questions.remembered, call.parts.bridge
    interrupt = Interrupt()
    look = remembered.following(alias, after)
    while True:
        heads = await bridge.query(interrupt, remembered.heads, alias)
        change = await bridge.query(interrupt, look)
        yield None if change is None else frame("change", _change(change), change.cursor)
        if change is None:
            event, head = next(iter(heads.items()))
            topic = call.parts.store.existing_topic(event)
            several = 0.1 if len(heads) > 1 else RECHECK_S
            await call.parts.hub.wait_for(topic, head, several)


async def _answer(call: Call, result: Result) -> Response:
    """An answer that is there, in the form that was asked for."""
    chart = result.chart if isinstance(result, Told) else None
    if wants_chart(call) and chart is not None:
        if wants(call, wire.PNG):
            return Response(await call.parts.bridge.slow(chart.png), media_type=wire.PNG)
        return Response(msgspec.json.encode(chart.vega), media_type=wire.VEGA)
    if wants(call, ARROW):
        return await streamed(call, formats.arrow_chunks(result), ARROW)
    if wants(call, NDJSON):
        told = result.schema, result.batches(), result.message, result.results
        chunks = formats.ndjson_chunks(*told)
        return await streamed(call, chunks, NDJSON)
    return await streamed(call, formats.json_chunks(result), JSON)


def wants_chart(call: Call) -> bool:
    return wants(call, wire.PNG) or wants(call, wire.VEGA)


def _arrow(ask: Ask, limits: RequestLimits) -> Generator[bytes]:
    def trailer() -> dict[bytes, bytes]:
        found = notes.texts()
        return {wire.NOTES: msgspec.json.encode(found)} if found else {}

    notes = Notes()
    with ask(notes=notes) as reader:
        check_columns(reader.schema, limits)
        yield from ipc_chunks(reader.schema, bounded(reader, limits), trailer)


def _lines(ask: Ask, limits: RequestLimits) -> Generator[bytes]:
    notes = Notes()
    with ask(notes=notes) as reader:
        check_columns(reader.schema, limits)
        yield from formats.ndjson_chunks(reader.schema, bounded(reader, limits), notes=notes.texts)


def _json(ask: Ask, limits: RequestLimits) -> Generator[bytes]:
    for copied in (False, True):
        notes = Notes()
        try:
            with ask(notes=notes, copied=copied) as reader:
                check_columns(reader.schema, limits)
                chunks = _collected(reader, notes, limits)
        except Moved:
            continue
        yield from chunks
        return


def _collected(reader: pa.RecordBatchReader, notes: Notes, limits: RequestLimits) -> list[bytes]:
    """JSON in memory; 413 when it is too long for that."""
    chunks: list[bytes] = []
    size = 0
    for chunk in formats.json_stream(reader.schema, bounded(reader, limits), notes.texts):
        chunks.append(chunk)
        size += len(chunk)
        if size > limits.query_json_bytes_max:
            limit = "query_json_bytes_max"
            raise over(limit, limits.query_json_bytes_max, "ask for NDJSON or Arrow")
    return chunks


async def _allow_alias(call: Call, alias: str) -> None:
    call.parts.auth.check_live(call.who)
    check(call.parts.auth, call.who, await _listed(call, _sight(call).needs_of_alias(alias)))


async def _listed(call: Call, needs: Iterator[Needed]) -> list[Needed]:
    """Needs, found on a thread: it may take a look into views."""
    return await call.parts.bridge.run(list, needs)


def _sight(call: Call) -> Sight:
    return Sight(call.parts.store, call.parts.auth.scopes(call.who))


def _text(call: Call) -> str:
    try:
        return call.raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8: {error}") from error


def _change(change: Change) -> wire.Followed:
    return wire.Followed(
        cursor=change.cursor,
        anew=change.anew,
        added_arrow=ipc_of(change.added),
        removed_arrow=ipc_of(change.removed),
    )


def _described(found: Description) -> wire.Remembered:
    return wire.Remembered(
        alias=found.alias,
        query=found.query,
        kind=found.kind,
        rows=found.rows,
        bytes=found.bytes,
        runs=found.runs,
        behind=found.behind,
        created_us=found.created_us,
        refreshed_us=found.refreshed_us,
    )


_RESULTS = (JSON, NDJSON, ARROW)
_BODY_BYTES_MAX = 4 * MIB  # decoded, a JSON body takes up to twenty times its bytes
_route = partial(Route, needs=OPEN, errors=("forbidden", "not_found", "topic_not_found"))

ROUTES: tuple[Route, ...] = (
    _route(
        method="POST",
        path="/v0/command",
        handler=command,
        summary="Do what a command says; it needs rights on every event that it names.",
        body=wire.Command,
        body_bytes_max=_BODY_BYTES_MAX,
        takes=(JSON, wire.COMMAND),
        answers={200: wire.Result},
        gives=(*_RESULTS, wire.VEGA, wire.PNG),
    ),
    _route(
        method="POST",
        path="/v0/sql",
        handler=sql,
        summary="Ask a SELECT; it needs read of every topic that it names.",
        body=wire.Sql,
        body_bytes_max=_BODY_BYTES_MAX,
        takes=(JSON, wire.SQL),
        answers={200: wire.Result},
        gives=_RESULTS,
    ),
    _route(
        method="GET",
        path="/v0/remembered",
        handler=remembered,
        summary="Remembered queries whose events one may read.",
        answers={200: wire.RememberedList},
    ),
    _route(
        method="GET",
        path="/v0/remembered/{alias}",
        handler=describe,
        summary="A remembered query: what it is, and how far it has come.",
        answers={200: wire.Remembered},
    ),
    _route(
        method="GET",
        path="/v0/remembered/{alias}/follow",
        handler=follow,
        summary="What changes in the answer of a remembered query, as an SSE stream.",
        query=wire.FollowQuery,
        answers={200: None},
        gives=(EVENTS,),
    ),
)
