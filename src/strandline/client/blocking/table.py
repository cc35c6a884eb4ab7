# Made from asynchronous/table.py by tests/house/blocking.py: change that one.
"""Defines an event table of a server, stores events, and reads them at a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from strandline.api import tables as wire
from strandline.client import table_codec
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.errors import Invalid
from strandline.records import AppendResult
from strandline.schema import Schema
from strandline.views.table import condition, schema_evolution
from strandline.views.table.condition import Condition
from strandline.views.table.rows import arrow_schema
from strandline.views.table.table import Event, TableStats


class RemoteTable:
    """One event table. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint, name: str) -> None:
        self.name = name
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r})"

    @property
    def schema(self) -> Schema:
        """The newest version; version 0 before the first definition."""
        response = self._endpoint.get("schema", wire.TableSchema)
        return Schema(response.version, response.fields)

    def define(
        self, fields: Mapping[str, object], *, version: int | None = None, new: bool = False
    ) -> Schema:
        """Define the fields of events: the first definition, or a compatible next version.

        ``version`` must be the resulting version. With ``new`` the table must have no definition.
        """
        types = schema_evolution.check_fields(fields)
        body = wire.DefineTableRequest(fields=dict(types), version=version, new=new)
        response = self._endpoint.put("", body, wire.TableSchema)
        return Schema(response.version, response.fields)

    def store(self, context: str, event: Event) -> AppendResult:
        """Store one event of a context. A rejected event changes nothing."""
        return self.store_many([context], [event])

    def store_many(self, contexts: Sequence[str] | str, events: Sequence[Event]) -> AppendResult:
        """Store events, all or none; one context for each, or one for all."""
        encoded = table_codec.encode_events(contexts, events)
        context_list = contexts if isinstance(contexts, str) else list(contexts)
        body = wire.StoreEventsRequest(events=encoded, contexts=context_list)
        response = self._endpoint.post("store_many", body, wire.StoreEventsResponse)
        return AppendResult(response.first_seq, response.last_seq, response.head_seq)

    def check(self, event: Event) -> None:
        """Validate an event: raise what ``store`` would raise."""
        self._endpoint.post_safe(
            "check", wire.CheckEvent(event=table_codec.encode_event(event)), wire.CheckEventResponse
        )

    def snapshot(self, as_of: int | None = None) -> RemoteSnapshot:
        """The table now, or without the rows after the seq ``as_of``; deleted rows stay deleted."""
        schema = self.schema
        body = wire.ReadRows(columns=["seq"], as_of=as_of)
        table = self._endpoint.table("rows", body)
        position = (table.schema.metadata or {}).get(b"strandline.position", b"0")
        return RemoteSnapshot(self._endpoint, self.name, schema, int(position), table.num_rows)

    def delete(self, where: Condition) -> int:
        """Delete the events that match a bound condition at once; return their number."""
        body = wire.DeleteRows(condition=_raw(where))
        return (self._endpoint.post("delete", body, wire.RowsDeleted)).deleted

    def flush(self) -> None:
        """Write the rows in memory to a file now."""
        self._endpoint.post_safe("flush", None, wire.TableDoneResponse)

    def compact(self) -> None:
        """Merge files now, as far as the merge policy requires."""
        self._endpoint.post_safe("compact", None, wire.TableDoneResponse)

    def statistics(self) -> TableStats:
        """The current statistics of the table."""
        fields = msgspec.to_builtins(self._endpoint.get("", wire.TableState))
        return msgspec.convert(fields, TableStats)


class RemoteSnapshot:
    """A table at one position. The server keeps nothing for it: rows deleted later are missing."""

    def __init__(
        self, endpoint: RemoteEndpoint, name: str, schema: Schema, position: int, rows: int
    ) -> None:
        self.name = name
        self.schema = schema
        self.position = position
        self.rows = rows
        self._endpoint = endpoint

    @property
    def columns(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def read(
        self, columns: Sequence[str], where: Condition | None = None, *, after: int = 0
    ) -> pa.Table:
        """All rows that match a bound condition, and possibly others."""
        known = self.columns.names
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise Invalid(
                f"table {self.name!r} has no column {unknown[0]!r}: it has {', '.join(known)}"
            )
        body = wire.ReadRows(columns=list(columns), after=after, as_of=self.position)
        if where is not None:
            body = msgspec.structs.replace(body, condition=_raw(where))
        return (self._endpoint.table("rows", body)).replace_schema_metadata(None)


def _raw(where: Condition) -> msgspec.Raw:
    return msgspec.Raw(condition.encode(where))
