"""What the grammar expected, in the words of whoever writes commands. Pure."""

from __future__ import annotations

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from strandline.query.language.ast_builder.tokens import RESERVED, at_of
from strandline.query.language.errors import Mistake, near, told

_THINGS = {
    "EVENT": "an event",
    "FIELD": "a field",
    "CONTEXT": "a context",
    "USER_NAME": "a user",
    "ROLE": "a role",
    "ALIAS": "an alias",
    "VALUE": "a value",
    "MOMENT": "a time",
    "KEY": "a field",
    "TYPE": "a type",
    "DURATION": "a duration (5m, 5 MINUTES)",
    "NUMBER": "a number",
    "UNIT": "a unit (SECONDS, MINUTES, HOURS, DAYS)",
    "SCALAR": "a JSON value",
    "STRING": "text in double quotes",
    "OPERATOR": "= != < <= > >=",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": "a comma",
    "COLON": ":",
    "OR_NULL": "| null",
    "__ANON_0": "->",
}
"""What is not a keyword, in the order in which it is told."""
_KEYWORDS = {
    "QUERY": ("QUERY", "FIND"),
    "FUNCTION": ("TOTAL", "AVG", "MIN", "MAX"),
    "PERIOD": ("HOUR", "DAY", "WEEK", "MONTH", "YEAR"),
    "PERMISSION": ("READ", "WRITE"),
    "KEY_WORD": ("KEY",),
    "FOLLOWED": ("FOLLOWED BY",),
    "PRECEDED": ("PRECEDED BY",),
    "LINKED": ("LINKED BY",),
    "ORDER": ("ORDER BY",),
    "BREAKDOWN": ("BREAKDOWN BY",),
}
"""Terminals of several words; the others are their own."""
SHOWN_MAX = 8
"""Words that are told; of the others how many there are."""
_COMMANDS = ("QUERY", "STORE", "DEFINE", "REPLAY", "SHOW", "PLOT", "REMEMBER", "DELETE")
_CLAUSES = ("WHERE", "RETURN", "SINCE", "FOR", "COUNT", "BY", "ORDER BY", "LIMIT")
_USEFUL = (*_COMMANDS, *_CLAUSES)
_OTHER_NAMES = {"STRING": {"EVENT", "CONTEXT", "USER_NAME", "ROLE", "VALUE", "MOMENT", "SCALAR"}}
_UNTOLD = {"QUOTED", "SEMICOLON", "$END"}
_SQL = {"SELECT", "INSERT", "UPDATE", "WITH", "ALTER", "DROP"}


def mistake_of(error: UnexpectedInput, text: str) -> Mistake:
    """The error of the parser as one of the user's."""
    if isinstance(error, UnexpectedCharacters):
        return _strange(text, error.pos_in_stream or 0)
    at, found = _found(error, text)
    forgotten = _forgotten_value(error)
    if forgotten is not None:
        return Mistake(
            f"expected {_THINGS[forgotten.type]}, not {forgotten}",
            text,
            at_of(forgotten),
            hint=f'as text it is written "{forgotten}"',
        )
    names = _names(error)
    keywords = _keywords(names)
    ends = ["the end"] if "$END" in names else [";"] if "SEMICOLON" in names else []
    expected = told(_first_the_useful([*_things(names), *keywords, *ends]), count_max=SHOWN_MAX)
    what = repr(found) if found else "the end"
    return Mistake(f"expected {expected}, not {what}", text, at, hint=_hint(found, keywords, at))


def _strange(text: str, at: int) -> Mistake:
    """A character that begins nothing."""
    if text[at] == '"':
        return Mistake("this text has no end", text, at, hint='it ends with a " on the same line')
    if text[at] == "`":
        return Mistake("this name has no end", text, at, hint="it ends with a ` on the same line")
    return Mistake(
        f"{text[at]!r} cannot stand here",
        text,
        at,
        hint='text with such characters goes in double quotes: "..."',
    )


def _forgotten_value(error: UnexpectedInput) -> Token | None:
    """The keyword that was taken for a value, in front of what could not be read."""
    stack = getattr(error.state, "value_stack", None)
    last = stack[-1] if stack else None
    if isinstance(last, Token) and last.type in ("VALUE", "MOMENT") and last.upper() in RESERVED:
        return last
    return None


def _found(error: UnexpectedInput, text: str) -> tuple[int, str]:
    """Where it is, and what is there; "" is the end."""
    token: Token | None = error.token if isinstance(error, UnexpectedToken) else None
    if token is not None and token.type != "$END":
        return at_of(token), token.value
    return len(text.rstrip()), ""


def _names(error: UnexpectedInput) -> set[str]:
    return set(error.accepts or error.expected) if isinstance(error, UnexpectedToken) else set()


def _things(names: set[str]) -> list[str]:
    shown = [
        words
        for name, words in _THINGS.items()
        if name in names and not _OTHER_NAMES.get(name, set()) & names
    ]
    return list(dict.fromkeys(shown))


def _keywords(names: set[str]) -> list[str]:
    plain = names - _THINGS.keys() - _UNTOLD
    return sorted(word for name in plain for word in _KEYWORDS.get(name, (name,)))


def _first_the_useful(words: list[str]) -> list[str]:
    """Words that are too many to be shown: those that most people want come first."""
    if len(words) <= SHOWN_MAX:
        return words
    return sorted(words, key=lambda word: _USEFUL.index(word) if word in _USEFUL else len(_USEFUL))


def _hint(found: str, keywords: list[str], at: int) -> str:
    if at == 0 and found.upper() in _SQL:
        return "SQL goes to store.sql()"
    meant = near(found, keywords) if found else ""
    return f"did you mean {meant}?" if meant else ""
