"""Syntax errors of the parser as query errors: what was expected, and what was found. Pure."""

from __future__ import annotations

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from strandline.query.language.ast_builder.tokens import RESERVED, at_of
from strandline.query.language.errors import QueryError, join_words, nearest_word

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
"""Terminals that are not keywords, in the order in which they are listed."""
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
"""Terminals with several words; other terminals are named as their keyword."""
SHOWN_MAX = 8
"""Words that are listed; the others are counted."""
_COMMANDS = ("QUERY", "STORE", "DEFINE", "REPLAY", "SHOW", "PLOT", "REMEMBER", "DELETE")
_CLAUSES = ("WHERE", "RETURN", "SINCE", "FOR", "COUNT", "BY", "ORDER BY", "LIMIT")
_USEFUL = (*_COMMANDS, *_CLAUSES)
_OTHER_NAMES = {"STRING": {"EVENT", "CONTEXT", "USER_NAME", "ROLE", "VALUE", "MOMENT", "SCALAR"}}
_UNLISTED = {"QUOTED", "SEMICOLON", "$END"}
_SQL = {"SELECT", "INSERT", "UPDATE", "WITH", "ALTER", "DROP"}


def query_error_of(error: UnexpectedInput, text: str) -> QueryError:
    """The query error for an error of the parser."""
    if isinstance(error, UnexpectedCharacters):
        return _unexpected_character(text, error.pos_in_stream or 0)
    at, word = _unexpected_token(error, text)
    keyword = _keyword_as_value(error)
    if keyword is not None:
        return QueryError(
            f"expected {_THINGS[keyword.type]}, not {keyword}",
            text,
            at_of(keyword),
            hint=f'to use it as text, write "{keyword}"',
        )
    names = _names(error)
    keywords = _keywords(names)
    ends = ["the end"] if "$END" in names else [";"] if "SEMICOLON" in names else []
    expected = join_words(
        _most_useful_first([*_things(names), *keywords, *ends]), count_max=SHOWN_MAX
    )
    found = repr(word) if word else "the end"
    return QueryError(f"expected {expected}, not {found}", text, at, hint=_hint(word, keywords, at))


def _unexpected_character(text: str, at: int) -> QueryError:
    """A character that no word or literal starts with."""
    if text[at] == '"':
        return QueryError("unterminated text", text, at, hint='close it with " on the same line')
    if text[at] == "`":
        return QueryError("unterminated name", text, at, hint="close it with ` on the same line")
    return QueryError(
        f"unexpected character {text[at]!r}",
        text,
        at,
        hint='write text with special characters in double quotes: "..."',
    )


def _keyword_as_value(error: UnexpectedInput) -> Token | None:
    """The keyword before the unexpected token that was parsed as a value: the value is missing."""
    stack = getattr(error.state, "value_stack", None)
    last = stack[-1] if stack else None
    if isinstance(last, Token) and last.type in ("VALUE", "MOMENT") and last.upper() in RESERVED:
        return last
    return None


def _unexpected_token(error: UnexpectedInput, text: str) -> tuple[int, str]:
    """The place and the text of the unexpected token; "" is the end."""
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
    plain = names - _THINGS.keys() - _UNLISTED
    return sorted(word for name in plain for word in _KEYWORDS.get(name, (name,)))


def _most_useful_first(words: list[str]) -> list[str]:
    """Commands and common clauses first, when not all words are listed."""
    if len(words) <= SHOWN_MAX:
        return words
    return sorted(words, key=lambda word: _USEFUL.index(word) if word in _USEFUL else len(_USEFUL))


def _hint(word: str, keywords: list[str], at: int) -> str:
    if at == 0 and word.upper() in _SQL:
        return "run SQL with store.sql()"
    nearest = nearest_word(word, keywords) if word else ""
    return f"did you mean {nearest}?" if nearest else ""
