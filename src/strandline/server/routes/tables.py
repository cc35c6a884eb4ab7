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
from strandline.records import Appended
from strandline.schema import SYSTEM_PREFIX, Schema, shown_columns
from strandline.server.handlers.view_lookup import ask, ask_slowly, find_table, write
from strandline.server.http.arrow_streams import ipc_chunks, streamed, table_of
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.store import Store
from strandline.views.table.condition import Compare, Condition, decode, with_fields
from strandline.views.table.snapshot import CONTEXT
from strandline.views.table.table import Table

_LINES = msgspec.json.Decoder(wire.StoreEvent)
_EVERYTHING = Compare("seq", ">=", 0)


async def define(call: Call) -> Answer:
    """Create the table if it does not exist, and define its fields."""
    body: wire.Define = call.body
    topic = call.path["topic"]

    def work(store: Store) -> wire.TableSchema:
        schema = store.table(topic).define(body.fields, version=body.version, new=body.new)
        return wire.TableSchema(topic=topic, version=schema.version, fields=dict(schema.fields))

    return Answer(await call.parts.bridge.run(work, call.parts.store))


async def schema(call: Call) -> Answer:
    def work(table: Table) -> wire.TableSchema:
        found = table.schema
        return wire.TableSchema(topic=table.name, version=found.version, fields=dict(found.fields))

    return Answer(await ask(call, find_table, work))


async def store_event(call: Call) -> Answer:
    body: wire.StoreEvent = call.body
    event = bytes(body.event)
    return Answer(
        _store_response(await write(call, find_table, lambda t: t.store(body.context, event)))
    )


async def store_events(call: Call) -> Answer:
    contexts, events = await call.parts.bridge.run(_events, call)
    events_max = call.parts.settings.limits.batch_records_max
    if call.media_type != ARROW and len(events) > events_max:
        raise Refused(400, "batch_too_large", f"send at most {events_max} events, or Arrow")
    result = await write(call, find_table, lambda table: table.store_many(contexts, events))
    return Answer(_store_response(result))


async def check(call: Call) -> Answer:
    event = bytes(call.body.event)
    await ask(call, find_table, lambda table: table.check(event))
    return Answer(wire.Fits(fits=True))


async def delete(call: Call) -> Answer:
    body: wire.DeleteRows = call.body
    store, name = call.parts.store, call.path["topic"]
    if body.where is not None or body.context is not None:
        if body.condition is not UNSET:
            raise Invalid("send where and context, or a condition, not both")
        result = await call.parts.bridge.query(Interrupt(), store.run, _command(name, body))
        return Answer(wire.RowsDeleted(deleted=result.rows()[0]["deleted"]))
    where = _condition(body.condition)
    if where is None and not body.all:
        raise Invalid("send which rows to delete: where, context or a condition, or all")

    def work(table: Table) -> int:
        file_columns = _columns(table.schema)
        if where is None:
            return table.delete(_EVERYTHING)
        return table.delete(with_fields(where, lambda name: file_columns.get(name, name)))

    return Answer(wire.RowsDeleted(deleted=await ask_slowly(call, find_table, work)))


async def rows(call: Call) -> Response:
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

    schema, batches = await ask_slowly(call, find_table, work)
    return await streamed(call, ipc_chunks(schema, batches), ARROW)


def _columns(schema: Schema) -> dict[str, str]:
    """The file's column name by the column's name in results."""
    return {shown: column for column, shown in shown_columns(schema).items()}


async def flush(call: Call) -> Answer:
    def work(table: Table) -> wire.Done:
        table.flush()
        return wire.Done(topic=table.name)

    return Answer(await ask_slowly(call, find_table, work))


async def compact(call: Call) -> Answer:
    def work(table: Table) -> wire.Done:
        table.compact()
        return wire.Done(topic=table.name)

    return Answer(await ask_slowly(call, find_table, work))


async def state(call: Call) -> Answer:
    found = await ask_slowly(call, find_table, lambda table: table.statistics())
    return Answer(msgspec.convert(found, wire.TableState, from_attributes=True))


def _events(call: Call) -> tuple[Sequence[str] | str, list[bytes]]:
    """Contexts and events of a body in any media type."""
    if call.media_type == NDJSON:
        try:
            lines = [_LINES.decode(line) for line in call.raw.splitlines() if line.strip()]
        except msgspec.DecodeError as error:
            raise Invalid(f"a line is not an event with its context: {error}") from error
        return [line.context for line in lines], [bytes(line.event) for line in lines]
    if call.media_type == ARROW:
        return _arrow_events(table_of(call.raw))
    body: wire.StoreEvents = call.body
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


def _store_response(seqs: Appended) -> wire.Stored:
    return wire.Stored(first_seq=seqs.first_seq, last_seq=seqs.last_seq, head_seq=seqs.head_seq)


_route = partial(Route, errors=("topic_not_found", "not_found", "batch_too_large"))
_READ = (Need("read", "topic"),)
_post = partial(_route, method="POST")
_write = partial(_post, needs=(Need("write", "topic"),))
_config = partial(_post, needs=(Need("config", "topic"),), answers={200: wire.Done})
_PATH = "/v0/tables/{topic}"
_JSON = "application/json"

ROUTES: tuple[Route, ...] = (
    _route(
        method="PUT",
        path=_PATH,
        handler=define,
        needs=(Need("create", "topic"), Need("config", "topic")),
        summary="Define a table's fields, or a compatible next version of them.",
        body=wire.Define,
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
        body=wire.StoreEvent,
        answers={200: wire.Stored},
    ),
    _write(
        path=f"{_PATH}/store_many",
        handler=store_events,
        summary="Store events, all or none: as JSON, NDJSON or Arrow.",
        body=wire.StoreEvents,
        takes=(_JSON, NDJSON, ARROW),
        answers={200: wire.Stored},
    ),
    _post(
        path=f"{_PATH}/check",
        handler=check,
        needs=_READ,
        summary="Check that an event would be stored; the error has the reason.",
        body=wire.CheckEvent,
        answers={200: wire.Fits},
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
        needs=(Need("delete", "topic"),),
        summary="Delete rows; reads no longer return them.",
        body=wire.DeleteRows,
        answers={200: wire.RowsDeleted},
    ),
    _config(path=f"{_PATH}/flush", handler=flush, summary="Write rows in memory to a file."),
    _config(path=f"{_PATH}/compact", handler=compact, summary="Merge files where it pays."),
)
