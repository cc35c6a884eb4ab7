"""Which topic has its turn next, when many have news. Pure: the time is handed in.

A topic is the unit of work: it is in the set or not, and its turn tells everything it has. Topics
stand in five bands by

    P = priority + 100 for every second of waiting, at most 1000

and bands share the turns by deficit round robin:

    band  P             turns in a round
    4     750 and more  8
    3     500 to 749    4
    2     250 to 499    2
    1     0 to 249      1
    0     below 0       1, and none while the server defers

In a band the oldest goes first. Whoever has waited ``OVERDUE_S`` is in the top band, whatever its
priority, and goes before all others: so nobody waits longer than 10 s unless a turn of every topic
takes more than what is left until then.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

WEIGHTS = (1, 1, 2, 4, 8)
"""Turns of each band in a round, from the lowest band up."""

_FLOORS = (0, 250, 500, 750)
"""P with which a topic is in the next band."""
_TOP = len(_FLOORS)
_GAIN_PER_S = 100.0
OVERDUE_S = 7.5

Key = TypeVar("Key", bound=Hashable)


class _Entry(Generic[Key]):
    """A topic that waits."""

    __slots__ = ("band", "key", "order", "priority", "since")

    def __init__(self, key: Key, priority: int, since: float, order: int) -> None:
        self.key = key
        self.priority = priority
        self.since = since
        self.order = order
        self.band = 0

    def promoted_at(self) -> float:
        """When it goes up to the next band, or at once to the top."""
        missing = _FLOORS[self.band] - self.priority
        return self.since + min(missing / _GAIN_PER_S, OVERDUE_S)

    def band_at(self, now: float) -> int:
        waited = now - self.since
        if waited >= OVERDUE_S:
            return _TOP
        reached = self.priority + waited * _GAIN_PER_S
        return sum(reached >= floor for floor in _FLOORS)


class Turn(NamedTuple, Generic[Key]):
    """Whose turn it is."""

    key: Key
    since: float
    """Since when it has waited."""


class Scheduler(Generic[Key]):
    """The set of topics with news. Owned by one thread."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Entry[Key]] = {}
        self._bands: list[list[tuple[float, int, _Entry[Key]]]] = [[] for _ in WEIGHTS]
        self._promotions: list[tuple[float, int, _Entry[Key]]] = []
        self._credit = [0] * len(WEIGHTS)
        self._at = _TOP
        self._orders = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def mark(self, key: Key, priority: int, now: float) -> None:
        """A topic has news. One that waits already keeps its place."""
        if key in self._waiting:
            return
        entry = self._waiting[key] = _Entry(key, priority, now, next(self._orders))
        self._place(entry, entry.band_at(now))

    def forget(self, key: Key) -> None:
        """The topic is gone, or nobody watches it any more."""
        self._waiting.pop(key, None)

    def deferred(self) -> list[Key]:
        """Those that wait in the band that has no turns while the server defers."""
        return [key for key, entry in self._waiting.items() if entry.band == 0]

    def take(self, now: float, *, deferring: bool = False) -> Turn[Key] | None:
        """Whose turn it is, None when nobody waits, or only those who have to."""
        self._promote(now)
        overdue = self._oldest(_TOP)
        if overdue is not None and now - overdue.since >= OVERDUE_S:
            return self._taken(overdue)
        for _ in range(2 * len(WEIGHTS)):
            entry = self._oldest(self._at)
            if entry is None or (deferring and self._at == 0):
                self._credit[self._at] = 0
            elif self._credit[self._at] > 0:
                self._credit[self._at] -= 1
                return self._taken(entry)
            self._at = self._at - 1 if self._at else _TOP
            self._credit[self._at] = WEIGHTS[self._at]
        return None

    def _place(self, entry: _Entry[Key], band: int) -> None:
        entry.band = band
        heapq.heappush(self._bands[entry.band], (entry.since, entry.order, entry))
        if entry.band < _TOP:
            heapq.heappush(self._promotions, (entry.promoted_at(), entry.order, entry))

    def _promote(self, now: float) -> None:
        promotions = self._promotions
        while promotions and promotions[0][0] <= now:
            _, _, entry = heapq.heappop(promotions)
            if self._waiting.get(entry.key) is entry:
                # At least one up: what was due may be a rounding away from its band.
                self._place(entry, max(entry.band + 1, entry.band_at(now)))

    def _oldest(self, band: int) -> _Entry[Key] | None:
        """The one of a band that has waited longest. Those who have moved on are passed."""
        entries = self._bands[band]
        while entries:
            entry = entries[0][2]
            if self._waiting.get(entry.key) is entry and entry.band == band:
                return entry
            heapq.heappop(entries)
        return None

    def _taken(self, entry: _Entry[Key]) -> Turn[Key]:
        del self._waiting[entry.key]
        return Turn(entry.key, entry.since)
