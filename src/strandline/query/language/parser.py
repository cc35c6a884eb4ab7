"""Text of a command -> a value, or a Mistake that shows the place and what was expected there.

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

Small and capital letters are the same in keywords. Clauses come in any order, each once. A word may
hold letters, digits and ``_ - . : + @ / % ~``; everything else, and text that would be taken for a
number, goes in double quotes with the escapes of JSON. A field that is called like a keyword goes
in back quotes. ``#`` behind a space begins a comment that ends with the line. A command may end
with ``;``. The grammar itself is in ``grammar.lark``.

A STORE that is written plainly does not need the grammar: it is found by an expression, which gives
the same value several times as fast. And questions are asked again and again: the last ones are
known by their text. Other commands are not, since they may have a key or somebody's data in them.
"""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace
from typing import Any

import msgspec
from lark import Lark, UnexpectedInput

from strandline.errors import Invalid
from strandline.query.language.ast import Batch, Command, Name, StoreEvent
from strandline.query.language.ast_builder import (
    clauses,
    conditions,
    events,
    plot,
    queries,
    tokens,
    users,
)
from strandline.query.language.errors import Mistake
from strandline.query.language.parse_errors import mistake_of

TEXT_MAX = 32 * 1024 * 1024
"""Characters of a command."""

_MODULES = (tokens, conditions, clauses, queries, events, plot, users)

_PLAIN_STORE = re.compile(
    r"""\s*STORE\s+([\w.:-]+)\s+FOR\s+(?:([\w.:-]+)|("[^"\\\x00-\x1f]+"))\s+PAYLOAD\s*(?={)""",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\s*(?:QUERY|FIND|REPLAY|EXPLAIN|PLOT)\s", re.IGNORECASE)
_KNOWN_MAX = 256
_KNOWN_TEXT_MAX = 4096
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse(text: str) -> Command:
    """The command that a text is."""
    if not isinstance(text, str):
        raise Invalid(f"a command is text, not {type(text).__name__}")
    if len(text) > TEXT_MAX:
        raise Invalid(f"a command has {TEXT_MAX} characters at most, not {len(text)}")
    if len(text) <= _KNOWN_TEXT_MAX and _QUESTION.match(text):
        return _known(text)
    return _plain_store(text) or _parsed(text)


@functools.lru_cache(_KNOWN_MAX)
def _known(text: str) -> Command:
    return _parsed(text)


def _plain_store(text: str) -> StoreEvent | None:
    """STORE as most write it; None when the grammar has to look."""
    found = _PLAIN_STORE.match(text)
    if found is None:
        return None
    event, word, quoted = found.groups()
    first = found.end()
    try:
        found[0].encode()
        payload = text[first:].rstrip().encode()
        _OBJECT.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return StoreEvent(
        event=Name(event, found.start(1)),
        context=word or quoted[1:-1],
        payload=payload,
        payload_at=first,
    )


def _parsed(text: str) -> Command:
    try:
        text.encode()
        return _complete(_parser().parse(text), text)
    except tokens.Misplaced as error:
        raise Mistake(str(error), text, error.at, hint=error.hint) from error
    except UnexpectedInput as error:
        raise mistake_of(error, text) from error
    except UnicodeEncodeError as error:
        raise Mistake("half of a surrogate pair is no character", text, error.start) from error


def _complete(found: Any, text: str) -> Command:
    """A command with the pieces of the text that it keeps."""
    if isinstance(found, queries.Asked):
        return found.query
    if isinstance(found, queries.ToRemember):
        kept = text[found.first : found.next].rstrip()
        return msgspec.structs.replace(found.command, text=kept)
    if isinstance(found, events.ToStore):
        return StoreEvent(
            event=found.event,
            context=found.context,
            payload=text[found.first : found.next].encode(),
            payload_at=found.first,
        )
    if isinstance(found, events.Together):
        return Batch(
            tuple(_complete(each, text) for each in found.commands),
            tuple(text[first:next_].strip() for first, next_ in found.spans),
        )
    command: Command = found
    return command


@functools.cache
def _parser() -> Lark:
    """Made when it is first needed: making it takes longer than opening a store."""
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
