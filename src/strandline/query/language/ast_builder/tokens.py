"""Builds names and literals from tokens. Pure.

A value without quotes is a number, true, false or null if it has that form, else text. A value in
double quotes is always text, with the escapes of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from lark import Token

from strandline.errors import Invalid
from strandline.query.language import times
from strandline.query.language.ast import Name
from strandline.views.table.condition import Value

WHOLE_MAX = 2**63 - 1
RESERVED = frozenset(
    {
        *("AND", "OR", "NOT", "IN", "FOR", "SINCE", "USING", "RETURN", "LINKED", "WHERE"),
        *("PER", "BY", "ORDER", "LIMIT", "OFFSET", "AS"),
    }
)
"""Not values without quotes: where one is found, the value before it is most likely missing."""

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,128}")
_DIGITS_MAX = 400
_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}


class TokenError(Exception):
    """The text is wrong at a place."""

    def __init__(self, at: int, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.at = at
        self.hint = hint


def at_of(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def event(parts: list[Token]) -> Name:
    (token,) = parts
    return Name(token.replace("`", ""), at_of(token))


def field(parts: list[Token]) -> Name:
    return field_of(parts[0])


def context(parts: list[Token]) -> str:
    return _filled(parts[0], "a context")


def user(parts: list[Token]) -> str:
    return _filled(parts[0], "a user's id")


def role(parts: list[Token]) -> str:
    return _filled(parts[0], "a role")


def alias(parts: list[Token]) -> str:
    (token,) = parts
    if not _ALIAS.fullmatch(token):
        raise TokenError(
            at_of(token),
            f"{str(token)!r} is not an alias",
            "use letters, digits, _ and -, at most 128",
        )
    return str(token)


def value(parts: list[Token]) -> Value:
    (token,) = parts
    if token.type == "STRING":
        return unquote(token)
    reject_reserved(token, "a value")
    return bare_value(token)


def reject_reserved(token: Token, what: str) -> None:
    if token.upper() in RESERVED:
        hint = f'to use it as text, write "{token}"'
        raise TokenError(at_of(token), f"expected {what}, not {token}", hint)


def field_of(token: Token, text: str | None = None) -> Name:
    """A field, optionally with its event: the last dot separates them."""
    written = str(token) if text is None else text
    if written.endswith("`"):
        prefix, _, name = written[:-1].rpartition("`")
        return Name(name, at_of(token), prefix.removesuffix("."))
    prefix, dot, name = written.rpartition(".")
    if not name.isidentifier() or (dot and not prefix):
        raise TokenError(
            at_of(token),
            f"expected a field, not {written!r}",
            "write the field first, then the value: amount = 5" if written else "",
        )
    return Name(name, at_of(token), prefix)


def bare_value(token: Token) -> Value:
    """The value of a word without quotes."""
    text = str(token)
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if not _NUMBER.fullmatch(text):
        return text
    if len(text) > _DIGITS_MAX:
        raise TokenError(at_of(token), f"a number has at most {_DIGITS_MAX} digits")
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text)
    if abs(number) == float("inf"):
        raise TokenError(at_of(token), f"{text} is larger than any f64")
    return number


def unquote(token: Token) -> str:
    """Text without its quotes and escapes."""
    try:
        return msgspec.json.decode(token.value, type=str)
    except (msgspec.MsgspecError, ValueError) as error:
        raise TokenError(
            at_of(token),
            "the text has an escape that JSON does not have, or a control character",
            r"escapes are \" \\ \/ \b \f \n \r \t and \u with four hex digits",
        ) from error


def whole_number(token: Token, what: str, *, least: int = 0) -> int:
    """A whole number."""
    number = bare_value(token)
    if type(number) is not int or not least <= number <= WHOLE_MAX:
        raise TokenError(at_of(token), f"{what} must be a whole number >= {least}, not {token}")
    return number


def duration_of(tokens: Sequence[Token]) -> int:
    """Microseconds of ``5m``, ``5 MINUTES`` or ``"5m"``."""
    first = tokens[0]
    text = unquote(first) if first.type == "STRING" else " ".join(tokens)
    try:
        return times.parse_duration(text)
    except Invalid as error:
        raise TokenError(at_of(first), str(error)) from error


def _filled(token: Token, what: str) -> str:
    text = unquote(token) if token.type == "STRING" else str(token)
    if not text:
        raise TokenError(at_of(token), f"{what} cannot be empty")
    return text


RULES = (event, field, context, user, role, alias, value)
