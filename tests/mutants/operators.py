"""Operators: the ways in which a mutant changes a function.

An operator names the statement that it changes by kind and number and by its shape, and a part of
the statement by kind and number (``nodes.py``). It contains no name of the source unless the new
code needs one that is not in the function.

    Force("If 2", "if _ >= _:", False)                        the 2nd if is never taken
    Remove("Expr 3", "_[-1]._()")                             the statement becomes pass
    Drop("If 1", "if _ and _(_):", "Call 1")                  if _:
    Set("For 1", "for _ in _(2):", "Constant 1", 0)           for _ in _(0):
    Use("Return 1", "return _ - _(_)", "BinOp 1", "Name 1")   return _
    Swap("Return 1", "return _ >= _", "Compare 1", ">")       return _ > _
    Replace("Return 1", "return _", "Name 1", "{it} + 1")     return _ + 1

``target.py`` lists the placeholders of texts. When a text refers to other statements, ``others``
has the shape of each, in the order of the text. ``names`` has names that the new code needs and
the function does not contain, as ``module:qualname`` below ``strandline``.

``apply`` raises ``Misfit`` when a target does not exist or a statement has another shape. The
message lists the statements of the function: choose the label and the shape of the right one.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Protocol

from tests.mutants.nodes import Slot, parts
from tests.mutants.target import Target, mentioned


class Operator(Protocol):
    """A change to a function."""

    def apply(self, function: ast.FunctionDef) -> None:
        """Change the function in place."""


@dataclass(frozen=True)
class _Single:
    """A change to one statement."""

    statement: str
    shape: str
    others: tuple[str, ...] = field(default=(), kw_only=True)
    names: tuple[str, ...] = field(default=(), kw_only=True)

    def apply(self, function: ast.FunctionDef) -> None:
        self.change(self.target(function))

    def target(self, function: ast.FunctionDef) -> Target:
        """The statement to change. Checks its shape, and those of the others."""
        text = " ".join(getattr(self, each, "") for each in ("text", "other", "before"))
        labels = [each for each in mentioned(text) if each != self.statement]
        shape_of = dict(zip_longest(labels, self.others, fillvalue=""))
        return Target.find(function, {self.statement: self.shape, **shape_of}, self.names)

    def change(self, target: Target) -> None:
        """Change the statement in place."""
        raise NotImplementedError


class All:
    """Several changes to one function. Statements have the numbers from before the first change."""

    def __init__(self, *changes: _Single) -> None:
        self.changes = changes

    def apply(self, function: ast.FunctionDef) -> None:
        found = [(each, each.target(function)) for each in self.changes]
        for each, target in found:
            each.change(target)


@dataclass(frozen=True)
class Remove(_Single):
    """A statement becomes ``pass``."""

    def change(self, target: Target) -> None:
        target.slot.put(ast.Pass())


@dataclass(frozen=True)
class Force(_Single):
    """The condition of an ``if`` or ``while`` is always true, or always false."""

    value: bool

    def change(self, target: Target) -> None:
        target.slot.node.test = ast.Constant(self.value)


@dataclass(frozen=True)
class Negate(_Single):
    """A condition is true when it was false: that of an ``if`` or ``while``, or a part."""

    part: str = ""

    def change(self, target: Target) -> None:
        node = target.slot.node
        slot = target.part(self.part) if self.part else Slot(node, "test", node.test)
        slot.put(ast.UnaryOp(ast.Not(), slot.node))


@dataclass(frozen=True)
class Drop(_Single):
    """A part is left out: an operand of and/or, an argument, an element, a filter.

    ``count`` includes parts that follow it in the same list.
    """

    part: str
    count: int = 1

    def change(self, target: Target) -> None:
        slot = target.part(self.part)
        slot.put(count=self.count)
        if isinstance(slot.parent, ast.BoolOp) and len(slot.parent.values) == 1:
            whole = next(
                each for each in parts(target.slot.node).values() if each.node is slot.parent
            )
            whole.put(*slot.parent.values)


@dataclass(frozen=True)
class Set(_Single):
    """A part becomes a constant or an empty collection."""

    part: str
    value: object

    def change(self, target: Target) -> None:
        target.part(self.part).put(_expression(repr(self.value)))


@dataclass(frozen=True)
class Use(_Single):
    """Another expression of the function, often a part of the part, stands in its place."""

    part: str
    other: str

    def change(self, target: Target) -> None:
        text = target.text(self.other)
        target.part(self.part).put(_expression(text))


@dataclass(frozen=True)
class Swap(_Single):
    """A comparison, an arithmetic operation, or and/or has another operator."""

    part: str
    operator: str

    def change(self, target: Target) -> None:
        node = target.part(self.part).node
        like = _expression(f"_ {self.operator} _")
        if isinstance(node, ast.Compare):
            node.ops = like.ops
        else:
            node.op = like.op


@dataclass(frozen=True)
class Replace(_Single):
    """A part becomes a text. For what no other operator can do."""

    part: str
    text: str

    def change(self, target: Target) -> None:
        slot = target.part(self.part)
        slot.put(_expression(target.filled(self.text, slot.node)))


@dataclass(frozen=True)
class Rewrite(_Single):
    """A statement becomes a text. For what no other operator can do."""

    text: str

    def change(self, target: Target) -> None:
        text = target.filled(self.text, target.slot.node)
        target.slot.put(*ast.parse(text).body)


class Leave(Rewrite):
    """A statement becomes one that leaves the function or the loop, such as ``return True``."""


@dataclass(frozen=True)
class Insert(_Single):
    """A text stands before a statement."""

    text: str

    def change(self, target: Target) -> None:
        text = target.filled(self.text, target.slot.node)
        target.slot.put(*ast.parse(text).body, target.slot.node)


@dataclass(frozen=True)
class Move(_Single):
    """A statement is executed before another one."""

    before: str

    def change(self, target: Target) -> None:
        other = target.statement(self.before)
        target.slot.put()
        other.put(target.slot.node, other.node)


@dataclass(frozen=True)
class Once(_Single):
    """A ``while`` becomes an ``if``."""

    def change(self, target: Target) -> None:
        loop = target.slot.node
        target.slot.put(ast.If(loop.test, loop.body, loop.orelse))


@dataclass(frozen=True)
class Unwrap(_Single):
    """The block of a ``with`` is executed without it."""

    def change(self, target: Target) -> None:
        target.slot.put(ast.If(ast.Constant(value=True), target.slot.node.body, []))


def _expression(text: str) -> ast.AST:
    return ast.parse(text, mode="eval").body
