"""Text in memory: plain, or as numbers with a dictionary. Pure.

Text of a file is in either form, depending on how often values repeat. Tables that are queried
together have each column in one form: with a dictionary if most rows have one.

An enum always has the dictionary of its variants, in their order, so that its numbers mean the same
in all files of a version: grouping and comparing may use the numbers in place of the text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

DICTIONARY_TYPE = pa.dictionary(pa.int32(), pa.string())
ENUM_TYPE = pa.dictionary(pa.uint8(), pa.string())
"""An enum in memory: it has at most 256 variants."""


def with_dictionaries(table: pa.Table, coded: Collection[str]) -> pa.Table:
    """The same rows; the text of exactly these columns has dictionaries."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            if field.name not in coded:
                table = _cast_column(table, index, field.with_type(field.type.value_type))
        elif field.name in coded and pa.types.is_string(field.type):
            column = pc.dictionary_encode(table.column(index))
            table = table.set_column(index, field.with_type(DICTIONARY_TYPE), column)
    return table


def as_enum(column: pa.ChunkedArray, variants: Sequence[str]) -> pa.ChunkedArray:
    """Text as an enum, in one chunk."""
    dictionary = pa.array(variants, pa.string())
    if column.num_chunks == 1 and _has_dictionary(column.chunk(0), dictionary):
        return column
    enum = pa.DictionaryArray.from_arrays(variant_indices(column, variants), dictionary)
    return pa.chunked_array([enum])


def variant_indices(column: pa.ChunkedArray, variants: Sequence[str]) -> pa.Array:
    """The index of each value among the variants, in one chunk; null stays null."""
    dictionary = pa.array(variants, pa.string())
    arrays = [_chunk_indices(chunk, dictionary) for chunk in column.chunks]
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.uint8())


def _chunk_indices(chunk: pa.Array, dictionary: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(chunk.type):
        return pc.index_in(chunk, dictionary).cast(pa.uint8())
    if chunk.dictionary.equals(dictionary):
        return chunk.indices.cast(pa.uint8())
    return pc.index_in(chunk.dictionary, dictionary).cast(pa.uint8()).take(chunk.indices)


def _has_dictionary(chunk: pa.Array, dictionary: pa.Array) -> bool:
    return bool(chunk.type == ENUM_TYPE and chunk.dictionary.equals(dictionary))


def _cast_column(table: pa.Table, index: int, field: pa.Field) -> pa.Table:
    return table.set_column(index, field, table.column(index).cast(field.type))
