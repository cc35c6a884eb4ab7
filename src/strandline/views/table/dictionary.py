"""Text in memory: plain, or as numbers with a dictionary. Pure.

A file has its text either way, by how often values repeat in it. Tables that are asked together
have each column in one way: with dictionaries if most rows have them.

An enum always has the dictionary of its variants, in their order, so that its numbers mean the same
in all files of a version: who groups or compares may take the numbers for the text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

CODED = pa.dictionary(pa.int32(), pa.string())
VARIANT = pa.dictionary(pa.uint8(), pa.string())
"""An enum in memory: it has at most 256 variants."""


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


def as_variants(column: pa.ChunkedArray, variants: Sequence[str]) -> pa.ChunkedArray:
    """Text as an enum, in one piece."""
    dictionary = pa.array(variants, pa.string())
    if column.num_chunks == 1 and _is_of(column.chunk(0), dictionary):
        return column
    told = pa.DictionaryArray.from_arrays(places(column, variants), dictionary)
    return pa.chunked_array([told])


def places(column: pa.ChunkedArray, variants: Sequence[str]) -> pa.Array:
    """Of each value its place among the variants, in one piece; null stays null."""
    dictionary = pa.array(variants, pa.string())
    found = [_places(chunk, dictionary) for chunk in column.chunks]
    if len(found) == 1:
        return found[0]
    return pa.concat_arrays(found) if found else pa.array([], pa.uint8())


def _places(chunk: pa.Array, dictionary: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(chunk.type):
        return pc.index_in(chunk, dictionary).cast(pa.uint8())
    if chunk.dictionary.equals(dictionary):
        return chunk.indices.cast(pa.uint8())
    return pc.index_in(chunk.dictionary, dictionary).cast(pa.uint8()).take(chunk.indices)


def _is_of(chunk: pa.Array, dictionary: pa.Array) -> bool:
    return bool(chunk.type == VARIANT and chunk.dictionary.equals(dictionary))


def _with(table: pa.Table, place: int, field: pa.Field) -> pa.Table:
    return table.set_column(place, field, table.column(place).cast(field.type))
