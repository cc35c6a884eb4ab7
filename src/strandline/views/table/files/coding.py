"""Text in memory: plain, or as numbers with a dictionary. Pure.

A file has its text either way, by how often values repeat in it. Tables that are asked together
have each column in one way: with dictionaries if all have them.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

CODED = pa.dictionary(pa.int32(), pa.string())


def with_coding(table: pa.Table, coded: Collection[str]) -> pa.Table:
    """The same rows, and text with dictionaries in these columns alone."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            if field.name not in coded:
                table = _with(table, place, field.with_type(field.type.value_type))
        elif field.name in coded and pa.types.is_string(field.type):
            column = pc.dictionary_encode(table.column(place))
            table = table.set_column(place, field.with_type(CODED), column)
    return table


def _with(table: pa.Table, place: int, field: pa.Field) -> pa.Table:
    return table.set_column(place, field, table.column(place).cast(field.type))
