"""Small tables of Arrow, and a way to ask them in the command language."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from strandline.query.execute.arrow_snapshot import ArrowSnapshot, columns_of
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.executor import run
from strandline.query.execute.result import Result
from strandline.query.language.binding import bind
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.parser import parse
from strandline.query.language.periods import DEFAULT_CALENDAR, Calendar
from strandline.schema import Schema, checked_fields

BEGIN_US = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC, a Thursday."""
HOUR_US = 3_600_000_000
ENGINE = DuckDbEngine(threads=2)


def table(name: str, fields: dict[str, Any], rows: list[dict[str, Any]]) -> ArrowSnapshot:
    """Rows that tell their hour (``at``) and context, or get an hour each and ``c``."""
    schema = Schema(1, checked_fields(fields))
    told = [
        {
            "seq": place,
            "ts": BEGIN_US + int(row.get("at", place) * HOUR_US),
            "context": row.get("context", "c"),
        }
        | {field: row.get(field) for field in fields}
        for place, row in enumerate(rows, 1)
    ]
    return ArrowSnapshot(name, schema, [pa.Table.from_pylist(told, schema=columns_of(schema))])


class Tables:
    """Tables that can be asked. Owned by one test."""

    def __init__(
        self, *tables: Any, calendar: Calendar = DEFAULT_CALENDAR, engine: DuckDbEngine = ENGINE
    ) -> None:
        self.snapshots = {table.name: table for table in tables}
        self._calendar = calendar
        self._engine = engine

    def bound(self, command: str) -> BoundQuery:
        schemas = {name: table.schema for name, table in self.snapshots.items()}
        return bind(
            parse(command), schemas.get, command, events=list(schemas), calendar=self._calendar
        )

    def ask(self, command: str) -> Result:
        return run(self.bound(command), self.snapshots.__getitem__, engine=self._engine)

    def tuples(self, command: str) -> list[tuple[Any, ...]]:
        return self.ask(command).tuples()

    def column(self, command: str, name: str = "seq") -> list[Any]:
        return [row[name] for row in self.ask(command)]
