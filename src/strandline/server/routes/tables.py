"""Routes of event tables: every verb of ``store.table(name)``. Rows are read in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from strandline.api import tables as wire
from strandline.api.errors import Refused
from strandline.api.results import ARROW, NDJSON
from strandline.errors import Invalid
from strandline.query.execute.interrupt import Interrupt
from strandline.records import AppendResult
from strandline.schema import SYSTEM_PREFIX, Schema, shown_columns
from strandline.server.handlers.view_lookup import (
    find_table,
    run_on_view,
    run_slow_on_view,
    write_to_view,
)
from strandline.server.http.arrow_streams import chunked_response, ipc_chunks, table_of
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.store import Store
from strandline.views.table.condition import Compare, Condition, decode, with_fields
from strandline.views.table.snapshot import CONTEXT
from strandline.views.table.table import Table

_LINES = msgspec.json.Decoder(wire.StoreEventRequest)
_EVERYTHING = Compare("seq", ">=", 0)


async def define(call: RequestContext) -> JsonResponse:
    """Create the table if it does not exist, and define its fields."""
    body: wire.DefineTableRequest = call.body
    topic = call.path["topic"]

    def work(store: Store) -> wire.TableSchema:
        schema = store.table(topic).define(body.fields, version=body.version, new=body.new)
        return wire.TableSchema(topic=topic, version=schema.version, fields=dict(schema.fields))

    return JsonResponse(await call.parts.bridge.run(work, call.parts.store))


async def schema(call: RequestContext) -> JsonResponse:
    def work(table: Table) -> wire.TableSchema:
        found = table.schema
        return wire.TableSchema(topic=table.name, version=found.version, fields=dict(found.fields))

    return JsonResponse(await run_on_view(call, find_table, work))


async def store_event(call: RequestContext) -> JsonResponse:
    body: wire.StoreEventRequest = call.body
    event = bytes(body.event)
    return JsonResponse(
        _store_response(
            await write_to_view(call, find_table, lambda t: t.store(body.context, event))
        )
    )


async def store_events(call: RequestContext) -> JsonResponse:
    contexts, events = await call.parts.bridge.run(_events, call)
    events_max = call.parts.settings.limits.batch_records_max
    if call.media_type != ARROW and len(events) > events_max:
        raise Refused(400, "batch_too_large", f"send at most {events_max} events, or Arrow")
    result = await write_to_view(call, find_table, lambda table: table.store_many(contexts, events))
    return JsonResponse(_store_response(result))


async def check(call: RequestContext) -> JsonResponse:
    event = bytes(call.body.event)
    await run_on_view(call, find_table, lambda table: table.check(event))
    return JsonResponse(wire.CheckEventResponse(fits=True))


async def delete(call: RequestContext) -> JsonResponse:
    body: wire.DeleteRows = call.body
    store, name = call.parts.store, call.path["topic"]
    if body.where is not None or body.context is not None:
        if body.condition is not UNSET:
            raise Invalid("send where and context, or a condition, not both")
        result = await call.parts.bridge.query(Interrupt(), store.run, _command(name, body))
        return JsonResponse(wire.RowsDeleted(deleted=result.rows()[0]["deleted"]))
    where = _condition(body.condition)
    if where is None and not body.all:
        raise Invalid("send which rows to delete: where, context or a condition, or all")

    def work(table: Table) -> int:
        file_columns = _columns(table.schema)
        if where is None:
            return table.delete(_EVERYTHING)
        return table.delete(with_fields(where, lambda name: file_columns.get(name, name)))

    return JsonResponse(wire.RowsDeleted(deleted=await run_slow_on_view(call, find_table, work)))


async def rows(call: RequestContext) -> Response:
    """Stream rows in Arrow, as they are read from files and memory."""
    body: wire.ReadRows = call.body
    where = _condition(body.condition)

    def work(table: Table) -> tuple[pa.Schema, Any]:
        snapshot = table.snapshot(body.as_of)
        by_name = _columns(snapshot.schema)
        names = list(by_name) if body.columns is None else body.columns
        for name in names:
            if name not in by_name:
                raise Invalid(f"{table.name!r} has no column {name!r}")
        columns = [by_name[name] for name in names]
        bound = None if where is None else with_fields(where, lambda name: by_name.get(name, name))
        reader = snapshot.read(columns, bound, after=body.after)
        position = {b"strandline.position": str(snapshot.position).encode()}
        fields = [
            snapshot.columns.field(each).with_name(result_name)
            for each, result_name in zip(columns, names, strict=True)
        ]
        schema = pa.schema(fields, metadata=position)
        return schema, (batch.rename_columns(names).cast(schema) for batch in reader.batches())

    schema, batches = await run_slow_on_view(call, find_table, work)
    return await chunked_response(call, ipc_chunks(schema, batches), ARROW)


def _columns(schema: Schema) -> dict[str, str]:
    """The file's column name by the column's name in results."""
    return {shown: column for column, shown in shown_columns(schema).items()}


async def flush(call: RequestContext) -> JsonResponse:
    def work(table: Table) -> wire.TableDoneResponse:
        table.flush()
        return wire.TableDoneResponse(topic=table.name)

    return JsonResponse(await run_slow_on_view(call, find_table, work))


async def compact(call: RequestContext) -> JsonResponse:
    def work(table: Table) -> wire.TableDoneResponse:
        table.compact()
        return wire.TableDoneResponse(topic=table.name)

    return JsonResponse(await run_slow_on_view(call, find_table, work))


async def state(call: RequestContext) -> JsonResponse:
    found = await run_slow_on_view(call, find_table, lambda table: table.statistics())
    return JsonResponse(msgspec.convert(found, wire.TableState, from_attributes=True))


def _events(call: RequestContext) -> tuple[Sequence[str] | str, list[bytes]]:
    """Contexts and events of a body in any media type."""
    if call.media_type == NDJSON:
        try:
            lines = [_LINES.decode(line) for line in call.raw.splitlines() if line.strip()]
        except msgspec.DecodeError as error:
            raise Invalid(f"a line is not an event with its context: {error}") from error
        return [line.context for line in lines], [bytes(line.event) for line in lines]
    if call.media_type == ARROW:
        return _arrow_events(table_of(call.raw))
    body: wire.StoreEventsRequest = call.body
    return body.contexts, [bytes(event) for event in body.events]


def _arrow_events(table: pa.Table) -> tuple[list[str], list[bytes]]:
    """Each row is an event without its null fields.

    If the table has a column ``__context``, a column ``context`` is a field."""
    system = f"{SYSTEM_PREFIX}{CONTEXT}"
    context = system if system in table.column_names else CONTEXT
    if context not in table.column_names:
        raise Invalid(f"the Arrow body lacks the column {CONTEXT!r}")
    contexts = table.column(context).to_pylist()
    events = [
        {name: value for name, value in row.items() if value is not None}
        for row in table.drop_columns([context]).to_pylist()
    ]
    try:
        return contexts, [msgspec.json.encode(event) for event in events]
    except (TypeError, ValueError) as error:
        raise Invalid(f"a column cannot be encoded as JSON: {error}") from error


def _command(name: str, body: wire.DeleteRows) -> str:
    """The command that deletes these rows. A text holds one command: ``where`` cannot add one."""
    text = f"DELETE {name}"
    if body.context is not None:
        text += f" FOR {msgspec.json.encode(body.context).decode()}"
    return text if body.where is None else f"{text} WHERE {body.where}"


def _condition(raw: msgspec.Raw | UnsetType) -> Condition | None:
    if raw is UNSET:
        return None
    try:
        return decode(bytes(raw))
    except msgspec.DecodeError as error:
        raise Invalid(f"condition: {error}") from error


def _store_response(seqs: AppendResult) -> wire.StoreEventsResponse:
    return wire.StoreEventsResponse(
        first_seq=seqs.first_seq, last_seq=seqs.last_seq, head_seq=seqs.head_seq
    )


_route = partial(Route, errors=("topic_not_found", "not_found", "batch_too_large"))
_READ = (RoutePermission("read", "topic"),)
_post = partial(_route, method="POST")
_write = partial(_post, needs=(RoutePermission("write", "topic"),))
_config = partial(
    _post, needs=(RoutePermission("config", "topic"),), answers={200: wire.TableDoneResponse}
)
_PATH = "/v0/tables/{topic}"
_JSON = "application/json"

ROUTES: tuple[Route, ...] = (
    _route(
        method="PUT",
        path=_PATH,
        handler=define,
        needs=(RoutePermission("create", "topic"), RoutePermission("config", "topic")),
        summary="Define a table's fields, or a compatible next version of them.",
        body=wire.DefineTableRequest,
        answers={200: wire.TableSchema},
    ),
    _route(
        method="GET",
        path=f"{_PATH}/schema",
        handler=schema,
        needs=_READ,
        summary="Get the newest version of the fields.",
        answers={200: wire.TableSchema},
    ),
    _route(
        method="GET",
        path=_PATH,
        handler=state,
        needs=_READ,
        summary="Get a table's statistics.",
        answers={200: wire.TableState},
    ),
    _write(
        path=f"{_PATH}/store",
        handler=store_event,
        summary="Store one event of a context.",
        body=wire.StoreEventRequest,
        answers={200: wire.StoreEventsResponse},
    ),
    _write(
        path=f"{_PATH}/store_many",
        handler=store_events,
        summary="Store events, all or none: as JSON, NDJSON or Arrow.",
        body=wire.StoreEventsRequest,
        takes=(_JSON, NDJSON, ARROW),
        answers={200: wire.StoreEventsResponse},
    ),
    _post(
        path=f"{_PATH}/check",
        handler=check,
        needs=_READ,
        summary="Check that an event would be stored; the error has the reason.",
        body=wire.CheckEvent,
        answers={200: wire.CheckEventResponse},
    ),
    _post(
        path=f"{_PATH}/rows",
        handler=rows,
        needs=_READ,
        summary="Read rows in Arrow, now or as of a seq.",
        body=wire.ReadRows,
        answers={200: None},
        gives=(ARROW,),
    ),
    _post(
        path=f"{_PATH}/delete",
        handler=delete,
        needs=(RoutePermission("delete", "topic"),),
        summary="Delete rows; reads no longer return them.",
        body=wire.DeleteRows,
        answers={200: wire.RowsDeleted},
    ),
    _config(path=f"{_PATH}/flush", handler=flush, summary="Write rows in memory to a file."),
    _config(path=f"{_PATH}/compact", handler=compact, summary="Merge files where it pays."),
)
