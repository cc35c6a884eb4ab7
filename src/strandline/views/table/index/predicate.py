"""Converts conditions on one field to the tests that indexes evaluate. Pure.

A leaf of a condition, negated or not, becomes a field test: a test of the present values, and
whether a null passes, too. A comparison with a null is false, so ``NOT x < 5`` is ``x >= 5`` or
null. Indexes evaluate only the tests of values; the min_max index counts nulls.

Values become keys, which have the order of the values and compare with those in the indexes:

    u64, i64, bool, datetime, date    int; bounds are closed, and inside the field's range
    f64                               float, never -0.0
    string, enum                      UTF-8: its order is that of the code points

The file may be older than the schema that the condition was bound to. Then a literal is a float and
the file has integers, or a datetime and the file has dates, and the test is converted to the kind
in the file. A literal that cannot be converted exactly yields no test: it excludes no zone.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from strandline.schema import FieldType, FieldTypeName
from strandline.views.table.condition import Compare, In, Leaf, Operator, Truth, Value

Key: TypeAlias = int | float | bytes

DAY_US = 86_400_000_000

INTEGERS: dict[FieldTypeName, tuple[int, int]] = {
    "u64": (0, 2**64 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "bool": (0, 1),
    "datetime": (-(2**63), 2**63 - 1),
    "date": (-(2**31), 2**31 - 1),
}
"""The ranges of integer kinds."""

TEXTS = ("string", "enum")

_FLOAT_EXACT = 2**53
_OPPOSITE: dict[Operator, Operator] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class OneOf(NamedTuple):
    """True for a value that is one of these, which are sorted."""

    values: tuple[Key, ...]


class NoneOf(NamedTuple):
    """True for a value, not null, that is none of these."""

    values: tuple[Key, ...]


class Between(NamedTuple):
    """True for a value between two bounds; None is unbounded."""

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False


Test: TypeAlias = OneOf | NoneOf | Between


class FieldTest(NamedTuple):
    """A test of a field."""

    test: Test
    null: bool
    """Whether a null passes."""


class _InexactLiteral(Exception):
    """The literal has no exact form for the stored kind. Never raised out of this module."""


def field_test_of(
    leaf: Leaf, stored: FieldType, bound: FieldType, *, negated: bool
) -> FieldTest | None:
    """The test of a field of the stored kind for a leaf that is bound to the ``bound`` kind. None
    without an exact test: then every zone may hold a row that passes."""
    try:
        match leaf:
            case Truth():
                return _membership_test((True,), stored, bound, negated=negated)
            case In(values=values):
                return _membership_test(values, stored, bound, negated=negated)
            case Compare(op="=", value=value):
                return _membership_test((value,), stored, bound, negated=negated)
            case Compare(op="!=", value=value):
                return _membership_test((value,), stored, bound, negated=not negated)
            case Compare(op=op, value=value):
                side = _OPPOSITE[op] if negated else op
                return FieldTest(_range_test(side, _literal(value, bound), stored, bound), negated)
    except _InexactLiteral:
        return None


def intersection(one: Between, other: Between) -> Between:
    """The values in both ranges."""
    low, low_open = _tighter((one.low, one.low_open), (other.low, other.low_open), upward=True)
    high, high_open = _tighter(
        (one.high, one.high_open), (other.high, other.high_open), upward=False
    )
    return Between(low, high, low_open, high_open)


def _tighter(
    one: tuple[Key | None, bool], other: tuple[Key | None, bool], *, upward: bool
) -> tuple[Key | None, bool]:
    """The tighter of two bounds, each with whether it is open."""
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    # Keys of one field have one type, which the annotations cannot express.
    is_above = one[0] > other[0]  # type: ignore[operator]
    return one if is_above is upward else other


def _membership_test(
    values: tuple[Value, ...], stored: FieldType, bound: FieldType, *, negated: bool
) -> FieldTest:
    literals = [_literal(value, bound) for value in values if value is not None]
    keys = [key for value in literals if (key := _stored_key(value, stored, bound)) is not None]
    has_null = None in values
    test = (NoneOf if negated else OneOf)(tuple(sorted(set(keys))))
    return FieldTest(test, has_null is not negated)


def _literal(value: Value, bound: FieldType) -> Key:
    """A literal as a key of the kind that it is bound to."""
    name = bound.name
    if name in TEXTS and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise _InexactLiteral from None
    if name == "bool" and isinstance(value, bool):
        return int(value)
    if isinstance(value, (bool, str)) or value is None:
        raise _InexactLiteral
    if name == "f64" and abs(value) < 2**1023 and float(value) == value:
        return float(value) + 0.0
    if name in INTEGERS and name != "bool" and isinstance(value, int):
        return value
    raise _InexactLiteral


def _stored_key(value: Key, stored: FieldType, bound: FieldType) -> Key | None:
    """The stored key that equals a value, or None if there is none."""
    if stored.name == bound.name or _is_text(stored, bound):
        least, most = INTEGERS.get(stored.name, (value, value))
        is_inside = not isinstance(value, int) or least <= value <= most  # type: ignore[operator]  # both are int
        return value if is_inside else None
    if isinstance(value, bytes):
        raise _InexactLiteral
    low, high = _neighbours(value, stored, bound)
    return _stored_key(low, stored, stored) if low == high else None


def _range_test(op: Operator, value: Key, stored: FieldType, bound: FieldType) -> Test:
    """The stored keys on one side of a value."""
    if stored.name == bound.name or _is_text(stored, bound):
        if stored.name not in INTEGERS:
            if op in ("<", "<="):
                return Between(high=value, high_open=op == "<")
            return Between(low=value, low_open=op == ">")
        below = above = value
    elif isinstance(value, bytes):
        raise _InexactLiteral
    else:
        below, above = _neighbours(value, stored, bound)
    assert isinstance(below, int)
    assert isinstance(above, int)
    return _within_range(_closed_bounds(op, below, above), *INTEGERS[stored.name])


def _closed_bounds(op: Operator, below: int, above: int) -> tuple[int | None, int | None]:
    """Closed bounds of the integers on one side of a value, which is between two neighbours or
    equal to both."""
    match op:
        case "<":
            return None, above - 1
        case "<=":
            return None, below
        case ">":
            return below + 1, None
        case _:
            return above, None


def _within_range(bounds: tuple[int | None, int | None], least: int, most: int) -> Test:
    low, high = bounds
    if (low is not None and low > most) or (high is not None and high < least):
        return OneOf(())
    return Between(
        None if low is None or low <= least else low,
        None if high is None or high >= most else high,
    )


def _neighbours(value: int | float, stored: FieldType, bound: FieldType) -> tuple[int, int]:
    """The stored integers next to a value of a wider kind: the last that is not above it, and the
    first that is not below it."""
    if stored.name == "date" and bound.name == "datetime":
        return int(value // DAY_US), int(-(-value // DAY_US))
    if stored.name in ("i64", "u64") and bound.name == "f64" and abs(value) < _FLOAT_EXACT:
        return math.floor(value), math.ceil(value)
    raise _InexactLiteral


def _is_text(*kinds: FieldType) -> bool:
    return all(kind.name in TEXTS for kind in kinds)
