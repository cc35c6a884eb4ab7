"""Conditions of a command, as values. Pure.

AND and OR do not hold themselves: ``a AND (b AND c)`` is one AND of three.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token

from strandline.query.language.ast import Name
from strandline.query.language.ast_builder.tokens import Misplaced, at_of
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth

DEPTH_MAX = 64
"""Conditions within each other. Whoever works with them later may call itself for each."""


class Part(NamedTuple):
    """A condition, and how many there are within each other."""

    condition: Condition
    depth: int = 1


def truth(parts: list[Name]) -> Part:
    (name,) = parts
    return Part(Truth(name.text, name.event, name.at))


def compared(parts: list[Any]) -> Part:
    name, operator, value = parts
    if value is None and operator not in ("=", "!="):
        raise Misplaced(name.at, "null is neither less nor more", "use = null or != null")
    return Part(Compare(name.text, operator.value, value, name.event, name.at))


def one_of(parts: list[Any]) -> Part:
    name, _, *values = parts
    return Part(In(name.text, tuple(values), name.event, name.at))


def inner(parts: list[Part]) -> Part:
    return parts[0]


def negated(parts: list[Any]) -> Part:
    token, part = parts
    return _deeper(Not(part.condition), part.depth, token)


def all_of(parts: list[Any]) -> Part:
    flat, depth = _flat(parts[::2], And)
    return _deeper(And(flat), depth, parts[1])


def either(parts: list[Any]) -> Part:
    flat, depth = _flat(parts[::2], Or)
    return _deeper(Or(flat), depth, parts[1])


def _flat(parts: list[Part], kind: type[And | Or]) -> tuple[tuple[Condition, ...], int]:
    """All conditions side by side, and the depth of the deepest."""
    found: list[Condition] = []
    deepest = 0
    for condition, depth in parts:
        if isinstance(condition, kind):
            found += condition.of
            deepest = max(deepest, depth - 1)
        else:
            found.append(condition)
            deepest = max(deepest, depth)
    return tuple(found), deepest


def _deeper(condition: Condition, depth: int, token: Token) -> Part:
    if depth >= DEPTH_MAX:
        raise Misplaced(at_of(token), f"more than {DEPTH_MAX} conditions within each other")
    return Part(condition, depth + 1)


RULES = (truth, compared, one_of, inner, negated, all_of, either)
