"""Literals of a condition -> values of their field's type. Pure.

    string            text only: a number that is text is written in quotes
    enum              one of the variants, in their case; only = != IN, an enum has no order
    bool              true, false; only = != IN
    u64, i64          a whole number in the range, 1.0 too. ``n > 1.5`` is ``n >= 2`` and so on;
                      ``n = 1.5`` is never true, and is rejected
    f64               a number, rounded to the nearest f64
    datetime          a time in a form of times.py
    date              the UTC day of a time, as in events
    all               null with = and !=, and in IN

A comparison that can never be true is an error, not false: it is almost always an oversight.
"""

from __future__ import annotations

import math
from typing import assert_never

from strandline.errors import Invalid
from strandline.query.language import times
from strandline.query.language.errors import join_words, nearest_word
from strandline.schema import FieldType
from strandline.views.table.condition import (
    Compare,
    Condition,
    In,
    Leaf,
    Operator,
    Or,
    Truth,
    Value,
)

ORDERED = frozenset({"string", "u64", "i64", "f64", "datetime", "date"})
NUMBERS = frozenset({"u64", "i64", "f64"})

_RANGES = {"u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1)}
_INCLUSIVE: dict[str, Operator] = {">": ">=", ">=": ">=", "<": "<=", "<=": "<="}


class LiteralTypeError(Exception):
    """A literal or an operator does not fit the type of its field."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def bind_leaf(leaf: Leaf, field: str, kind: FieldType, event: str = "") -> Condition:
    """A comparison with values of the field's type; its place in the text is dropped."""
    match leaf:
        case Truth():
            if kind.name != "bool":
                raise LiteralTypeError(f"{field} is {kind}, not bool", f"compare it: {field} = ...")
            return Truth(field, event)
        case In(values=values):
            known = tuple(_value(each, field, kind) for each in values if each is not None)
            among = In(field, known, event) if known else None
            if None not in values:
                assert among is not None
                return among
            is_null = Compare(field, "=", None, event)
            return is_null if among is None else Or((among, is_null))
        case Compare(op=op, value=value):
            return _comparison(op, value, field, kind, event)
        case _:
            assert_never(leaf)


def _comparison(op: Operator, value: Value, field: str, kind: FieldType, event: str) -> Compare:
    if op in ("=", "!="):
        return Compare(field, op, None if value is None else _value(value, field, kind), event)
    if kind.name not in ORDERED:
        raise LiteralTypeError(f"{field} is {kind}, which has no order", "use =, != or IN")
    if value is None:
        raise LiteralTypeError("null has no order", "use = null or != null")
    if kind.name in _RANGES and type(value) is float and not value.is_integer():
        # Between two whole numbers: compare with the next one on that side, inclusive.
        nearest = math.ceil(value) if op.startswith(">") else math.floor(value)
        return Compare(field, _INCLUSIVE[op], _whole(nearest, field, kind), event)
    return Compare(field, op, _value(value, field, kind), event)


def _value(value: Value, field: str, kind: FieldType) -> Value:
    match kind.name:
        case "string":
            return _text(value, field, kind)
        case "enum":
            return _variant(_text(value, field, kind), field, kind)
        case "bool":
            if type(value) is not bool:
                raise _wrong_type(value, field, kind, "write true or false")
            return value
        case "u64" | "i64":
            return _whole(value, field, kind)
        case "f64":
            return _number(value, field, kind)
        case "datetime" | "date":
            return _time(value, field, kind)
        case _:
            assert_never(kind.name)


def _text(value: Value, field: str, kind: FieldType) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, field, kind, f'write "{_literal(value)}"')
    return value


def _variant(text: str, field: str, kind: FieldType) -> str:
    if text in kind.variants:
        return text
    nearest = nearest_word(text, kind.variants)
    hint = f"did you mean {nearest!r}? " if nearest else ""
    raise LiteralTypeError(
        f"{text!r} is not a value of {field}", f"{hint}it is {join_words(kind.variants)}"
    )


def _whole(value: Value, field: str, kind: FieldType) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is float:
        raise LiteralTypeError(
            f"{field} is {kind}, which cannot be {value}", "it holds whole numbers"
        )
    if type(value) is not int:
        raise _wrong_type(value, field, kind, _without_quotes(value))
    least, most = _RANGES[kind.name]
    if not least <= value <= most:
        raise LiteralTypeError(
            f"{field} is {kind}, which cannot be {value}", f"it ranges from {least} to {most}"
        )
    return value


def _number(value: Value, field: str, kind: FieldType) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(value, field, kind, _without_quotes(value))
    try:
        return float(value)
    except OverflowError as error:
        raise LiteralTypeError(f"{field} is {kind}, and the number is out of its range") from error


def _time(value: Value, field: str, kind: FieldType) -> int:
    if value is None or isinstance(value, bool):
        raise _wrong_type(value, field, kind, "")
    try:
        return times.parse_day(value) if kind.name == "date" else times.parse_time(value)
    except Invalid as error:
        raise LiteralTypeError(f"{field} is {kind}: {error}") from error


def _wrong_type(value: Value, field: str, kind: FieldType, hint: str) -> LiteralTypeError:
    is_text = isinstance(value, str)
    found = f"text: {value!r}" if is_text else f"a bool: {_literal(value)}"
    if not is_text and not isinstance(value, bool):
        found = f"a number: {value}"
    return LiteralTypeError(f"{field} is {kind}, not {found}", hint)


def _literal(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_quotes(value: Value) -> str:
    try:
        float(value) if isinstance(value, str) else None
    except ValueError:
        return ""
    return f"write {value} without quotes" if isinstance(value, str) else ""
