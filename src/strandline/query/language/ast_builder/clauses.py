"""Builds the clauses of a query, which are in any order, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from lark import Token

from strandline.query.language.ast import Aggregate, Name
from strandline.query.language.ast_builder.tokens import (
    TokenError,
    at_of,
    bare_value,
    field_of,
    reject_reserved,
    unquote,
    whole_number,
)

_CLAUSE_TEXTS = {
    "linked": "LINKED BY",
    "order": "ORDER BY",
    "breakdown": "BREAKDOWN BY",
    "rows": "KEEP … ROWS",
    "age": "KEEP … DAYS",
    "key": "WITH KEY",
    "roles": "WITH ROLES",
}
_FUNCTIONS: dict[str, Literal["total", "avg", "min", "max"]] = {
    "TOTAL": "total",
    "SUM": "total",
    "AVG": "avg",
    "MIN": "min",
    "MAX": "max",
}
_HINTS = {
    "where": "join conditions with AND",
    "filter": "join conditions with AND",
    "by": "separate fields with commas",
    "using": "SINCE, PER and the order of events use the same time field",
}


class Clause(NamedTuple):
    """A part of a command that may be in any place, but once."""

    name: str
    at: int
    value: Any


def unique_clauses(clauses: Iterable[Clause]) -> dict[str, Any]:
    """Values by the names of clauses. USING may be repeated: it belongs to SINCE, PER and BY."""
    values: dict[str, Any] = {}
    for name, at, value in clauses:
        if name == "aggregates" and name in values:
            raise TokenError(
                at, "aggregates must be separated by commas", "write COUNT, AVG amount"
            )
        if name in values and not (name == "using" and values[name].text == value.text):
            clause = _CLAUSE_TEXTS.get(name, name.upper())
            raise TokenError(at, f"{clause} is given twice", _HINTS.get(name, ""))
        values.setdefault(name, value)
    return values


def for_(parts: list[Any]) -> Clause:
    return Clause("for", at_of(parts[0]), parts[1])


def since(parts: list[Token]) -> Clause:
    """The value is the time and its place."""
    word, token = parts
    if token.type != "STRING":
        reject_reserved(token, "a time")
    value = unquote(token) if token.type == "STRING" else bare_value(token)
    if value is None or isinstance(value, bool):
        value = str(token)
    return Clause("since", at_of(word), (value, at_of(token)))


def using(parts: list[Any]) -> Clause:
    return Clause("using", at_of(parts[0]), parts[-1])


def using_time(parts: list[Token]) -> Clause:
    """A field with the name ``time``."""
    return Clause("using", at_of(parts[0]), field_of(parts[1]))


def returning(parts: list[Any]) -> Clause:
    return Clause("return", at_of(parts[0]), tuple(each for each in parts[1:] if each is not None))


def column(parts: list[Any]) -> Name:
    (part,) = parts
    return part if isinstance(part, Name) else field_of(part, unquote(part))


def where(parts: list[Any]) -> Clause:
    return Clause("where", at_of(parts[0]), parts[1].condition)


def linked(parts: list[Any]) -> Clause:
    return Clause("linked", at_of(parts[0]), parts[2])


def per(parts: list[Token]) -> Clause:
    return Clause("per", at_of(parts[0]), parts[1].upper())


def by(parts: list[Any]) -> Clause:
    return Clause("by", at_of(parts[0]), tuple(parts[1:]))


def order(parts: list[Any]) -> Clause:
    word, _, field, direction = parts
    return Clause("order", at_of(word), (field, direction is not None and direction.type == "DESC"))


def limit(parts: list[Token]) -> Clause:
    return Clause("limit", at_of(parts[0]), whole_number(parts[1], "LIMIT"))


def offset(parts: list[Token]) -> Clause:
    """The value is the number and the place of the clause."""
    word, number = parts
    return Clause("offset", at_of(word), (whole_number(number, "OFFSET"), at_of(word)))


def aggregates(parts: list[tuple[Aggregate, int]]) -> Clause:
    return Clause("aggregates", parts[0][1], tuple(aggregate for aggregate, _ in parts))


def count(parts: list[Token]) -> tuple[Aggregate, int]:
    return Aggregate(function="count"), at_of(parts[0])


def count_values(parts: list[Any]) -> tuple[Aggregate, int]:
    return Aggregate(function="count", field=parts[-1]), at_of(parts[0])


def count_unique(parts: list[Any]) -> tuple[Aggregate, int]:
    return Aggregate(function="count_unique", field=parts[-1]), at_of(parts[0])


def figure(parts: list[Any]) -> tuple[Aggregate, int]:
    word, field = parts
    return Aggregate(function=_FUNCTIONS[word.upper()], field=field), at_of(word)


RULES = (
    *(for_, since, using, using_time, returning, column, where, linked, per, by, order),
    *(limit, offset, aggregates, count, count_values, count_unique, figure),
)
