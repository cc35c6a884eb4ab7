"""An event table as rows: seq, ts, context and its fields, by the newest schema.

A field has its own name; a system column with the name of a field is ``__seq``, ``__ts`` or
``__context``.

The snapshot (``views/table/snapshot.py``) reads only the requested columns, and only the zones of
its files that may hold rows for which DuckDB's filter is true. The filter is converted to a
condition, which has two truth values where SQL has three. A filter without NOT, as they all are
here, is true in SQL only if the condition is true, so no row is missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa

from strandline.query.sql.filters import AllOf, AnyOf, Comparison, Where
from strandline.query.sql.relations.relation import Position, Relation
from strandline.schema import shown_columns
from strandline.views.table.condition import And, Compare, Condition, In, Operator, Or, with_fields
from strandline.views.table.fold import TableFold
from strandline.views.table.snapshot import EventTableSnapshot
from strandline.views.view_runner import ViewRunner


class TableSource:
    """An event table."""

    def __init__(self, host: ViewRunner[TableFold]) -> None:
        self._host = host
        self.topics = host.topics
        self.held = (host,)

    def at(self, position: Position) -> Relation:
        return TableRows(self._host.fold.snapshot(position.heads[self.topics[0].name]))


class TableRows:
    """The rows of a snapshot. Safe from many threads."""

    def __init__(self, snapshot: EventTableSnapshot) -> None:
        self.snapshot = snapshot
        shown = shown_columns(snapshot.schema)
        self.columns = {name: column for column, name in shown.items()}
        """The column of a file by its name in SQL."""
        self.schema = pa.schema([field.with_name(shown[field.name]) for field in snapshot.columns])

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        shape = pa.schema([self.schema.field(name) for name in columns])
        condition = condition_of(where)
        if condition is not None:
            condition = with_fields(condition, self.columns.__getitem__)
        reading = self.snapshot.read([self.columns[name] for name in columns], condition)
        for batch in reading.batches():
            yield batch.rename_columns(shape.names).cast(shape)


def condition_of(where: Where | None) -> Condition | None:
    """A filter as a condition; None when no part of it can be one."""
    match where:
        case AllOf(parts):
            conditions = [condition_of(part) for part in parts]
            known = tuple(part for part in conditions if part is not None)
            return And(known) if len(known) > 1 else known[0] if known else None
        case AnyOf(parts):
            conditions = [condition_of(part) for part in parts]
            if None in conditions:
                return None
            return Or(tuple(cast("list[Condition]", conditions)))
        case Comparison(field, "in", value):
            return In(field, value)
        case Comparison(field, "null", _):
            return Compare(field, "=", None)
        case Comparison(field, "valid", _):
            return Compare(field, "!=", None)
        case Comparison(field, op, value) if not isinstance(value, bytes):
            return Compare(field, cast("Operator", op), cast("Any", value))
    return None
