"""Checks a SQL text before it runs: it must be one query; finds the relations of the query.

The text is parsed by the parser that will run it, into a tree of JSON (``json_serialize_sql``): so
both agree on what a name or a string is. Only a SELECT has such a tree, with WITH, VALUES, set
operations and DESCRIBE. Every other statement is rejected here. So are functions that are not in
``functions.py``: they read files, the catalogue, settings, or text that is SQL itself.

Names of CTEs shadow relations exactly where they do in DuckDB. A name that is a CTE here and a
relation in DuckDB would reach the views of DuckDB's own catalogue. So names are compared as DuckDB
does it, without case for ASCII letters only; and the name of a recursive CTE is known in its
recursive part, not in the part before UNION.

Places in the tree count bytes; errors count characters.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from strandline.errors import Invalid
from strandline.query.language.errors import QueryError, did_you_mean
from strandline.query.sql.functions import FUNCTIONS, TABLE_FUNCTIONS

_NODES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
_CTE_PARTS = ("right", "child")
"""The parts of a CTE's own node in which its name is known."""
_LOWERCASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_ONE_QUERY = "write one query: a SELECT, WITH, VALUES or FROM, or a set operation of them"

Tree = dict[str, Any]


class Parser(Protocol):
    """The parser of DuckDB."""

    def tree(self, text: str) -> str | bytes: ...


class RelationName(NamedTuple):
    """The name of a relation in a text."""

    schema: str
    """Empty for a bare name."""
    name: str
    at: int
    """The place in the text, -1 when it is unknown."""


class Statement:
    """A text that may be run. Immutable."""

    def __init__(self, text: str, tree: Tree) -> None:
        self.text = text
        self._tree = tree
        self._bytes = text.encode()
        self.relations = list(self._find(tree["node"], frozenset()))

    def place_of(self, kind: str, name: str) -> int:
        """The first place of a column or function of this name, -1 when there is none."""
        for part in _parts(self._tree):
            if part.get("type") != kind and part.get("class") != kind:
                continue
            path = part.get("column_names") or [part.get("function_name", "")]
            if path[-1].lower() == name.lower():
                return self._place(part)
        return -1

    def place_of_table(self, name: str) -> int:
        """The first place of a column qualified with this relation, -1 when there is none."""
        for part in _parts(self._tree):
            path = part.get("column_names", ())
            if len(path) > 1 and path[-2].lower() == name.lower():
                return self._place(part)
        return -1

    def _find(self, part: Any, hidden: frozenset[str]) -> Iterator[RelationName]:
        """The names of relations below a part of the tree; ``hidden`` names are CTEs there."""
        if isinstance(part, list):
            for each in part:
                yield from self._find(each, hidden)
        if not isinstance(part, dict):
            return
        kind = str(part.get("type", ""))
        if kind.endswith("_NODE") and kind not in _NODES:
            raise QueryError(_ONE_QUERY, self.text, self._place(part))
        if kind == "TABLE_FUNCTION":
            self._check_table_function(part)
            yield from self._find(list(part["function"].values()), hidden)
            part = {name: below for name, below in part.items() if name != "function"}
        elif "function_name" in part:
            self._check_function(part)
        if kind == "SHOW_REF" and "query" not in part:
            raise QueryError(_ONE_QUERY, self.text, self._place(part), hint="write DESCRIBE name")
        if kind == "BASE_TABLE":
            named = self._named(part)
            if named.schema or _folded(named.name) not in hidden:
                yield named
        for cte in part.get("cte_map", {}).get("map", ()):
            yield from self._find(cte["value"], hidden)
            hidden |= {_folded(cte["key"])}
        own = {_folded(part["cte_name"])} if "cte_name" in part else frozenset()
        for name, below in part.items():
            if name != "cte_map":
                yield from self._find(below, hidden | own if name in _CTE_PARTS else hidden)

    def _named(self, part: Tree) -> RelationName:
        at = self._place(part)
        path = part["qualified_name"]["path"]
        if len(path) > 2:
            raise QueryError(
                f"{'.'.join(path)} has too many parts: a relation is a name, or kind.name",
                self.text,
                at,
                hint='quote a name with dots, as in log."eu.orders"',
            )
        return RelationName(path[0] if len(path) == 2 else "", path[-1], at)

    def _check_function(self, part: Tree) -> None:
        path = part.get("qualified_name", {}).get("path") or [part["function_name"]]
        name = str(path[-1]).lower()
        if len(path) == 1 and name == str(part["function_name"]).lower() and name in FUNCTIONS:
            return
        hint = did_you_mean(name, sorted(FUNCTIONS))
        message = f"there is no function {'.'.join(map(str, path))!r}"
        raise QueryError(message, self.text, self._place(part), hint=hint)

    def _check_table_function(self, part: Tree) -> None:
        name = str(part["function"].get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise QueryError(
                f"{name}() is not allowed in FROM: SQL reads the store only, no files and nothing "
                "outside of it",
                self.text,
                self._place(part),
                hint=f"functions that FROM allows are {', '.join(TABLE_FUNCTIONS)}",
            )

    def _place(self, part: Tree) -> int:
        return _characters(self._bytes, int(part.get("query_location", -1)))


def read(text: str, parser: Parser) -> Statement:
    """The statement of a text; raises a query error with the place of the fault."""
    if not isinstance(text, str):
        raise Invalid(f"SQL is text, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = "half of a surrogate pair is not a character"
        raise QueryError(message, text, error.start) from error
    try:
        return _statement(text, msgspec.json.decode(parser.tree(text)))
    except RecursionError:
        raise QueryError("the text is nested too deeply", text, -1) from None


def _statement(text: str, tree: Tree) -> Statement:
    if tree["error"]:
        at = _characters(text.encode(), int(tree.get("position", -1)))
        if tree["error_type"] == "parser":
            raise QueryError(str(tree["error_message"]), text, at)
        raise _rejected(text, str(tree["error_message"]))
    statements = tree["statements"]
    if len(statements) != 1:
        raise QueryError(f"the text has {len(statements)} statements: {_ONE_QUERY}", text, -1)
    return Statement(text, statements[0])


def _rejected(text: str, message: str) -> QueryError:
    if not message.startswith("Only SELECT"):
        return QueryError(message, text, -1)
    word = text.split(maxsplit=1)[0].upper() if text.strip() else ""
    if not word:
        return QueryError(f"the text is empty: {_ONE_QUERY}", text, -1)
    hint = "write FROM (PIVOT ... IN (...))" if word == "PIVOT" else ""
    return QueryError(
        f"{word} is not allowed: SQL is read-only; {_ONE_QUERY}",
        text,
        text.find(text.strip()),
        hint=hint,
    )


def _parts(part: Any) -> Iterator[Tree]:
    """Every object of a tree."""
    if isinstance(part, dict):
        yield part
        for below in part.values():
            yield from _parts(below)
    elif isinstance(part, list):
        for below in part:
            yield from _parts(below)


def _folded(name: str) -> str:
    """A name as DuckDB compares it: ASCII letters in lowercase, others unchanged."""
    return name.translate(_LOWERCASE)


def _characters(text: bytes, place: int) -> int:
    """An offset in characters from an offset in bytes."""
    return len(text[:place].decode(errors="ignore")) if place >= 0 else -1
