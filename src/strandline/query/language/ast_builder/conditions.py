"""Builds the conditions of a command. Pure.

AND is never directly within AND, nor OR within OR: ``a AND (b AND c)`` is one AND of three.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token

from strandline.query.language.ast import Name
from strandline.query.language.ast_builder.tokens import TokenError, at_of
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth

DEPTH_MAX = 64
"""The maximum nesting of conditions: functions that process them are recursive."""


class _NestedCondition(NamedTuple):
    """A condition and its nesting depth."""

    condition: Condition
    depth: int = 1


def truth(parts: list[Name]) -> _NestedCondition:
    (name,) = parts
    return _NestedCondition(Truth(name.text, name.event, name.at))


def compared(parts: list[Any]) -> _NestedCondition:
    name, operator, value = parts
    if value is None and operator not in ("=", "!="):
        raise TokenError(name.at, "null has no order", "use = null or != null")
    return _NestedCondition(Compare(name.text, operator.value, value, name.event, name.at))


def one_of(parts: list[Any]) -> _NestedCondition:
    name, _, *values = parts
    return _NestedCondition(In(name.text, tuple(values), name.event, name.at))


def inner(parts: list[_NestedCondition]) -> _NestedCondition:
    return parts[0]


def negated(parts: list[Any]) -> _NestedCondition:
    token, part = parts
    return _deeper(Not(part.condition), part.depth, token)


def all_of(parts: list[Any]) -> _NestedCondition:
    flat, depth = _flat(parts[::2], And)
    return _deeper(And(flat), depth, parts[1])


def either(parts: list[Any]) -> _NestedCondition:
    flat, depth = _flat(parts[::2], Or)
    return _deeper(Or(flat), depth, parts[1])


def _flat(parts: list[_NestedCondition], kind: type[And | Or]) -> tuple[tuple[Condition, ...], int]:
    """All conditions in one list, and the largest depth."""
    flat: list[Condition] = []
    deepest = 0
    for condition, depth in parts:
        if isinstance(condition, kind):
            flat += condition.of
            deepest = max(deepest, depth - 1)
        else:
            flat.append(condition)
            deepest = max(deepest, depth)
    return tuple(flat), deepest


def _deeper(condition: Condition, depth: int, token: Token) -> _NestedCondition:
    if depth >= DEPTH_MAX:
        raise TokenError(at_of(token), f"conditions are nested more than {DEPTH_MAX} deep")
    return _NestedCondition(condition, depth + 1)


RULES = (truth, compared, one_of, inner, negated, all_of, either)
