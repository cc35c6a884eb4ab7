"""What a condition asks of one field, in the form that indexes answer. Pure.

A leaf of a condition, turned around by NOT or not, becomes a wish: a test of the values that are
there, and whether a missing value counts, too. A comparison with a missing value is false, so
``NOT x < 5`` is ``x >= 5`` or missing. Indexes answer tests alone; nulls are counted in the fence.

Values become keys, which are ordered as they are and compare with those in the indexes:

    u64, i64, bool, datetime, date    int; bounds are closed, and inside of the field's range
    f64                               float, never -0.0
    string, enum                      UTF-8: its order is that of the code points

The file may be older than the schema that the condition was bound to. Then whole numbers are asked
for floats, or days for moments, and the test is told in what the file has. What cannot be told
exactly is no wish: it rules nothing out.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from strandline.schema import Kind, KindName
from strandline.views.table.condition import Compare, In, Leaf, Operator, Truth, Value

Key: TypeAlias = int | float | bytes

DAY_US = 86_400_000_000

INTEGERS: dict[KindName, tuple[int, int]] = {
    "u64": (0, 2**64 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "bool": (0, 1),
    "datetime": (-(2**63), 2**63 - 1),
    "date": (-(2**31), 2**31 - 1),
}
"""What fields of whole numbers can hold."""

TEXTS = ("string", "enum")

_FLOAT_EXACT = 2**53
_OPPOSITE: dict[Operator, Operator] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class OneOf(NamedTuple):
    """The value is one of these, which are sorted."""

    values: tuple[Key, ...]


class NoneOf(NamedTuple):
    """The value is there, and none of these."""

    values: tuple[Key, ...]


class Between(NamedTuple):
    """The value is between two bounds; None is no bound."""

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False


Test: TypeAlias = OneOf | NoneOf | Between


class Wish(NamedTuple):
    """What is asked of a field."""

    test: Test
    null: bool
    """Whether a row without a value counts."""


class CannotTell(Exception):
    """The test has no exact form for the field. Never leaves this file."""


def wish_of(leaf: Leaf, stored: Kind, asked: Kind, *, negated: bool) -> Wish | None:
    """What a leaf asks of a field of the kind that is stored, told in the kind that it was bound
    to. None when that is not known: then every zone may hold what is asked."""
    try:
        match leaf:
            case Truth():
                return _among((True,), stored, asked, negated=negated)
            case In(values=values):
                return _among(values, stored, asked, negated=negated)
            case Compare(op="=", value=value):
                return _among((value,), stored, asked, negated=negated)
            case Compare(op="!=", value=value):
                return _among((value,), stored, asked, negated=not negated)
            case Compare(op=op, value=value):
                side = _OPPOSITE[op] if negated else op
                return Wish(_side(side, _literal(value, asked), stored, asked), negated)
    except CannotTell:
        return None


def intersection(one: Between, other: Between) -> Between:
    """What is between both bounds."""
    low, low_open = _tighter((one.low, one.low_open), (other.low, other.low_open), upward=True)
    high, high_open = _tighter(
        (one.high, one.high_open), (other.high, other.high_open), upward=False
    )
    return Between(low, high, low_open, high_open)


def _tighter(
    one: tuple[Key | None, bool], other: tuple[Key | None, bool], *, upward: bool
) -> tuple[Key | None, bool]:
    """Of two bounds, each with whether it is open, the one that leaves less."""
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    # Keys of one field are of one type, which no annotation says.
    is_above = one[0] > other[0]  # type: ignore[operator]
    return one if is_above is upward else other


def _among(values: tuple[Value, ...], stored: Kind, asked: Kind, *, negated: bool) -> Wish:
    given = [_literal(value, asked) for value in values if value is not None]
    keys = [key for value in given if (key := _same(value, stored, asked)) is not None]
    asks_null = None in values
    test = (NoneOf if negated else OneOf)(tuple(sorted(set(keys))))
    return Wish(test, asks_null is not negated)


def _literal(value: Value, asked: Kind) -> Key:
    """A literal as a key of the kind that it was bound to."""
    name = asked.name
    if name in TEXTS and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise CannotTell from None
    if name == "bool" and isinstance(value, bool):
        return int(value)
    if isinstance(value, (bool, str)) or value is None:
        raise CannotTell
    if name == "f64" and abs(value) < 2**1023 and float(value) == value:
        return float(value) + 0.0
    if name in INTEGERS and name != "bool" and isinstance(value, int):
        return value
    raise CannotTell


def _same(value: Key, stored: Kind, asked: Kind) -> Key | None:
    """The one stored key that is equal to a value, or None when there is none."""
    if stored.name == asked.name or _is_text(stored, asked):
        least, most = INTEGERS.get(stored.name, (value, value))
        is_inside = not isinstance(value, int) or least <= value <= most  # type: ignore[operator]
        return value if is_inside else None
    if isinstance(value, bytes):
        raise CannotTell
    low, high = _whole(value, stored, asked)
    return _same(low, stored, stored) if low == high else None


def _side(op: Operator, value: Key, stored: Kind, asked: Kind) -> Test:
    """The stored keys on one side of a value."""
    if stored.name == asked.name or _is_text(stored, asked):
        if stored.name not in INTEGERS:
            if op in ("<", "<="):
                return Between(high=value, high_open=op == "<")
            return Between(low=value, low_open=op == ">")
        below = above = value
    elif isinstance(value, bytes):
        raise CannotTell
    else:
        below, above = _whole(value, stored, asked)
    assert isinstance(below, int)
    assert isinstance(above, int)
    return _inside(_closed(op, below, above), *INTEGERS[stored.name])


def _closed(op: Operator, below: int, above: int) -> tuple[int | None, int | None]:
    """Closed bounds of the whole numbers on one side of a value, which is between two neighbours
    or both of them."""
    match op:
        case "<":
            return None, above - 1
        case "<=":
            return None, below
        case ">":
            return below + 1, None
        case _:
            return above, None


def _inside(bounds: tuple[int | None, int | None], least: int, most: int) -> Test:
    low, high = bounds
    if (low is not None and low > most) or (high is not None and high < least):
        return OneOf(())
    return Between(
        None if low is None or low <= least else low,
        None if high is None or high >= most else high,
    )


def _whole(value: int | float, stored: Kind, asked: Kind) -> tuple[int, int]:
    """The stored whole numbers next to a value of a wider kind: the last that is not above it, and
    the first that is not below it."""
    if stored.name == "date" and asked.name == "datetime":
        return int(value // DAY_US), int(-(-value // DAY_US))
    if stored.name in ("i64", "u64") and asked.name == "f64" and abs(value) < _FLOAT_EXACT:
        return math.floor(value), math.ceil(value)
    raise CannotTell


def _is_text(*kinds: Kind) -> bool:
    return all(kind.name in TEXTS for kind in kinds)
