"""REPLAY: what happened to one context, in the order it happened.

Rows are ordered by (ts, seq), those of the same place in two topics by the event's name. A replay
of an event that is named has the columns of that event. One without a name is of all events there
are, whose fields have little in common. Its columns are always the same, also when there is but one
event:

    event    string
    seq, ts  as everywhere
    payload  string: the fields as a JSON object; times as RFC 3339, missing values as null
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.query.execute.duckdb_engine import Session
from strandline.query.execute.profile import Profile
from strandline.query.execute.result import Result
from strandline.query.execute.scan_sources import Sources
from strandline.query.language.bound_ast import Bound, BoundEvent
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


def replayed(bound: Bound, sources: Sources, session: Session, profile: Profile) -> pa.Table:
    """Rows of all event types."""
    tables = []
    for scan in scans_of(bound):
        sources.register(scan, sources.reading(scan))
        text = sql_of_scan(scan, "duckdb")
        profile.sql.append(text)
        tables.append(session.ask(text))
    return together(bound, tables)


def scans_of(bound: Bound) -> list[Scan]:
    """What is read of each event."""
    return [_scan(event, place, _asked(bound, event)) for place, event in enumerate(bound.events)]


def together(bound: Bound, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all events, in order."""
    found: list[dict[str, Any]] = []
    for event, table in zip(bound.events, tables, strict=True):
        fields = _asked(bound, event)
        found += [_row(event.name, row, fields) for row in Result(table)]
    found.sort(key=lambda row: (row[TS], row[SEQ], row[EVENT]))
    return pa.Table.from_pylist(found, schema=SHAPE)


def _asked(bound: Bound, event: BoundEvent) -> list[str]:
    """The fields of an event that are shown: by their names, which another event may have, too."""
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
