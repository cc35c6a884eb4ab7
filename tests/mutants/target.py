"""The statement that an operator changes, and text with placeholders for parts of the function.

In text, ``{Name 1}`` is a part of the changed statement, ``{it}`` what is replaced, ``{If 2}``
another statement of the function, ``{If 2: Name 1}`` a part of it, ``{arg 1}`` the first parameter
of the function, and ``{name 1}`` the last word of the first string in the operator's ``names``.
"""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass

from tests.mutants.nodes import STATEMENTS, Slot, listing, parts, shapes, statements

_PLACEHOLDER = re.compile(r"\{(it|[^{}]+ \d+)\}")
_LABEL = re.compile(r"\b(\w+) \d+")
_ATOMS = ast.Name | ast.Attribute | ast.Call | ast.Starred | ast.Constant


class Misfit(Exception):
    """The target of an operator is not in the function."""


@dataclass(frozen=True)
class Target:
    """A statement of a function."""

    function: ast.FunctionDef
    label: str
    slot: Slot
    names: tuple[str, ...]

    @classmethod
    def find(cls, function: ast.FunctionDef, shape_of: dict[str, str], names: tuple[str, ...]):
        """The first statement of ``shape_of``. All of them must have the shape that it gives."""
        found, has = statements(function), shapes(function)
        for label, shape in shape_of.items():
            if has.get(label) != shape:
                raise Misfit(
                    f"{label} has the shape {has.get(label)!r}, not {shape!r}. "
                    f"The function:\n{listing(function, [label])}"
                )
        label = next(iter(shape_of))
        return cls(function, label, found[label], names)

    def statement(self, label: str) -> Slot:
        """This or another statement."""
        return self.slot if label == self.label else statements(self.function)[label]

    def part(self, label: str, statement: str = "") -> Slot:
        """A part of this or another statement."""
        statement = statement or self.label
        found = parts(self.statement(statement).node).get(label)
        if found is None:
            raise Misfit(
                f"{statement} has no {label}. The function:\n{listing(self.function, [statement])}"
            )
        return found

    def text(self, label: str) -> str:
        """The source of what a placeholder refers to."""
        kind, _, number = label.partition(" ")
        if kind == "arg":
            return self.function.args.args[int(number) - 1].arg
        if kind == "name":
            return word_of(self.names[int(number) - 1])
        statement, _, part = label.rpartition(": ")
        if not statement and mentioned(label):
            return ast.unparse(self.statement(label).node)
        return _source(self.part(part, statement).node)

    def filled(self, text: str, it: ast.AST) -> str:
        """The text with the source of what its placeholders refer to; ``{it}`` is given."""
        return _PLACEHOLDER.sub(
            lambda found: _source(it) if found[1] == "it" else self.text(found[1]), text
        )


def mentioned(text: str) -> list[str]:
    """The labels of the statements to which a text refers, each once."""
    labels = [found[0] for found in _LABEL.finditer(text) if _is_statement(found[1])]
    return list(dict.fromkeys(labels))


def word_of(name: str) -> str:
    """The last word of ``module:qualname``, which must exist."""
    module, _, path = name.partition(":")
    found: object = importlib.import_module(f"strandline.{module}")
    for word in path.split("."):
        if not hasattr(found, word) and word not in _fields(found):
            raise Misfit(f"there is no {name}")
        found = getattr(found, word, None)
    return path.rpartition(".")[2]


def _fields(cls: object) -> set[str]:
    """The names of attributes that instances of a class may have."""
    begin = getattr(getattr(cls, "__init__", None), "__code__", None)
    return {*getattr(cls, "__annotations__", ()), *(begin.co_names if begin else ())}


def _is_statement(kind: str) -> bool:
    found = getattr(ast, kind, None)
    return isinstance(found, type) and issubclass(found, STATEMENTS)


def _source(node: ast.AST) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.expr) and not isinstance(node, _ATOMS) else text
