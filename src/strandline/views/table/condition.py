"""Conditions on the rows of a table, as values. Pure.

There are two truth values. A comparison with a missing value is false, ``!=`` is the opposite of
``=`` and so true, and NOT turns every answer around: no row is in neither half.

Once a condition is bound to a schema its literals have the type of their field:

    string, enum    str                     bool        bool
    u64, i64        int                     datetime    int, microseconds since 1970 in UTC
    f64             float                   date        int, days since 1970
    missing         None, with = and != alone

The columns that every table has can be asked, too: ``seq`` (int), ``ts`` (microseconds) and
``context`` (str).

Conditions go on the log, with what was deleted by them: fields are never renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import msgspec

Value: TypeAlias = str | int | float | bool | None
Operator = Literal["=", "!=", "<", "<=", ">", ">="]


class Compare(msgspec.Struct, frozen=True, tag="compare", omit_defaults=True):
    """A field beside a literal."""

    field: str
    op: Operator
    value: Value
    event: str = ""
    """The event that the field was said to be of, in a sequence."""
    at: int = -1
    """Where it begins in the text of the command; -1 once it is bound."""


class In(msgspec.Struct, frozen=True, tag="in", omit_defaults=True):
    """The field has one of these values."""

    field: str
    values: tuple[Value, ...]
    event: str = ""
    at: int = -1


class Truth(msgspec.Struct, frozen=True, tag="truth", omit_defaults=True):
    """A bool field by itself: it is true."""

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
    """The comparisons in it, from left to right."""
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
    """The fields that it asks."""
    return {leaf.field for leaf in leaves(condition)}


def with_fields(condition: Condition, name_of: Callable[[str], str]) -> Condition:
    """The same, with other names for the fields."""
    match condition:
        case Not(of):
            return Not(with_fields(of, name_of))
        case And(of):
            return And(tuple(with_fields(part, name_of) for part in of))
        case Or(of):
            return Or(tuple(with_fields(part, name_of) for part in of))
        case leaf:
            return msgspec.structs.replace(leaf, field=name_of(leaf.field))


def both(*conditions: Condition | None) -> Condition | None:
    """All of these at once; None asks nothing."""
    parts: list[Condition] = []
    for condition in conditions:
        parts += condition.of if isinstance(condition, And) else [condition] if condition else []
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def either(*conditions: Condition | None) -> Condition | None:
    """At least one of these; None asks nothing, and so does the whole."""
    parts = [*dict.fromkeys(conditions)]
    if None in parts or len(parts) == 1:
        return None if None in parts else parts[0]
    return Or(tuple(part for part in parts if part is not None))


def encode(condition: Condition) -> bytes:
    return msgspec.json.encode(condition)


def decode(data: bytes) -> Condition:
    found: Condition = _DECODER.decode(data)
    return found
