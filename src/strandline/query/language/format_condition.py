"""Formats bound conditions as the text of a WHERE clause. Pure."""

from __future__ import annotations

import msgspec

from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth, Value


def format_condition(condition: Condition) -> str:
    match condition:
        case Not(of):
            return f"NOT {_inner(of)}"
        case And(of):
            return " AND ".join(map(_inner, of))
        case Or(of):
            return " OR ".join(map(_inner, of))
        case In(field, values, event):
            return f"{_field(field, event)} IN ({', '.join(map(_value, values))})"
        case Truth(field, event):
            return _field(field, event)
        case Compare(field, op, value, event):
            return f"{_field(field, event)} {op} {_value(value)}"


def _inner(condition: Condition) -> str:
    text = format_condition(condition)
    return f"({text})" if isinstance(condition, And | Or) else text


def _field(field: str, event: str) -> str:
    return f"{event}.{field}" if event else field


def _value(value: Value) -> str:
    return msgspec.json.encode(value).decode()
