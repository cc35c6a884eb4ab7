"""Encodes a row of a table as one line of JSON: the encoding that every engine uses. Pure.

Columns are in the order of the file, without spaces; a missing value is null.

    boolean, integer, text      as in JSON; integers with all digits
    float                       shortest form; NaN and infinity are null: JSON does not have them
    decimal                     text, with all its digits: "12.50"
    date, time                  text: "2026-11-16", "08:15:00.000000"
    timestamp                   text, RFC 3339 in UTC: "2026-11-16T08:15:00.123456Z"; one without a
                                time zone has no Z
    duration                    an integer in the unit of its column
    binary, fixed-size binary   text, base64
    list                        an array; struct and map: an object, keys of a map as text
    dictionary, extension       as the values in it
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid

_encode = msgspec.json.Encoder().encode
_types = pa.types
_BINARY = (
    _types.is_binary,
    _types.is_large_binary,
    _types.is_binary_view,
    _types.is_fixed_size_binary,
)
_LISTS = (
    _types.is_list,
    _types.is_large_list,
    _types.is_fixed_size_list,
    _types.is_list_view,
    _types.is_large_list_view,
)
_PLAIN = (
    _types.is_null,
    _types.is_boolean,
    _types.is_integer,
    _types.is_floating,
    _types.is_string,
    _types.is_large_string,
    _types.is_string_view,
)
_AS_TEXT = (_types.is_decimal, _types.is_date, _types.is_time)


def json_rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Each row as JSON, from values of ``json_values``."""
    if not columns:
        return []
    return [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def json_text(value: Any) -> bytes:
    """One value of ``json_values`` as JSON."""
    return _encode(value)


def json_values(array: pa.Array, name: str) -> list[Any]:
    """The values of a column, converted to types that the encoder supports."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return json_values(array.storage, name)
    if _types.is_dictionary(kind):
        return json_values(array.dictionary_decode(), name)
    if _is(kind, _PLAIN):
        return _to_list(array)
    if _is(kind, _BINARY):
        return [None if raw is None else b64encode(raw).decode() for raw in _to_list(array)]
    if _types.is_timestamp(kind):
        return _timestamps(array)
    if _is(kind, _AS_TEXT):
        return _to_list(array.cast(pa.string()))
    if _types.is_duration(kind):
        return _to_list(array.cast(pa.int64()))
    if _types.is_struct(kind):
        return _structs(array, name)
    if _types.is_map(kind):
        return _maps(array, name)
    if _is(kind, _LISTS):
        inner = json_values(array.values, name)
        return _lists(array, lambda first, stop: inner[first:stop])
    raise Invalid(f"column {name!r} has type {kind}, which has no form in JSON: choose --data")


def _is(kind: pa.DataType, tests: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _to_list(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _timestamps(array: pa.Array) -> list[Any]:
    if array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    return _to_list(pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1))


def _structs(array: pa.StructArray, name: str) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [json_values(child, name) for child in array.flatten()]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    values = [dict(zip(names, row, strict=True)) for row in rows]
    if not array.null_count:
        return list(values)
    valid_rows = _to_list(array.is_valid())
    return [row if valid else None for row, valid in zip(values, valid_rows, strict=True)]


def _maps(array: pa.MapArray, name: str) -> list[Any]:
    keys = [
        key if isinstance(key, str) else json_text(key).decode()
        for key in json_values(array.keys, name)
    ]
    items = json_values(array.items, name)
    return _lists(
        array, lambda first, stop: dict(zip(keys[first:stop], items[first:stop], strict=True))
    )


def _lists(array: pa.Array, value_of: Callable[[int, int], Any]) -> list[Any]:
    valid_rows = _to_list(array.is_valid())
    return [
        value_of(first, stop) if valid else None
        for valid, (first, stop) in zip(valid_rows, _bounds(array), strict=True)
    ]


def _bounds(array: pa.Array) -> list[tuple[int, int]]:
    """The first and the next element of each list."""
    kind = array.type
    if _types.is_fixed_size_list(kind):
        size, start = kind.list_size, array.offset
        return [(size * index, size * (index + 1)) for index in range(start, start + len(array))]
    offsets = _to_list(array.offsets)
    if _types.is_list_view(kind) or _types.is_large_list_view(kind):
        sizes = _to_list(array.sizes)
        return [(first, first + size) for first, size in zip(offsets, sizes, strict=True)]
    return list(pairwise(offsets))
