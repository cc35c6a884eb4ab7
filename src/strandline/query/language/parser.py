"""Parses the text of a command: returns its AST, or raises a query error with the place.

    DEFINE event [AS version] FIELDS { field: type, ... }
    STORE event FOR context PAYLOAD { ... }
    QUERY event [FOLLOWED BY event [WITHIN 5 MINUTES]]... [clauses]            also FIND
        FOR context · SINCE time · USING field · RETURN [field, ...] · LINKED BY field
        WHERE condition · COUNT, COUNT UNIQUE field, TOTAL field, AVG field, MIN field, MAX field
        PER DAY · BY field, ... · ORDER BY field [ASC | DESC] · LIMIT n · OFFSET n
    REPLAY [event] FOR context [SINCE time] [USING field] [RETURN [field, ...]]
    DELETE event [FOR context] [WHERE condition]
    EXPLAIN query                         FLUSH, PING, BATCH [ command; ... ]
    REMEMBER query AS alias [KEEP n ROWS] [KEEP 7 DAYS]       SHOW alias       FORGET alias
    PLOT metric OF event [THEN event] [FILTER condition] [VS metric OF ...]
        [BREAKDOWN BY field, ...] [OVER day(field)] [TOP n [BY field]]
    CREATE USER id [WITH KEY "..."] [WITH ROLES ["..."]]      REVOKE KEY id    LIST USERS
    GRANT READ, WRITE ON event, ... TO id    REVOKE ... ON event, ... FROM id
    SHOW PERMISSIONS FOR id

Keywords are not case-sensitive. Clauses are in any order, each once. A word may have letters,
digits and ``_ - . : + @ / % ~``; all other text, and text that looks like a number, is written in
double quotes with the escapes of JSON. A field with the name of a keyword is written in back
quotes. ``#`` after a space starts a comment that ends with the line. A command may end with ``;``.
The grammar is in ``grammar.lark``.

A STORE in its plain form is parsed by a regular expression instead of the grammar, with the same
result several times as fast. Queries are often repeated: the last ones are cached by their text.
Other commands are not cached, since they may contain a key or data.
"""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace
from typing import Any

import msgspec
from lark import Lark, UnexpectedInput

from strandline.errors import Invalid
from strandline.query.language.ast import BatchCommand, Command, Name, StoreEvent
from strandline.query.language.ast_builder import (
    clauses,
    conditions,
    events,
    plot,
    queries,
    tokens,
    users,
)
from strandline.query.language.errors import QueryError
from strandline.query.language.parse_errors import query_error_of

TEXT_MAX = 32 * 1024 * 1024
"""Characters of a command."""

_MODULES = (tokens, conditions, clauses, queries, events, plot, users)

_PLAIN_STORE = re.compile(
    r"""\s*STORE\s+([\w.:-]+)\s+FOR\s+(?:([\w.:-]+)|("[^"\\\x00-\x1f]+"))\s+PAYLOAD\s*(?={)""",
    re.IGNORECASE,
)
_QUERY = re.compile(r"\s*(?:QUERY|FIND|REPLAY|EXPLAIN|PLOT)\s", re.IGNORECASE)
_CACHED_MAX = 256
_CACHED_TEXT_MAX = 4096
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse(text: str) -> Command:
    """The AST of a command."""
    if not isinstance(text, str):
        raise Invalid(f"a command is text, not {type(text).__name__}")
    if len(text) > TEXT_MAX:
        raise Invalid(f"a command has at most {TEXT_MAX} characters, not {len(text)}")
    if len(text) <= _CACHED_TEXT_MAX and _QUERY.match(text):
        return _cached(text)
    return _plain_store(text) or _parsed(text)


@functools.lru_cache(_CACHED_MAX)
def _cached(text: str) -> Command:
    return _parsed(text)


def _plain_store(text: str) -> StoreEvent | None:
    """A STORE in its plain form; None when the grammar has to parse it."""
    match = _PLAIN_STORE.match(text)
    if match is None:
        return None
    event, word, quoted = match.groups()
    first = match.end()
    try:
        match[0].encode()
        payload = text[first:].rstrip().encode()
        _OBJECT.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return StoreEvent(
        event=Name(event, match.start(1)),
        context=word or quoted[1:-1],
        payload=payload,
        payload_at=first,
    )


def _parsed(text: str) -> Command:
    try:
        text.encode()
        return _complete(_parser().parse(text), text)
    except tokens.TokenError as error:
        raise QueryError(str(error), text, error.at, hint=error.hint) from error
    except UnexpectedInput as error:
        raise query_error_of(error, text) from error
    except UnicodeEncodeError as error:
        raise QueryError(
            "half of a surrogate pair is not a character", text, error.start
        ) from error


def _complete(tree: Any, text: str) -> Command:
    """A command with the parts of the text that it stores."""
    if isinstance(tree, queries.QueryDraft):
        return tree.query
    if isinstance(tree, queries.RememberDraft):
        query_text = text[tree.first : tree.next].rstrip()
        return msgspec.structs.replace(tree.command, text=query_text)
    if isinstance(tree, events.StoreDraft):
        return StoreEvent(
            event=tree.event,
            context=tree.context,
            payload=text[tree.first : tree.next].encode(),
            payload_at=tree.first,
        )
    if isinstance(tree, events.BatchDraft):
        return BatchCommand(
            tuple(_complete(each, text) for each in tree.commands),
            tuple(text[first:next_].strip() for first, next_ in tree.spans),
        )
    command: Command = tree
    return command


@functools.cache
def _parser() -> Lark:
    """Built at the first use: this takes longer than opening a store."""
    rules = SimpleNamespace(
        **{rule.__name__: rule for module in _MODULES for rule in module.RULES},
        start=lambda parts: parts[0],
    )
    return Lark.open_from_package(
        __package__,
        "grammar.lark",
        parser="lalr",
        lexer="contextual",
        transformer=rules,
        maybe_placeholders=True,
    )
