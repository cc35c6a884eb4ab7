"""Scopes: actions on the topics of a pattern. Default deny; an explicit deny wins. Pure.

    read,write:orders.*;deny delete:orders.eu;metrics

    scopes    ::= scope { ";" scope }
    scope     ::= [ "allow" | "deny" ] actions [ ":" pattern ]
    actions   ::= action { "," action }, or "all"
    pattern   ::= the name of a topic, or its prefix and "*"; without one "*"

There are no regular expressions. Actions on the server itself, without a topic, match the pattern
``*`` alone.

A name with a colon belongs to the topic before the colon: views and groups store dead letters and
offsets in ``orders:…``. So a deny of ``orders`` also denies ``orders:dead``, and permission to read
``orders`` includes it. To change it requires a pattern that matches its own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

import msgspec

from strandline.errors import Invalid

Action: TypeAlias = Literal[
    "read",
    "write",
    "delete",
    "consume",
    "create",
    "config",
    "admin",
    "tokens",
    "metrics",
    "bypass",
]
"""Actions that scopes allow. ``consume`` is to claim and ack, ``config`` to change options,
``bypass`` to write although the server is under pressure."""

ACTIONS: tuple[Action, ...] = get_args(Action)
SCOPES_MAX = 100
_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\*?|\*")
_NAMES = frozenset(ACTIONS)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Actions that are allowed, or denied, on the topics of one pattern."""

    actions: tuple[Action, ...]
    pattern: str = "*"
    deny: bool = False

    def __str__(self) -> str:
        actions = "all" if self.actions == ACTIONS else ",".join(self.actions)
        pattern = "" if self.pattern == "*" else f":{self.pattern}"
        return f"{'deny ' if self.deny else ''}{actions}{pattern}"


class _Names:
    """A set of topics: some names, and all names with some prefixes."""

    __slots__ = ("names", "prefixes")

    def __init__(self, patterns: Iterable[str], *, with_companions: bool) -> None:
        names, prefixes = set(), set()
        for pattern in patterns:
            if pattern.endswith("*"):
                prefixes.add(pattern[:-1])
            else:
                names.add(pattern)
                if with_companions:
                    prefixes.add(f"{pattern}:")
        self.names = frozenset(names)
        self.prefixes = tuple(sorted(prefixes))

    def __contains__(self, topic: str) -> bool:
        return topic in self.names or topic.startswith(self.prefixes)


class Scopes:
    """The scopes of one token. Frozen; safe from many threads."""

    __slots__ = ("_allowed", "_denied", "each")

    def __init__(self, each: Iterable[Scope]) -> None:
        self.each = tuple(each)
        self._allowed = {
            action: _Names(self._patterns(action, deny=False), with_companions=action == "read")
            for action in ACTIONS
        }
        self._denied = {
            action: _Names(self._patterns(action, deny=True), with_companions=True)
            for action in ACTIONS
        }

    def __str__(self) -> str:
        return ";".join(map(str, self.each))

    def __repr__(self) -> str:
        return f"Scopes({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scopes) and self.each == other.each

    def __hash__(self) -> int:
        return hash(self.each)

    def allow(self, action: Action, topic: str = "") -> bool:
        """Whether the action is allowed on a topic; without a topic, on the server."""
        return topic in self._allowed[action] and topic not in self._denied[action]

    def cover(self, others: Scopes) -> bool:
        """Whether these allow everything that the others allow.

        It may return False although this is so, but never True when it is not.
        """
        return all(
            self._covers(action, pattern, others)
            for action in ACTIONS
            for pattern in others._patterns(action, deny=False)
        )

    def _covers(self, action: Action, pattern: str, others: Scopes) -> bool:
        wider = self._patterns(action, deny=False)
        if not any(_within(pattern, each) for each in wider):
            return False
        denied_by_others = others._patterns(action, deny=True)
        return all(
            any(_within(denied, each, companions=True) for each in denied_by_others)
            for denied in self._patterns(action, deny=True)
            if _overlap(pattern, denied)
        )

    def _patterns(self, action: Action, *, deny: bool) -> list[str]:
        return [each.pattern for each in self.each if each.deny is deny and action in each.actions]


EVERYTHING = Scopes([Scope(actions=ACTIONS)])
NOTHING = Scopes([])


def parse(text: str) -> Scopes:
    """Scopes from text; errors show the syntax."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise Invalid(
            "scopes are empty: write them as in read,write:orders.*;deny delete:orders.eu"
        )
    if len(parts) > SCOPES_MAX:
        raise Invalid(f"a token has at most {SCOPES_MAX} scopes, not {len(parts)}")
    return Scopes([_scope(part) for part in parts])


def _scope(text: str) -> Scope:
    actions, colon, pattern = text.partition(":")
    words = actions.split(None, 1)
    deny = len(words) == 2 and words[0] == "deny"
    if deny or (len(words) == 2 and words[0] == "allow"):
        actions = words[1]
    pattern = pattern.strip() if colon else "*"
    if not _PATTERN.fullmatch(pattern):
        raise Invalid(
            f"{pattern!r} is not a pattern: write the name of a topic, or its prefix and *"
        )
    return Scope(actions=_actions(actions), pattern=pattern, deny=deny)


def _actions(text: str) -> tuple[Action, ...]:
    words = {word.strip() for word in text.split(",")}
    if words == {"all"}:
        return ACTIONS
    unknown = sorted(words - _NAMES)
    if unknown:
        raise Invalid(f"{unknown[0]!r} is not an action: use all, or some of {', '.join(ACTIONS)}")
    return tuple(action for action in ACTIONS if action in words)


def _within(pattern: str, wider: str, *, companions: bool = False) -> bool:
    """Whether all topics of a pattern are among those of another."""
    if wider.endswith("*"):
        return pattern.startswith(wider[:-1])
    return pattern == wider or (companions and pattern.startswith(f"{wider}:"))


def _overlap(one: str, other: str) -> bool:
    """Whether a topic may match both, including topics after a colon."""
    return any(
        first.startswith(second) or second.startswith(first)
        for first in _prefixes(one)
        for second in _prefixes(other)
    )


def _prefixes(pattern: str) -> tuple[str, ...]:
    """The prefixes of the topics of a pattern; NUL marks the end of an exact name."""
    if pattern.endswith("*"):
        return (pattern[:-1],)
    return (f"{pattern}\0", f"{pattern}:")
