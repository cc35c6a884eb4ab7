"""Conditions as SQL with two truth values. Pure.

SQL has three: a comparison with NULL is neither true nor false, and so is its NOT. Here NOT is
pushed down to the comparisons first. The result are comparisons joined by AND and OR alone, where
"unknown" and "false" of a comparison select the same rows; only a comparison that must hold for
missing values includes them explicitly. Columns that are never null get plain comparisons, which
engines can evaluate from statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from strandline.query.plan.sql_dialect import Dialect, literal
from strandline.schema import FieldType
from strandline.views.table.condition import (
    And,
    Compare,
    Condition,
    In,
    Leaf,
    Not,
    Operator,
    Or,
    Truth,
    Value,
)


class Operand(NamedTuple):
    """The column of a comparison."""

    column: exp.Expression
    kind: FieldType
    is_number: bool = False
    """Whether it has the indexes of an enum's variants instead of their text."""


Find = Callable[[Leaf], Operand]

_NODES: dict[Operator, type[exp.Expression]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_OPPOSITE: dict[Operator, Operator] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}


def predicate(condition: Condition, find: Find, dialect: Dialect) -> exp.Expression:
    """A condition for WHERE: it selects the rows that fulfil it, and no others."""
    return _Writer(find, dialect).write(condition, truth=True)


class _Writer(NamedTuple):
    find: Find
    dialect: Dialect

    def write(self, condition: Condition, *, truth: bool) -> exp.Expression:
        match condition:
            case Not(of):
                return self.write(of, truth=not truth)
            case And(of) | Or(of):
                parts = [self.write(part, truth=truth) for part in of]
                together = isinstance(condition, And) is truth
                return _joined(parts, together=together)
            case Compare():
                return self._compare(condition, truth=truth)
            case In():
                return self._among(condition, truth=truth)
            case Truth():
                return self._truth(condition, truth=truth)

    def _compare(self, leaf: Compare, *, truth: bool) -> exp.Expression:
        operand = self.find(leaf)
        op = leaf.op if truth else _OPPOSITE[leaf.op]
        if leaf.value is None:
            return _missing(operand) if op == "=" else _present(operand)
        test = self._compared(operand, op, leaf.value)
        # != holds for missing values, and so does every negated comparison except !=.
        missing_too = (leaf.op == "!=") is truth
        return _or_missing(test, operand) if missing_too else test

    def _compared(self, operand: Operand, op: Operator, value: Value) -> exp.Expression:
        if not operand.is_number:
            return _NODES[op](this=operand.column, expression=self._literal(value, operand))
        assert op in ("=", "!="), "variants have no order"
        same = op == "="
        variants = enumerate(operand.kind.variants)
        return _one_of(operand, [at for at, each in variants if (each == value) is same])

    def _among(self, leaf: In, *, truth: bool) -> exp.Expression:
        operand = self.find(leaf)
        if operand.is_number:
            return self._numbers_among(leaf, operand, truth=truth)
        values = [self._literal(value, operand) for value in leaf.values if value is not None]
        with_missing = None in leaf.values
        if not values:
            test = _missing(operand) if with_missing else exp.false()
            return test if truth else exp.not_(test)
        test = exp.In(this=operand.column, expressions=values)
        if not truth:
            test = exp.not_(test)
            return test if with_missing else _or_missing(test, operand)
        return _or_missing(test, operand) if with_missing else test

    def _numbers_among(self, leaf: In, operand: Operand, *, truth: bool) -> exp.Expression:
        variants = enumerate(operand.kind.variants)
        test = _one_of(operand, [at for at, each in variants if (each in leaf.values) is truth])
        with_missing = (None in leaf.values) is truth
        return _or_missing(test, operand) if with_missing else test

    def _truth(self, leaf: Truth, *, truth: bool) -> exp.Expression:
        operand = self.find(leaf)
        return operand.column if truth else _or_missing(exp.not_(operand.column), operand)

    def _literal(self, value: Value, operand: Operand) -> exp.Expression:
        return literal(value, operand.kind, self.dialect)


def _one_of(operand: Operand, places: list[int]) -> exp.Expression:
    """Whether the number of an enum is one of these."""
    numbers: list[exp.Expression] = [exp.Literal.number(place) for place in places]
    if len(numbers) < 2:
        return exp.EQ(this=operand.column, expression=numbers[0]) if numbers else exp.false()
    return exp.In(this=operand.column, expressions=numbers)


def _joined(parts: list[exp.Expression], *, together: bool) -> exp.Expression:
    """A balanced tree: engines limit the depth of an expression."""
    if not parts:
        return exp.true() if together else exp.false()
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    halves = [_joined(half, together=together) for half in (parts[:middle], parts[middle:])]
    joined = exp.and_(*halves, copy=False) if together else exp.or_(*halves, copy=False)
    return exp.paren(joined, copy=False)


def _or_missing(test: exp.Expression, operand: Operand) -> exp.Expression:
    if not operand.kind.optional:
        return test
    return exp.paren(exp.or_(test, _missing(operand), copy=False), copy=False)


def _missing(operand: Operand) -> exp.Expression:
    if not operand.kind.optional:
        return exp.false()
    return exp.Is(this=operand.column.copy(), expression=exp.null())


def _present(operand: Operand) -> exp.Expression:
    if not operand.kind.optional:
        return exp.true()
    return exp.not_(_missing(operand))
