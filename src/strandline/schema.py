"""A topic's schema: the fields of its records' data, which is a JSON object. Pure.

A schema is a map of names to types, both text, so that it goes through every encoding as it is:

    type                          also written                JSON values of this type
    string                        str, text, varchar          a string
    u64                           uint64                      a whole number from 0 to 2^64 - 1
    i64                           int64, int, integer         a whole number of 64 bits
    f64                           float, double, number       a number
    bool                          boolean                     true, false
    datetime                      timestamp                   a time, see below
    date                                                      a time, reduced to its day in UTC
    ["EUR","USD"]                                             one of these strings
    T | null                                                  as T, or null

A time is RFC 3339 text with an offset; a day, ``2026-01-02``, which is its start in UTC; a
whole number since 1970, in seconds up to 11 digits, milliseconds up to 14, microseconds up to 16
and nanoseconds up to 19; or another number, in seconds. It is cut to the microsecond, and another
number is rounded to it.

**Names.** A field is a word of any script: letters, marks, digits and ``_``, at most 128. It begins
with a letter, or with one ``_`` and a letter. No field begins with two ``_``, so such names are
free for system columns. Engines do not distinguish capital letters from small ones, so two fields
must differ by more than that (``name_key``).

A table has system columns besides the fields: ``TABLE_COLUMNS`` of an event table,
``RECORD_COLUMNS`` of the records of a topic. A field may have the name of one of them:

    in files          the system column keeps its name, and the field ``seq`` is ``__data_seq``
    in event tables   of QUERY, SQL and Spark the field keeps its name, and the system column is
                      ``__seq``; see ``shown_columns``

Whether a field may be absent (``| null``) is part of the type. Records are not checked against it
when they are appended, so it changes nothing yet.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

import msgspec

from strandline.errors import Invalid

FIELDS_MAX = 512
VARIANTS_MAX = 256
SIZE_MAX = 64 * 1024
"""Bytes of a schema as JSON: it is in every checkpoint and every full manifest."""

RECORD_COLUMNS = ("seq", "ts", "key", "tag", "node", "meta", "data")
TABLE_COLUMNS = ("seq", "ts", "context")
"""System columns, see above."""
SYSTEM_PREFIX = "__"
FIELD_PREFIX = "__data_"
NAME_MAX = 128

FieldTypeName = Literal["string", "u64", "i64", "f64", "bool", "datetime", "date", "enum"]

_KINDS: dict[str, FieldTypeName] = {
    **dict.fromkeys(("string", "str", "text", "varchar"), "string"),
    **dict.fromkeys(("u64", "uint64"), "u64"),
    **dict.fromkeys(("i64", "int64", "int", "integer"), "i64"),
    **dict.fromkeys(("f64", "float", "double", "number"), "f64"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **dict.fromkeys(("datetime", "timestamp"), "datetime"),
    "date": "date",
}
_TYPES_TEXT = 'string, u64, i64, f64, bool, datetime, date, ["a","b"], or one of them with | null'
_OR_NULL = re.compile(r"(.*?)\s*\|\s*null", re.DOTALL | re.IGNORECASE)


class FieldType(NamedTuple):
    """A parsed type."""

    name: FieldTypeName
    variants: tuple[str, ...] = ()
    """The values of an enum."""
    optional: bool = False

    def __str__(self) -> str:
        text = msgspec.json.encode(self.variants).decode() if self.variants else self.name
        return f"{text} | null" if self.optional else text


class Schema(msgspec.Struct, frozen=True):
    """The fields of a topic's data, in one version. Version 0 has none: there is no schema."""

    version: int = 0
    fields: dict[str, str] = {}

    def types(self) -> dict[str, FieldType]:
        return {name: parse_type(text, name) for name, text in self.fields.items()}

    def columns(self) -> dict[str, FieldType]:
        """The type of each column that an event table has for a field, by its name in files."""
        return {column_of(name): parse_type(text, name) for name, text in self.fields.items()}


