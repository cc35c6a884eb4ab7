"""Event tables on the wire.

Rows are sent in Arrow. Events are JSON, NDJSON with one line ``{"context", "event"}`` per event, or
Arrow: a column ``context``, and one column for each field.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class DefineTableRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    fields: dict[str, Any]
    version: int | None = None
    """The version that the definition must result in."""
    new: bool = False
    """Fail if the table has a version already."""


class TableSchema(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    version: int
    """0 before the first definition."""
    fields: dict[str, str]


class StoreEventRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    context: str
    event: msgspec.Raw
    """A JSON object, stored as it was sent."""


class StoreEventsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events, all or none."""

    events: list[msgspec.Raw]
    contexts: list[str] | str
    """One context for each event, or one for all."""


class CheckEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    event: msgspec.Raw


class CheckEventResponse(msgspec.Struct, frozen=True, kw_only=True):
    fits: bool


class StoreEventsResponse(msgspec.Struct, frozen=True, kw_only=True):
    first_seq: int
    last_seq: int
    head_seq: int


class DeleteRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects rows: the text after WHERE of a command, or a bound condition as JSON."""

    where: str | None = None
    context: str | None = None
    condition: msgspec.Raw | UnsetType = UNSET
    """As ``views/table/condition.py`` encodes it, with literals of their fields' types."""
    all: bool = False
    """Delete every row; required when there is no other selection."""


class RowsDeleted(msgspec.Struct, frozen=True, kw_only=True):
    deleted: int


class ReadRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Current rows, or rows as of a seq; other rows of the same zones may be included."""

    columns: list[str] | None = None
    """All columns by default."""
    condition: msgspec.Raw | UnsetType = UNSET
    after: int = 0
    as_of: int | None = None


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a table; docs/guide/tables.md explains them."""

    rows: int
    memory_rows: int
    files: int
    file_bytes: int
    zones: int
    hidden: int
    misfits: int
    schema_version: int
    position: int


class TableDoneResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
