# Made from asynchronous/table.py by tests/house/blocking.py: change that one.
"""An event table of a server: defined, stored into, read at a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from strandline.api import tables as wire
from strandline.client import table_codec as outgoing
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.errors import Invalid
from strandline.records import Appended
from strandline.schema import Schema
from strandline.views.table import condition, schema_evolution
from strandline.views.table.condition import Condition
from strandline.views.table.rows import arrow_schema
from strandline.views.table.table import Event, TableStats


class RemoteTable:
    """One event table. Safe from many threads."""

    def __init__(self, at: RemoteRoute, name: str) -> None:
        self.name = name
        self._at = at

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r})"

    @property
    def schema(self) -> Schema:
        """The newest version; version 0 before the first definition."""
        told = self._at.get("schema", wire.TableSchema)
        return Schema(told.version, told.fields)

    def define(
        self, fields: Mapping[str, object], *, version: int | None = None, new: bool = False
    ) -> Schema:
        """Give events these fields: the first definition, or a compatible next version.

        ``version`` must be the one that comes of it. With ``new`` the table may have none yet.
        """
        wanted = schema_evolution.check_fields(fields)
        asked = wire.Define(fields=dict(wanted), version=version, new=new)
        told = self._at.put("", asked, wire.TableSchema)
        return Schema(told.version, told.fields)

    def store(self, context: str, event: Event) -> Appended:
        """Store one event of a context. Refused events leave nothing behind."""
        return self.store_many([context], [event])

    def store_many(self, contexts: Sequence[str] | str, events: Sequence[Event]) -> Appended:
        """Store events, all or none; one context for each, or one for all."""
        told = outgoing.checked(contexts, events)
        given = contexts if isinstance(contexts, str) else list(contexts)
        asked = wire.StoreEvents(events=told, contexts=given)
        done = self._at.do("store_many", asked, wire.Stored)
        return Appended(done.first_seq, done.last_seq, done.head_seq)

    def check(self, event: Event) -> None:
        """Raise what ``store`` would raise for this event."""
        self._at.find("check", wire.CheckEvent(event=outgoing.told(event)), wire.Fits)

    def snapshot(self, as_of: int | None = None) -> RemoteSnapshot:
        """The table as it is now; or without what came after a seq, as far as it is still there."""
        schema = self.schema
        asked = wire.ReadRows(columns=["seq"], as_of=as_of)
        table = self._at.table("rows", asked)
        told = (table.schema.metadata or {}).get(b"strandline.position", b"0")
        return RemoteSnapshot(self._at, self.name, schema, int(told), table.num_rows)

    def delete(self, where: Condition) -> int:
        """Delete the events that fulfil a bound condition; how many. They are gone at once."""
        asked = wire.DeleteRows(condition=_raw(where))
        return (self._at.do("delete", asked, wire.RowsDeleted)).deleted

    def flush(self) -> None:
        """Write what is in memory to a file now."""
        self._at.find("flush", None, wire.Done)

    def compact(self) -> None:
        """Merge files as far as it pays, now."""
        self._at.find("compact", None, wire.Done)

    def statistics(self) -> TableStats:
        """How the table is doing, at this moment."""
        told = msgspec.to_builtins(self._at.get("", wire.TableState))
        return msgspec.convert(told, TableStats)


class RemoteSnapshot:
    """A table at one position. What is deleted later is gone from it, too: it is kept nowhere."""

    def __init__(
        self, at: RemoteRoute, name: str, schema: Schema, position: int, rows: int
    ) -> None:
        self.name = name
        self.schema = schema
        self.position = position
        self.rows = rows
        self._at = at

    @property
    def columns(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def read(
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
        return (self._at.table("rows", asked)).replace_schema_metadata(None)


def _raw(where: Condition) -> msgspec.Raw:
    return msgspec.Raw(condition.encode(where))
