"""Converts rows of an older version of a table to a newer one. Pure.

Only the changes that ``schema_evolution.py`` allows occur: a field that the older version lacks is
null, integers become floating-point numbers, a day becomes midnight UTC, and an enum
that is a string now becomes plain text; an enum with more variants gets their dictionary. A column
that needs no change is returned as it is, with its dictionary.

A date that was sent with a time of day becomes midnight of that day: the time was not stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from strandline.lake.files.typed_columns import ARROW
from strandline.schema import Schema, field_of, parse_type
from strandline.views.table.dictionary import as_enum
from strandline.views.table.snapshot import CORE


def upcast(table: pa.Table, old: Schema, new: Schema, columns: Sequence[str]) -> pa.Table:
    """The rows with these columns of the newer version, in this order."""
    changed = {
        name: _column(table, name, old, new)
        for name in columns
        if name not in CORE.names and old.fields.get(field_of(name)) != new.fields[field_of(name)]
    }
    for name, column in changed.items():
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, column)
        else:
            table = table.append_column(name, column)
    return table.select(list(columns))


def _column(table: pa.Table, name: str, old: Schema, new: Schema) -> pa.ChunkedArray:
    field = field_of(name)
    kind = parse_type(new.fields[field], field)
    if field in old.fields:
        column = table[name]
    else:
        column = pa.chunked_array([pa.nulls(table.num_rows, ARROW[kind.name])])
    if kind.name == "enum":
        return as_enum(column, kind.variants)
    return column.cast(ARROW[kind.name], safe=False)  # a large number is rounded, as in JSON
