"""An event table of a server: defined, stored into, read at a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from strandline.api import tables as wire
from strandline.client import table_codec as outgoing
from strandline.client.asynchronous.endpoint import AsyncRoute
from strandline.errors import Invalid
from strandline.records import Appended
from strandline.schema import Schema
from strandline.views.table import condition, schema_evolution
from strandline.views.table.condition import Condition
from strandline.views.table.rows import arrow_schema
from strandline.views.table.table import Event, TableStats


class AsyncTable:
    """One event table. Safe from many tasks of one loop."""

    def __init__(self, at: AsyncRoute, name: str) -> None:
        self.name = name
        self._at = at

    def __repr__(self) -> str:
        return f"AsyncTable({self.name!r})"

    @property
    async def schema(self) -> Schema:
        """The newest version; version 0 before the first definition."""
        told = await self._at.get("schema", wire.TableSchema)
        return Schema(told.version, told.fields)

    async def define(
        self, fields: Mapping[str, object], *, version: int | None = None, new: bool = False
    ) -> Schema:
        """Give events these fields: the first definition, or a compatible next version.

        ``version`` must be the one that comes of it. With ``new`` the table may have none yet.
        """
        wanted = schema_evolution.check_fields(fields)
        asked = wire.Define(fields=dict(wanted), version=version, new=new)
        told = await self._at.put("", asked, wire.TableSchema)
        return Schema(told.version, told.fields)

    async def store(self, context: str, event: Event) -> Appended:
        """Store one event of a context. Refused events leave nothing behind."""
        return await self.store_many([context], [event])

    async def store_many(self, contexts: Sequence[str] | str, events: Sequence[Event]) -> Appended:
        """Store events, all or none; one context for each, or one for all."""
        told = outgoing.checked(contexts, events)
        given = contexts if isinstance(contexts, str) else list(contexts)
        asked = wire.StoreEvents(events=told, contexts=given)
        done = await self._at.do("store_many", asked, wire.Stored)
        return Appended(done.first_seq, done.last_seq, done.head_seq)

    async def check(self, event: Event) -> None:
        """Raise what ``store`` would raise for this event."""
        await self._at.find("check", wire.CheckEvent(event=outgoing.told(event)), wire.Fits)

    async def snapshot(self, as_of: int | None = None) -> AsyncSnapshot:
        """The table as it is now; or without what came after a seq, as far as it is still there."""
        schema = await self.schema
        asked = wire.ReadRows(columns=["seq"], as_of=as_of)
        table = await self._at.table("rows", asked)
        told = (table.schema.metadata or {}).get(b"strandline.position", b"0")
        return AsyncSnapshot(self._at, self.name, schema, int(told), table.num_rows)

    async def delete(self, where: Condition) -> int:
        """Delete the events that fulfil a bound condition; how many. They are gone at once."""
        asked = wire.DeleteRows(condition=_raw(where))
        return (await self._at.do("delete", asked, wire.RowsDeleted)).deleted

    async def flush(self) -> None:
        """Write what is in memory to a file now."""
        await self._at.find("flush", None, wire.Done)

    async def compact(self) -> None:
        """Merge files as far as it pays, now."""
        await self._at.find("compact", None, wire.Done)

    async def statistics(self) -> TableStats:
        """How the table is doing, at this moment."""
        told = msgspec.to_builtins(await self._at.get("", wire.TableState))
        return msgspec.convert(told, TableStats)


class AsyncSnapshot:
    """A table at one position. What is deleted later is gone from it, too: it is kept nowhere."""

    def __init__(self, at: AsyncRoute, name: str, schema: Schema, position: int, rows: int) -> None:
        self.name = name
        self.schema = schema
        self.position = position
        self.rows = rows
        self._at = at

    @property
    def columns(self) -> pa.Schema:
        return arrow_schema(self.schema)

    async def read(
        self, columns: Sequence[str], where: Condition | None = None, *, after: int = 0
    ) -> pa.Table:
        """All rows that fulfil a bound condition, and maybe others."""
        known = self.columns.names
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise Invalid(
                f"table {self.name!r} has no column {unknown[0]!r}: it has {', '.join(known)}"
            )
        asked = wire.ReadRows(columns=list(columns), after=after, as_of=self.position)
        if where is not None:
            asked = msgspec.structs.replace(asked, condition=_raw(where))
        return (await self._at.table("rows", asked)).replace_schema_metadata(None)


def _raw(where: Condition) -> msgspec.Raw:
    return msgspec.Raw(condition.encode(where))
