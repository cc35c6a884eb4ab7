"""Commands, SQL and materialized queries on the wire, with their results.

JSON    ``{"columns": [{"name", "type"}], "rows": [[...], ...], "message", "chart"?, "results"?,
        "notes"?}``
NDJSON  a line with the schema, lines of rows, a line for the end, or for an error instead
Arrow   an IPC stream; the schema's metadata has ``strandline.message``, and ``strandline.chart``
        with the Vega-Lite specification of a PLOT; after SQL the metadata of the last batch, which
        is empty, may have ``strandline.notes``, a JSON array

The rows of a BATCH are its commands and their messages. The result of each command is in
``results``; in NDJSON in lines ``result`` and ``result_batch`` before the end; in Arrow in the
column ``result_arrow``, as an IPC stream, and ``strandline.results`` has the name of that column.
An error of a BATCH has the results of the commands before it in ``detail.results``; where Arrow is
accepted in ``detail.results_arrow``, the Arrow form in base64.

``type`` is the Arrow type as text. In JSON a time is RFC 3339 text in UTC with microseconds, a date
is text, bytes are base64, an integer beyond 64 bits is text; NaN and infinity are null.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
VEGA = "application/vnd.vegalite.v5+json"
PNG = "image/png"
COMMAND = "application/x-strandline-command"
SQL = "application/sql"
MESSAGE = b"strandline.message"
CHART = b"strandline.chart"
RESULTS = b"strandline.results"
RESULT_COLUMN = "result_arrow"
NOTES = b"strandline.notes"


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str


class SqlRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sql: str
    params: list[Any] | dict[str, Any] | None = None
    """JSON values; ``{"$base64": "..."}`` is bytes, ``{"$time": "..."}`` a time."""
    as_of: str | int | float | dict[str, int] | None = None
    """A time, a position as text, or the seq of each topic."""


class ResultColumn(msgspec.Struct, frozen=True):
    name: str
    type: str


class QueryResponse(msgspec.Struct, frozen=True, kw_only=True):
    columns: list[ResultColumn]
    rows: list[list[Any]]
    message: str
    chart: dict[str, Any] | UnsetType = UNSET
    """The Vega-Lite specification of a PLOT."""
    results: list[QueryResponse] | UnsetType = UNSET
    """The result of each command of a BATCH."""
    notes: list[str] | UnsetType = UNSET
    """Notes about the rows."""


class SchemaLine(msgspec.Struct, frozen=True, kw_only=True, tag="schema"):
    columns: list[ResultColumn]


class RowsLine(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    rows: list[list[Any]]


class ResultLine(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """The beginning of the result of one command of a BATCH."""

    index: int
    """The index of the command in the BATCH, from 0."""
    columns: list[ResultColumn]
    message: str
    chart: dict[str, Any] | UnsetType = UNSET


class ResultRowsLine(msgspec.Struct, frozen=True, kw_only=True, tag="result_batch"):
    """Rows of the result of one command of a BATCH."""

    index: int
    rows: list[list[Any]]


class EndLine(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    row_count: int
    message: str
    notes: list[str] | UnsetType = UNSET


class ErrorLine(msgspec.Struct, frozen=True, kw_only=True, tag="error"):
    error: dict[str, Any]


class FollowQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of the result of a materialized query, as an SSE stream of ``event: change``."""

    after: str = ""
    """A cursor; without one the stream begins with all rows."""


class ResultChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the result of a materialized query. Rows are Arrow IPC streams."""

    cursor: str
    full: bool
    added_arrow: bytes
    removed_arrow: bytes


class MaterializedQueryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A materialized query."""

    alias: str
    query: str
    kind: str
    rows: int
    bytes: int
    runs: int
    behind: int
    created_us: int
    refreshed_us: int


class MaterializedQueriesResponse(msgspec.Struct, frozen=True, kw_only=True):
    remembered: list[MaterializedQueryInfo]


class OpenView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a view, and of its topic when that is created."""

    options: dict[str, Any] = {}


class AlterView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    options: dict[str, Any]


Kind = Literal["kv", "queue", "series", "metrics", "table"]


class ViewInfo(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    kind: str
    options: dict[str, Any]
    """All options with their current values."""


class OpenViewResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    kind: str
    created: bool
    options: dict[str, Any]


class ViewsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prefix: str = ""


class ViewsResponse(msgspec.Struct, frozen=True, kw_only=True):
    views: list[ViewInfo]


class DigestResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    kind: str
    digest: str


class RebuildResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    kind: str


class MemoryShareInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    limit: int
    used: int
    borrowed: int
    evictions: int
    evicted_bytes: int
    refusals: int


class MemoryResponse(msgspec.Struct, frozen=True, kw_only=True):
    shares: dict[str, MemoryShareInfo]
