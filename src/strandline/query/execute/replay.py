"""REPLAY: the events of one context, in the order of their appends.

Rows are ordered by (ts, seq), and rows with equal ts and seq by the name of the event. A replay of
one event has the columns of that event. A replay without an event is of all events, which have
different fields. Its columns are always the same, also when there is only one event:

    event    string
    seq, ts  as in other results
    payload  string: the fields as a JSON object; times as RFC 3339, missing values as null
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.query.execute.duckdb_engine import DuckDbSession
from strandline.query.execute.profile import Profile
from strandline.query.execute.result import Result
from strandline.query.execute.scan_sources import ScanSources
from strandline.query.language.bound_ast import BoundEvent, BoundQuery
from strandline.query.plan.compile import sql_of_scan
from strandline.query.plan.plan import Scan
from strandline.query.plan.result_schema import MOMENT
from strandline.schema import column_of
from strandline.views.table.condition import fields_of
from strandline.views.table.snapshot import SEQ, TS

EVENT, PAYLOAD = "event", "payload"

SHAPE = pa.schema(
    [
        pa.field(EVENT, pa.string()),
        pa.field(SEQ, pa.uint64()),
        pa.field(TS, MOMENT),
        pa.field(PAYLOAD, pa.string()),
    ]
)


def replay_rows(
    bound: BoundQuery, sources: ScanSources, session: DuckDbSession, profile: Profile
) -> pa.Table:
    """Rows of all event types."""
    tables = []
    for scan in scans_of(bound):
        sources.register(scan, sources.reading(scan))
        text = sql_of_scan(scan, "duckdb")
        profile.sql.append(text)
        tables.append(session.query(text))
    return merge_events(bound, tables)


def scans_of(bound: BoundQuery) -> list[Scan]:
    """The scan of each event."""
    return [
        _scan(event, place, _fields_of(bound, event)) for place, event in enumerate(bound.events)
    ]


def merge_events(bound: BoundQuery, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all events, in order."""
    rows: list[dict[str, Any]] = []
    for event, table in zip(bound.events, tables, strict=True):
        fields = _fields_of(bound, event)
        rows += [_row(event.name, row, fields) for row in Result(table)]
    rows.sort(key=lambda row: (row[TS], row[SEQ], row[EVENT]))
    return pa.Table.from_pylist(rows, schema=SHAPE)


def _fields_of(bound: BoundQuery, event: BoundEvent) -> list[str]:
    """The fields of an event in the result: by name, as several events may have a field."""
    names = {column.name for column in bound.columns}
    return [field for field in event.schema.fields if field in names]


def _scan(event: BoundEvent, place: int, fields: list[str]) -> Scan:
    kept = {SEQ, TS, *map(column_of, fields)}
    kinds = event.kinds()
    needed = {name: kinds[name] for name in kinds if name in kept | fields_of(event.where)}
    return Scan(
        table=event.name,
        relation=f"rows{place}",
        prefix="",
        kinds=needed,
        kept=tuple(name for name in needed if name in kept),
        time=event.time,
        where=event.where,
    )


def _row(event: str, row: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    payload = msgspec.json.encode({field: row[column_of(field)] for field in fields}).decode()
    return {EVENT: event, SEQ: row[SEQ], TS: row[TS], PAYLOAD: payload}
