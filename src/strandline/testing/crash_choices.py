"""Choices of what survives a simulated power loss.

Wherever a crash has several possible outcomes the simulation calls ``pick(count)``: 0 is the oldest
(the durable state), ``count - 1`` the newest (nothing lost). One chooser determines one crash
state, and the same picks always give the same state.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol


class Choices(Protocol):
    """Determines one crash state."""

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
    """Independent picks, with all outcomes equally likely."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pick(self, count: int) -> int:
        return self._rng.randrange(count)


class Biased:
    """Mostly one extreme, with exceptions: sometimes about half of the picks, sometimes about one.

    Fair choices over a hundred sectors never lose exactly one of them, and a single hole is a hard
    case for recovery. So every sample has its own extreme and its own share of exceptions.
    """

    def __init__(self, rng: random.Random, picks: int) -> None:
        self._rng = rng
        self._prefers_newest = rng.random() < 0.5
        self._exceptions = picks ** -rng.random()

    def pick(self, count: int) -> int:
        if self._rng.random() < self._exceptions:
            return self._rng.randrange(count)
        return count - 1 if self._prefers_newest else 0


class Scripted:
    """Follows a script, then picks the oldest; records all picks."""

    def __init__(self, script: list[int]) -> None:
        self._script = script
        self._picks: list[tuple[int, int]] = []

    def pick(self, count: int) -> int:
        position = len(self._picks)
        choice = self._script[position] if position < len(self._script) else 0
        self._picks.append((choice, count))
        return choice

    def next_script(self) -> list[int] | None:
        """The next leaf of the tree of choices; None after the last one."""
        picks = self._picks
        while picks and picks[-1][0] + 1 == picks[-1][1]:
            picks.pop()
        if not picks:
            return None
        return [*(choice for choice, _ in picks[:-1]), picks[-1][0] + 1]


def all_choices() -> Iterator[Choices]:
    """Choosers that enumerate all states, from all lost to all kept.

    Use each one completely before the next: its picks determine the next one.
    """
    script: list[int] | None = []
    while script is not None:
        chooser = Scripted(script)
        yield chooser
        script = chooser.next_script()


def sample_choices(count: int, rng: random.Random, ways: int) -> Iterator[Choices]:
    """``count`` choosers for ``ways`` states: the two extremes first, then random ones."""
    yield from (Oldest(), Newest())[:count]
    for _ in range(count - 2):
        yield Biased(rng, picks=ways.bit_length())
