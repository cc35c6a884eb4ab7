"""Conditions on the rows of a table, as values. Pure.

There are two truth values. A comparison with a missing value is false, ``!=`` is the opposite of
``=`` and so true, and NOT inverts the value: every row fulfils either a condition or its NOT.

Once a condition is bound to a schema its literals have the type of their field:

    string, enum    str                     bool        bool
    u64, i64        int                     datetime    int, microseconds since 1970 in UTC
    f64             float                   date        int, days since 1970
    missing         None, only with = and !=

Conditions may also use the columns that every table has: ``seq`` (int), ``ts`` (microseconds) and
``context`` (str).

Conditions are stored in the log by deletes: fields of these structs are never renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import msgspec

Value: TypeAlias = str | int | float | bool | None
Operator = Literal["=", "!=", "<", "<=", ">", ">="]


class Compare(msgspec.Struct, frozen=True, tag="compare", omit_defaults=True):
    """A comparison of a field with a literal."""

    field: str
    op: Operator
    value: Value
    event: str = ""
    """The event that qualifies the field, in a sequence."""
    at: int = -1
    """Its offset in the text of the command; -1 once it is bound."""


class In(msgspec.Struct, frozen=True, tag="in", omit_defaults=True):
    """True when the field has one of these values."""

    field: str
    values: tuple[Value, ...]
    event: str = ""
    at: int = -1


class Truth(msgspec.Struct, frozen=True, tag="truth", omit_defaults=True):
    """A bool field by itself: true when its value is true."""

    field: str
    event: str = ""
    at: int = -1


class Not(msgspec.Struct, frozen=True, tag="not"):
    of: Condition


class And(msgspec.Struct, frozen=True, tag="and"):
    of: tuple[Condition, ...]


class Or(msgspec.Struct, frozen=True, tag="or"):
    of: tuple[Condition, ...]


Condition: TypeAlias = Compare | In | Truth | Not | And | Or

Leaf: TypeAlias = Compare | In | Truth

_DECODER = msgspec.json.Decoder(Condition)


def leaves(condition: Condition | None) -> Iterator[Leaf]:
    """The comparisons in a condition, from left to right."""
    match condition:
        case None:
            return
        case Not(of):
            yield from leaves(of)
        case And(of) | Or(of):
            for part in of:
                yield from leaves(part)
        case _:
            yield condition


def fields_of(condition: Condition | None) -> set[str]:
    """The fields that a condition compares."""
    return {leaf.field for leaf in leaves(condition)}


def with_fields(condition: Condition, name_of: Callable[[str], str]) -> Condition:
    """The same condition, with other names for the fields."""
    match condition:
        case Not(of):
            return Not(with_fields(of, name_of))
        case And(of):
            return And(tuple(with_fields(part, name_of) for part in of))
        case Or(of):
            return Or(tuple(with_fields(part, name_of) for part in of))
        case leaf:
            return msgspec.structs.replace(leaf, field=name_of(leaf.field))


def all_of(*conditions: Condition | None) -> Condition | None:
    """The conjunction of these; None means no condition."""
    parts: list[Condition] = []
    for condition in conditions:
        parts += condition.of if isinstance(condition, And) else [condition] if condition else []
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def any_of(*conditions: Condition | None) -> Condition | None:
    """The disjunction of these; None, which means no condition, if one of these is None."""
    parts = [*dict.fromkeys(conditions)]
    if None in parts or len(parts) == 1:
        return None if None in parts else parts[0]
    return Or(tuple(part for part in parts if part is not None))


def encode(condition: Condition) -> bytes:
    return msgspec.json.encode(condition)


def decode(data: bytes) -> Condition:
    condition: Condition = _DECODER.decode(data)
    return condition
