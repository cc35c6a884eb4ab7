"""The columns of records in Arrow tables of external readers.

Spark has no unsigned numbers: ``seq`` is a ``bigint``. Two columns are not fields of a record:
``topic``, if a read has several topics, and ``lost``, if a stream reports lost records.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from strandline.errors import Invalid
from strandline.lake.files.record_columns import SCHEMA

RECORD = tuple(SCHEMA.names)
TOPIC = "topic"
LOST = "lost"

_ARROW: dict[str, pa.DataType] = {
    TOPIC: pa.string(),
    "seq": pa.int64(),
    **{name: SCHEMA.field(name).type for name in RECORD[1:]},
    LOST: pa.struct([("first", pa.int64()), ("last", pa.int64()), ("reason", pa.string())]),
}


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    return pa.schema([pa.field(name, _ARROW[name]) for name in names])


def select_columns(requested: Iterable[str] | None, *, many: bool, lost: bool) -> tuple[str, ...]:
    """The columns of a read: the requested ones, or all."""
    available = ((TOPIC,) if many else ()) + RECORD + ((LOST,) if lost else ())
    if requested is None:
        return available
    names = tuple(requested)
    for name in names:
        if name not in available:
            raise Invalid(f"there is no column {name!r}: columns are {', '.join(available)}")
    if lost and LOST not in names:
        raise Invalid("onLoss=report reports losses in the column lost: add it to columns")
    if not names or len(set(names)) < len(names):
        raise Invalid("name each column once, and at least one: columns='seq,data'")
    return names


def with_columns(table: pa.Table, names: Iterable[str], topic: str | None = None) -> pa.Table:
    """Rows of records with exactly these columns; missing ones are null."""
    schema = arrow_schema(names)
    columns: list[pa.ChunkedArray | pa.Array] = []
    for field in schema:
        if field.name == TOPIC and topic is not None:
            columns.append(pa.repeat(pa.scalar(topic), len(table)))
        elif field.name == "seq":
            signed = [chunk.view(pa.int64()) for chunk in table["seq"].chunks]
            columns.append(pa.chunked_array(signed, pa.int64()))
        elif field.name in table.schema.names:
            columns.append(table[field.name])
        else:
            columns.append(pa.nulls(len(table), field.type))
    return pa.Table.from_arrays(columns, schema=schema)
