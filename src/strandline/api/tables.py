"""Event tables on the wire.

Rows travel in Arrow. Events come as JSON, as NDJSON with a line ``{"context", "event"}`` for each,
or in Arrow: a column ``context``, and one for each field.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class Define(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    fields: dict[str, Any]
    version: int | None = None
    """The version that must come of it."""
    new: bool = False
    """Whether the table may have no version yet."""


class TableSchema(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    version: int
    """0 before the first definition."""
    fields: dict[str, str]


class StoreEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    context: str
    event: msgspec.Raw
    """A JSON object, stored as it is written."""


class StoreEvents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events, all or none."""

    events: list[msgspec.Raw]
    contexts: list[str] | str
    """One for each, or one for all."""


class CheckEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    event: msgspec.Raw


class Fits(msgspec.Struct, frozen=True, kw_only=True):
    fits: bool


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    first_seq: int
    last_seq: int
    head_seq: int


class DeleteRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows: what stands behind WHERE in a command, or a bound condition as JSON."""

    where: str | None = None
    context: str | None = None
    condition: msgspec.Raw | UnsetType = UNSET
    """As ``views/table/condition.py`` writes it, its literals typed as their fields are."""
    all: bool = False
    """Every row, when neither is given."""


class RowsDeleted(msgspec.Struct, frozen=True, kw_only=True):
    deleted: int


class ReadRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of now, or without what came after a seq; maybe others of the same zones, too."""

    columns: list[str] | None = None
    """Without them all."""
    condition: msgspec.Raw | UnsetType = UNSET
    after: int = 0
    as_of: int | None = None


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """A table in numbers; what they mean is in docs/guide/tables.md."""

    rows: int
    memory_rows: int
    files: int
    file_bytes: int
    zones: int
    hidden: int
    misfits: int
    schema_version: int
    position: int


class Done(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
