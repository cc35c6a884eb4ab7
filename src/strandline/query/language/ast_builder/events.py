"""Builds commands on events, and batches of commands. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from lark import Token

from strandline.errors import Invalid
from strandline.query.language.ast import Define, Flush, Name, Ping
from strandline.query.language.ast_builder.clauses import Clause
from strandline.query.language.ast_builder.tokens import TokenError, at_of, unquote, whole_number
from strandline.schema import parse_type


class StoreDraft(NamedTuple):
    """STORE without the text of the payload, which is from ``first`` to before ``next``."""

    event: Name
    context: str
    first: int
    next: int


class BatchDraft(NamedTuple):
    """BATCH without the texts of its commands."""

    commands: tuple[Any, ...]
    spans: tuple[tuple[int, int], ...]


def field_type(parts: list[Token]) -> str:
    (token,) = parts
    return unquote(token) if token.type == "STRING" else token.value


def enum(parts: list[Any]) -> str | list[str]:
    *tokens, or_null = parts
    variants = [unquote(token) for token in tokens]
    return variants if or_null is None else f"{_as_json(variants)} | null"


def pair(parts: list[Any]) -> Clause:
    token, type_ = parts
    name = unquote(token) if token.type == "STRING" else token.value
    try:
        parse_type(type_ if isinstance(type_, str) else _as_json(type_), name)
    except Invalid as error:
        raise TokenError(at_of(token), str(error)) from error
    return Clause(name, at_of(token), type_)


def define(parts: list[Any]) -> Define:
    _, event, as_word, version, _, *pairs = parts
    fields: dict[str, str | list[str]] = {}
    for name, at, type_ in pairs:
        if name in fields:
            raise TokenError(at, f"the field {name!r} is given twice")
        fields[name] = type_
    number = None if as_word is None else whole_number(version, "a version", least=1)
    return Define(event=event, fields=fields, version=number)


def store(parts: list[Any]) -> StoreDraft:
    _, event, _, context, _, (first, next_) = parts
    return StoreDraft(event, context, first, next_)


def payload(parts: list[Any]) -> tuple[int, int]:
    """The start and the end of a JSON object. Its content is checked by the table."""
    return at_of(parts[0]), at_of(parts[-1]) + 1


def batch(parts: list[Any]) -> BatchDraft:
    _, *inside = parts
    commands = tuple(each for each in inside if not isinstance(each, Token))
    edges = [at_of(each) for each in inside if isinstance(each, Token)]
    spans = tuple((edges[place] + 1, edges[place + 1]) for place in range(len(commands)))
    return BatchDraft(commands, spans)


def flush(_parts: list[Any]) -> Flush:
    return Flush()


def ping(_parts: list[Any]) -> Ping:
    return Ping()


def _as_json(variants: list[str]) -> str:
    return msgspec.json.encode(variants).decode()


RULES = (field_type, enum, pair, define, store, payload, batch, flush, ping)
