"""Scopes: actions on the topics of a pattern. Default deny; an explicit deny wins. Pure.

    read,write:orders.*;deny delete:orders.eu;metrics

    scopes    ::= scope { ";" scope }
    scope     ::= [ "allow" | "deny" ] actions [ ":" pattern ]
    actions   ::= action { "," action }, or "all"
    pattern   ::= the name of a topic, or its beginning and "*"; without one "*"

There are no regular expressions. The server itself, where no topic is asked for, is met by the
pattern ``*`` alone.

What stands behind a colon belongs to the topic before it: views and groups keep dead letters and
offsets in ``orders:…``. So whoever is denied ``orders`` is denied ``orders:dead``, too, and whoever
may read ``orders`` may read it. To change it takes a pattern that matches its own name.
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
"""What a token may be allowed to do. ``consume`` is to claim and settle, ``config`` to change
options, ``bypass`` to write although the server is under pressure."""

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
    """A set of topics: some names, and all that begin in some ways."""

    __slots__ = ("beginnings", "names")

    def __init__(self, patterns: Iterable[str], *, with_companions: bool) -> None:
        names, beginnings = set(), set()
        for pattern in patterns:
            if pattern.endswith("*"):
                beginnings.add(pattern[:-1])
            else:
                names.add(pattern)
                if with_companions:
                    beginnings.add(f"{pattern}:")
        self.names = frozenset(names)
        self.beginnings = tuple(sorted(beginnings))

    def __contains__(self, topic: str) -> bool:
        return topic in self.names or topic.startswith(self.beginnings)


class Scopes:
    """All that one token may do. Frozen; safe from many threads."""

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
        """Whether the action is allowed on a topic; on the server when none is named."""
        return topic in self._allowed[action] and topic not in self._denied[action]

    def cover(self, others: Scopes) -> bool:
        """Whether nothing is allowed by the others that is not allowed by these.

        It may say no where a long look would find out that it is so, and never yes where it is not.
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
        given_up = others._patterns(action, deny=True)
        return all(
            any(_within(denied, each, companions=True) for each in given_up)
            for denied in self._patterns(action, deny=True)
            if _touch(pattern, denied)
        )

    def _patterns(self, action: Action, *, deny: bool) -> list[str]:
        return [each.pattern for each in self.each if each.deny is deny and action in each.actions]


EVERYTHING = Scopes([Scope(actions=ACTIONS)])
NOTHING = Scopes([])


def parse(text: str) -> Scopes:
    """Scopes from text, or an error that tells how they are written."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise Invalid("say what a token may do, as in read,write:orders.*;deny delete:orders.eu")
    if len(parts) > SCOPES_MAX:
        raise Invalid(f"a token has {SCOPES_MAX} scopes at most, and these are {len(parts)}")
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
            f"{pattern!r} is no pattern: write the name of a topic, or its beginning and *"
        )
    return Scope(actions=_actions(actions), pattern=pattern, deny=deny)


def _actions(text: str) -> tuple[Action, ...]:
    wanted = {word.strip() for word in text.split(",")}
    if wanted == {"all"}:
        return ACTIONS
    unknown = sorted(wanted - _NAMES)
    if unknown:
        raise Invalid(f"{unknown[0]!r} is no action: there are all, or {', '.join(ACTIONS)}")
    return tuple(action for action in ACTIONS if action in wanted)


def _within(pattern: str, wider: str, *, companions: bool = False) -> bool:
    """Whether all topics of a pattern are among those of another."""
    if wider.endswith("*"):
        return pattern.startswith(wider[:-1])
    return pattern == wider or (companions and pattern.startswith(f"{wider}:"))


def _touch(one: str, other: str) -> bool:
    """Whether a topic may be among those of both, with what belongs to them."""
    return any(
        first.startswith(second) or second.startswith(first)
        for first in _beginnings(one)
        for second in _beginnings(other)
    )


def _beginnings(pattern: str) -> tuple[str, ...]:
    """With what the topics of a pattern begin; the name of one ends where no name goes on."""
    if pattern.endswith("*"):
        return (pattern[:-1],)
    return (f"{pattern}\0", f"{pattern}:")