NO_SCHEMA = Schema()


def column_of(field: str, own: Collection[str] = TABLE_COLUMNS) -> str:
    """The name of a field's column in files with these system columns."""
    return f"{FIELD_PREFIX}{field}" if name_key(field) in own else field


def field_of(column: str) -> str:
    """The field that a column of a file contains; a system column returns itself."""
    return column.removeprefix(FIELD_PREFIX)


def shown_columns(schema: Schema) -> dict[str, str]:
    """The columns of an event table in files, in their order, each with its name in results."""
    used = set(map(name_key, schema.fields))
    own = {name: f"{SYSTEM_PREFIX}{name}" if name in used else name for name in TABLE_COLUMNS}
    return own | {column_of(field): field for field in schema.fields}


@functools.lru_cache(4096)
def name_key(name: str) -> str:
    """A key that is equal for two names that an engine may treat as one: DuckDB compares
    lower-case letters, Spark both lower-case and upper-case ones, each letter by itself."""
    return "".join(map(_letter, name))


def _letter(letter: str) -> str:
    capital = letter.upper()
    return (capital if len(capital) == 1 else letter).lower()[0]


@functools.lru_cache(1024)
def parse_type(text: str, field: str) -> FieldType:
    """Parse a type; ``field`` names the field in an error."""
    optional = _OR_NULL.fullmatch(text.strip())
    base = optional[1] if optional else text.strip()
    if base.startswith("["):
        return FieldType("enum", _variants(base, field), optional is not None)
    name = _KINDS.get(base.lower())
    if name is None:
        raise Invalid(f"schema field {field!r} has no type {text!r}: types are {_TYPES_TEXT}")
    return FieldType(name, (), optional is not None)


def checked_fields(declared: object) -> dict[str, str]:
    """Check and normalize the fields of a schema: each type in its canonical spelling.

    A list of strings is an enum, too. Raises Invalid.
    """
    if not isinstance(declared, Mapping):
        raise Invalid(f"schema is a map of fields to types, not {type(declared).__name__}")
    if len(declared) > FIELDS_MAX:
        raise Invalid(f"a schema has at most {FIELDS_MAX} fields, not {len(declared)}")
    fields: dict[str, str] = {}
    known: dict[str, str] = {}
    for name, declared_type in declared.items():
        _check_name(name)
        other = known.setdefault(name_key(name), name)
        if other != name:
            raise Invalid(f"schema fields {other!r} and {name!r} differ by capital letters alone")
        fields[name] = str(parse_type(_type_text(declared_type, name), name))
    size = len(msgspec.json.encode(fields))
    if size > SIZE_MAX:
        raise Invalid(f"a schema has at most {SIZE_MAX} bytes as JSON, not {size}")
    return fields


def _check_name(name: object) -> None:
    word = name.removeprefix("_") if isinstance(name, str) else ""
    if not word.isidentifier() or word.startswith("_") or len(str(name)) > NAME_MAX:
        raise Invalid(
            f"schema field {name!r} is not a name: letters of any script, digits and _, at most "
            f"{NAME_MAX}, and not a digit or two _ in front"
        )


def _type_text(declared: object, field: str) -> str:
    if isinstance(declared, (list, tuple)) and all(isinstance(each, str) for each in declared):
        return msgspec.json.encode(declared).decode()
    if not isinstance(declared, str):
        raise Invalid(f"the type of schema field {field!r} is text: {_TYPES_TEXT}")
    return declared


def _variants(text: str, field: str) -> tuple[str, ...]:
    try:
        values = msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(f'schema field {field!r}: an enum is written ["a","b"]') from error
    if not 1 <= len(values) <= VARIANTS_MAX or len(set(values)) < len(values) or "" in values:
        raise Invalid(
            f"schema field {field!r}: an enum has 1 to {VARIANTS_MAX} strings, none of them empty "
            "or twice"
        )
    return values
