"""Decodes the filters of DuckDB's scans: comparisons of columns with values. Pure.

DuckDB passes a filter to a scan as an expression of Arrow, which the scan applies exactly
(``dataset.py``). To skip data that cannot match, a relation needs the content of the filter. An
expression has no interface to its parts; but serialized, as for pickle, it is a batch with a column
for each value, and a list of words in the metadata:

    call: 'and_kleene'            field_ref: 'seq'        literal: '0'     the column of its value
    call: 'greater'               end: 'greater'          options: '1'     the column of its options

An unknown part is ignored, so the decoded filter is never narrower than the original. If another
version of Arrow serializes differently, nothing is decoded, and scans read more than needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

_METADATA = "-- schema metadata --\n"
_COMPARISONS = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


class Comparison(NamedTuple):
    """A column compared with a value. Times are microseconds, dates are days since 1970."""

    field: str
    op: str
    """``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``; ``in``, with a tuple; ``null`` or ``valid``."""
    value: Any


class AllOf(NamedTuple):
    """All of these hold."""

    of: tuple[Where, ...]


class AnyOf(NamedTuple):
    """At least one of these holds."""

    of: tuple[Where, ...]


Where: TypeAlias = Comparison | AllOf | AnyOf


class ColumnBounds(NamedTuple):
    """The least and greatest value of a column, both included; None is no bound."""

    low: Any = None
    high: Any = None


class _Field(NamedTuple):
    name: str


class _Literal(NamedTuple):
    value: Any


class _Call(NamedTuple):
    function: str
    arguments: tuple[_Part, ...]
    options: dict[str, Any]


_Part: TypeAlias = _Field | _Literal | _Call


def read(expression: pc.Expression | None) -> Where | None:
    """The known part of a filter; None when no part is known."""
    if expression is None:
        return None
    try:
        part = _parse(expression)
    except (pa.ArrowException, LookupError, TypeError, ValueError):
        return None
    return _where(part)


def bounds(where: Where | None, field: str) -> ColumnBounds:
    """The bounds that a column has in every row that fulfils the condition."""
    low, high = None, None
    for test in _required(where):
        if test.field != field or test.op not in ("=", "<", "<=", ">", ">=", "in"):
            continue
        first = min(test.value) if test.op == "in" else test.value
        last = max(test.value) if test.op == "in" else test.value
        if type(first) is int and type(last) is int:  # of whole numbers, < and > can be <= and >=
            first, last = first + (test.op == ">"), last - (test.op == "<")
        if test.op not in ("<", "<="):
            low = first if low is None else max(low, first)
        if test.op not in (">", ">="):
            high = last if high is None else min(high, last)
    return ColumnBounds(low, high)


def values(where: Where | None, field: str) -> set[Any] | None:
    """The only values that a column can have where the condition is fulfilled; None for any."""
    possible: set[Any] | None = None
    for test in _required(where):
        if test.field == field and test.op in ("=", "in"):
            these = set(test.value) if test.op == "in" else {test.value}
            possible = these if possible is None else possible & these
    return possible


def filter_columns(expression: pc.Expression | None, schema: pa.Schema) -> list[str]:
    """The columns of a filter, and possibly others whose name occurs in its text."""
    if expression is None:
        return []
    text = str(expression)
    return [name for name in schema.names if name in text]


def encode(where: Where | None) -> Any:
    """A filter as lists, to be sent to another process."""
    match where:
        case Comparison(field, op, value):
            return [op, field, list(value) if op == "in" else value]
        case AllOf(parts) | AnyOf(parts):
            return ["every" if isinstance(where, AllOf) else "some", *map(encode, parts)]
    return None


def decode(encoded: Any) -> Where | None:
    """The filter of ``encode``; ValueError, LookupError or TypeError for other input."""
    if encoded is None:
        return None
    word, *parts = encoded
    if word in ("every", "some"):
        known = tuple(part for part in map(decode, parts) if part is not None)
        return AllOf(known) if word == "every" else AnyOf(known)
    field, value = parts
    return Comparison(str(field), str(word), tuple(value) if word == "in" else value)


def _required(where: Where | None) -> Iterator[Comparison]:
    """Comparisons that hold whenever the condition does."""
    if isinstance(where, Comparison):
        yield where
    elif isinstance(where, AllOf):
        for part in where.of:
            yield from _required(part)


def _parse(expression: pc.Expression) -> _Part:
    (stored,) = expression.__reduce__()[1]
    reader = pa.ipc.open_file(stored)
    columns = reader.get_batch(0).columns
    text = reader.schema.to_string(truncate_metadata=False).partition(_METADATA)[2]
    lines = iter(text.splitlines())
    return _part(*_word(next(lines)), lines, columns)


def _word(line: str) -> tuple[str, str]:
    kind, _, quoted = line.partition(": ")
    return kind, quoted[1:-1]


def _part(kind: str, word: str, lines: Iterator[str], columns: list[pa.Array]) -> _Part:
    if kind == "field_ref":
        return _Field(word)
    if kind == "literal":
        return _Literal(_value(columns[int(word)][0]))
    if kind != "call":
        raise ValueError(f"unknown part {kind}")
    arguments: list[_Part] = []
    options: dict[str, Any] = {}
    while True:
        next_kind, next_word = _word(next(lines, "end: ''"))
        if next_kind == "end":
            return _Call(word, tuple(arguments), options)
        if next_kind == "options":
            options = dict(columns[int(next_word)][0].items())
        else:
            arguments.append(_part(next_kind, next_word, lines, columns))


def _where(part: _Part) -> Where | None:
    match part:
        case _Call("and_kleene" | "and", (left, right)):
            return _every(_where(left), _where(right))
        case _Call("or_kleene" | "or", (left, right)):
            return _some(_where(left), _where(right))
        case _Call("if_else", (_Call("is_valid", _), chosen, _Literal(None))):
            return _where(chosen)
        case _Call("is_in", (_Field(name),), options):
            return _among(name, options)
        case _Call("is_null", (_Field(name),)):
            return Comparison(name, "null", None)
        case _Call("is_valid", (_Field(name),)):
            return Comparison(name, "valid", None)
        case _Call(function, (_Field(name), _Literal(value))):
            op = _COMPARISONS.get(function)
            return None if op is None or value is None else Comparison(name, op, value)
    return None


def _every(left: Where | None, right: Where | None) -> Where | None:
    if left is None or right is None:
        return left or right
    return AllOf((left, right))


def _some(left: Where | None, right: Where | None) -> Where | None:
    return None if left is None or right is None else AnyOf((left, right))


def _among(name: str, options: dict[str, Any]) -> Comparison | None:
    listed = tuple(map(_value, options["value_set"].values))
    return Comparison(name, "in", listed) if listed and None not in listed else None


def _value(scalar: pa.Scalar) -> Any:
    """A value as a number, text or bytes; None when it is null or of another type."""
    kind = scalar.type
    if pa.types.is_timestamp(kind):
        return scalar.value if kind.unit == "us" else None
    if pa.types.is_date32(kind):
        return scalar.value
    plain = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )
    return scalar.as_py() if plain else None
