"""Flattens records that are JSON objects into columns, the same for all files. Pure.

    all values are          the column is
    true, false             boolean
    whole numbers           64-bit integer
    numbers                 double
    text                    text
    anything else           text: the JSON of the value

Null and missing are both null. A field that has the name of a column of the record gets the prefix
``data_``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.errors import Invalid

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)
_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
_INT_MAX = 2**63

Kinds = dict[str, str]
"""The kind of the values of each field: null, bool, int, float, text or json."""


class FlattenedField(msgspec.Struct, frozen=True):
    """A field and the column that it becomes."""

    field: str
    column: str
    kind: str

    @property
    def type(self) -> pa.DataType:
        return _TYPES.get(self.kind, pa.string())


def add_kinds(kinds: Kinds, seqs: Sequence[int], data: Sequence[bytes]) -> None:
    """Add the kinds of the fields of some records."""
    for seq, text in zip(seqs, data, strict=True):
        for name, raw in fields_of(seq, text).items():
            kinds[name] = common_kind(kinds.get(name, "null"), _kind(bytes(raw)))


def common_kind(one: str, other: str) -> str:
    """The kind of a field with values of two kinds."""
    if other in (one, "null"):
        return one
    if one == "null":
        return other
    return "float" if {one, other} == {"int", "float"} else "json"


def merge_kinds(parts: Iterable[Kinds]) -> Kinds:
    kinds: Kinds = {}
    for item in parts:
        for name, kind in item.items():
            kinds[name] = common_kind(kinds.get(name, "null"), kind)
    return kinds


def columns_of(kinds: Kinds, existing: Collection[str]) -> list[FlattenedField]:
    """The columns for fields, with names that differ from the existing ones."""
    names = set(existing)
    columns = []
    for field, kind in kinds.items():
        column = field
        while column in names or (column != field and column in kinds):
            column = f"data_{column}"
        names.add(column)
        columns.append(FlattenedField(field, column, kind))
    return columns


def arrays_of(
    expanded: Sequence[FlattenedField], seqs: Sequence[int], data: Sequence[bytes]
) -> list[pa.Array]:
    """The fields of some records as columns."""
    rows = [fields_of(seq, text) for seq, text in zip(seqs, data, strict=True)]
    return [
        pa.array([_value(row.get(item.field), item.kind) for row in rows], item.type)
        for item in expanded
    ]


def fields_of(seq: int, data: bytes) -> dict[str, msgspec.Raw]:
    try:
        data.decode()
        return _fields.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(
            f"record {seq} is not a JSON object ({error}): export data as text or binary"
        ) from None


def _kind(raw: bytes) -> str:
    first = raw[:1]
    if first == b'"':
        return "text"
    if first in (b"t", b"f"):
        return "bool"
    if first == b"n":
        return "null"
    if first in (b"{", b"["):
        return "json"
    if raw.lstrip(b"-").isdigit():
        return "int" if -_INT_MAX <= int(raw) < _INT_MAX else "json"
    return "float"


def _value(raw: msgspec.Raw | None, kind: str) -> Any:
    if raw is None or (text := bytes(raw)) == b"null":
        return None
    if kind == "text":
        return _text.decode(text)
    if kind == "bool":
        return text == b"true"
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    return msgspec.json.format(text, indent=-1).decode()
