"""Nodes of a function by kind and number, and the shape of a statement without its names.

A statement is named by the class of its node in ``ast`` and its number among the statements of
that class in the body, in the order of the text: ``If 2``, ``Expr 4``. Handlers
(``ExceptHandler 1``) and cases (``match_case 1``) count as statements; docstrings do not count.

A part is an expression of one statement, numbered in the same way: ``Call 2``. The blocks under a
compound statement are not parts of it: those of ``if a == b:`` are ``Compare 1``, ``Name 1`` and
``Name 2``. Fields are visited in the order that ``ast`` gives them (a conditional expression: the
condition, then the two results). Keyword arguments and the clauses of comprehensions are parts too.

The shape of a statement is its first line with ``_`` for every name and every chain of names
(``self.a.b``), ``''`` for every string, and ``f(...)`` for every f-string. It does not change when
something is renamed. A long shape is cut and ends in a checksum. Equal shapes of one kind are
counted: ``_(_) (2 of 3)``. So a statement that is added, removed or changed cannot move a number to
another statement in silence.
"""

from __future__ import annotations

import ast
import copy
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
PARTS = (ast.expr, ast.keyword, ast.comprehension)
SHAPE_MAX = 64
CUT = 48


class Slot(NamedTuple):
    """Where a node is: a field of its parent, or an element of a list in that field."""

    parent: ast.AST
    field: str
    node: ast.AST

    def put(self, *nodes: ast.AST, count: int = 1) -> None:
        """Store others in the place of the node, and of those that follow it up to ``count``."""
        siblings = getattr(self.parent, self.field)
        if isinstance(siblings, list):
            at = next(i for i, each in enumerate(siblings) if each is self.node)
            siblings[at : at + count] = nodes
        else:
            (node,) = nodes
            setattr(self.parent, self.field, node)


def statements(function: ast.AST) -> dict[str, Slot]:
    """Every statement in the body of a function under its label."""
    return _numbered(_statements(function))


def parts(statement: ast.AST) -> dict[str, Slot]:
    """Every expression of a statement under its label, without those of the blocks under it."""
    return _numbered(_parts(statement))


def shapes(function: ast.AST) -> dict[str, str]:
    """The shape of every statement in the body of a function under the statement's label."""
    plain = {label: _shape(slot.node) for label, slot in statements(function).items()}
    kinds = {label: (label.split()[0], shape) for label, shape in plain.items()}
    totals, seen = Counter(kinds.values()), Counter[tuple[str, str]]()
    for label, kind in kinds.items():
        seen[kind] += 1
        if totals[kind] > 1:
            plain[label] += f" ({seen[kind]} of {totals[kind]})"
    return plain


def listing(function: ast.AST, labels: Iterable[str]) -> str:
    """Every statement with its shape; for those in ``labels``, all parts and their text too."""
    lines = []
    found = statements(function)
    for label, shape in shapes(function).items():
        lines.append(f"{label:<16} {shape!r}")
        if label in labels:
            lines += [
                f"    {part:<16} {ast.unparse(slot.node)}"
                for part, slot in parts(found[label].node).items()
            ]
    return "\n".join(lines)


def _slots(node: ast.AST) -> Iterator[Slot]:
    for field, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield Slot(node, field, each)


def _statements(node: ast.AST) -> Iterator[Slot]:
    for slot in _slots(node):
        if isinstance(slot.node, STATEMENTS) and not _is_docstring(slot.node):
            yield slot
            yield from _statements(slot.node)


def _parts(node: ast.AST) -> Iterator[Slot]:
    for slot in _slots(node):
        if not isinstance(slot.node, STATEMENTS):
            if isinstance(slot.node, PARTS):
                yield slot
            yield from _parts(slot.node)


def _is_docstring(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _numbered(slots: Iterable[Slot]) -> dict[str, Slot]:
    counts: Counter[str] = Counter()
    found = {}
    for slot in slots:
        kind = type(slot.node).__name__
        counts[kind] += 1
        found[f"{kind} {counts[kind]}"] = slot
    return found


def _shape(statement: ast.AST) -> str:
    node = copy.copy(statement)
    for field, value in ast.iter_fields(statement):
        if isinstance(value, list) and any(isinstance(each, STATEMENTS) for each in value):
            setattr(node, field, [])
    text = ast.unparse(_Nameless().visit(copy.deepcopy(node))).strip()
    return text if len(text) <= SHAPE_MAX else f"{text[:CUT]}... {zlib.crc32(text.encode()):08x}"


class _Nameless(ast.NodeTransformer):
    """Puts ``_`` in the place of all names."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, str):
                setattr(node, field, "_")
            elif isinstance(value, list) and value and isinstance(value[0], str):
                setattr(node, field, ["_"] * len(value))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return node.value if isinstance(node.value, ast.Name) else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(type(node.value)()) if isinstance(node.value, str | bytes) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        values = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
        return ast.Call(ast.Name("f"), [self.visit(each) for each in values], [])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Name("_")
        return self.generic_visit(node)
