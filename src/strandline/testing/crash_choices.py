"""What a power loss keeps is a row of choices; here is who makes them.

Wherever a crash could go several ways the simulation asks ``pick(count)``: 0 is the oldest (the
durable state), ``count - 1`` the newest (nothing lost). One chooser makes one crash state, and the
same picks always give the same state.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol


class Choices(Protocol):
    """Decides one crash state."""

    def pick(self, count: int) -> int:
        """A number from 0 to ``count - 1``."""
        ...


class Oldest:
    """Everything that was not synced is lost."""

    def pick(self, count: int) -> int:
        return 0


class Newest:
    """Everything that was written is kept."""

    def pick(self, count: int) -> int:
        return count - 1


class Uniform:
    """Each pick by itself, all outcomes equally likely."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pick(self, count: int) -> int:
        return self._rng.randrange(count)


class Leaning:
    """One extreme, with exceptions: sometimes about half of the picks, sometimes about one.

    Fair coins over a hundred sectors never lose exactly one of them, and that one is the hole that
    recovery stumbles over. So every sample has its own favourite and its own share of exceptions.
    """

    def __init__(self, rng: random.Random, picks: int) -> None:
        self._rng = rng
        self._likes_newest = rng.random() < 0.5
        self._exceptions = picks ** -rng.random()

    def pick(self, count: int) -> int:
        if self._rng.random() < self._exceptions:
            return self._rng.randrange(count)
        return count - 1 if self._likes_newest else 0


class Scripted:
    """Follows a script, then takes the oldest; remembers what it was asked."""

    def __init__(self, script: list[int]) -> None:
        self._script = script
        self._asked: list[tuple[int, int]] = []

    def pick(self, count: int) -> int:
        place = len(self._asked)
        choice = self._script[place] if place < len(self._script) else 0
        self._asked.append((choice, count))
        return choice

    def next_script(self) -> list[int] | None:
        """The next leaf of the tree of choices; None after the last one."""
        asked = self._asked
        while asked and asked[-1][0] + 1 == asked[-1][1]:
            asked.pop()
        if not asked:
            return None
        return [*(choice for choice, _ in asked[:-1]), asked[-1][0] + 1]


def every() -> Iterator[Choices]:
    """Choosers that walk through all states, from all lost to all kept.

    Use each one up before taking the next: what it was asked decides what comes next.
    """
    script: list[int] | None = []
    while script is not None:
        chooser = Scripted(script)
        yield chooser
        script = chooser.next_script()


def samples(count: int, rng: random.Random, ways: int) -> Iterator[Choices]:
    """So many choosers out of so many ways: the two extremes first, then random ones."""
    yield from (Oldest(), Newest())[:count]
    for _ in range(count - 2):
        yield Leaning(rng, picks=ways.bit_length())
