"""Decides which topic with new records is pushed next. Pure: the time is an argument.

A topic is the unit of work: it is in the set or not, and its push sends all its new records. Topics
are in five bands by

    P = priority + 100 for every second of waiting, at most 1000

and bands share the pushes by deficit round robin:

    band  P             pushes in a round
    4     750 and more  8
    3     500 to 749    4
    2     250 to 499    2
    1     0 to 249      1
    0     below 0       1, and none while the server defers

In a band the oldest is first. A topic that has waited ``OVERDUE_S`` is in the top band, at any
priority, and is before all others: so no topic waits longer than 10 s unless one push of every
topic takes more than the time left until then.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

WEIGHTS = (1, 1, 2, 4, 8)
"""Pushes of each band in a round, from the lowest band up."""

_FLOORS = (0, 250, 500, 750)
"""P at which a topic is in the next band."""
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
        """When it moves up to the next band, or to the top because it is overdue."""
        missing = _FLOORS[self.band] - self.priority
        return self.since + min(missing / _GAIN_PER_S, OVERDUE_S)

    def band_at(self, now: float) -> int:
        waited = now - self.since
        if waited >= OVERDUE_S:
            return _TOP
        reached = self.priority + waited * _GAIN_PER_S
        return sum(reached >= floor for floor in _FLOORS)


class ScheduledTopic(NamedTuple, Generic[Key]):
    """The topic to push next."""

    key: Key
    since: float
    """When it started to wait."""


class TopicScheduler(Generic[Key]):
    """The set of topics with new records. Owned by one thread."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Entry[Key]] = {}
        self._bands: list[list[tuple[float, int, _Entry[Key]]]] = [[] for _ in WEIGHTS]
        self._promotions: list[tuple[float, int, _Entry[Key]]] = []
        self._credit = [0] * len(WEIGHTS)
        self._band = _TOP
        self._orders = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, priority: int, now: float) -> None:
        """Add a topic. One that waits already keeps its place."""
        if key in self._waiting:
            return
        entry = self._waiting[key] = _Entry(key, priority, now, next(self._orders))
        self._place(entry, entry.band_at(now))

    def remove(self, key: Key) -> None:
        """Remove a topic that was deleted or is no longer watched."""
        self._waiting.pop(key, None)

    def deferred(self) -> list[Key]:
        """The topics in the lowest band, which is not pushed while the server defers."""
        return [key for key, entry in self._waiting.items() if entry.band == 0]

    def pop(self, now: float, *, deferring: bool = False) -> ScheduledTopic[Key] | None:
        """Remove and return the next topic; None when none waits, or all are deferred."""
        self._promote(now)
        overdue = self._oldest(_TOP)
        if overdue is not None and now - overdue.since >= OVERDUE_S:
            return self._remove(overdue)
        for _ in range(2 * len(WEIGHTS)):
            entry = self._oldest(self._band)
            if entry is None or (deferring and self._band == 0):
                self._credit[self._band] = 0
            elif self._credit[self._band] > 0:
                self._credit[self._band] -= 1
                return self._remove(entry)
            self._band = self._band - 1 if self._band else _TOP
            self._credit[self._band] = WEIGHTS[self._band]
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
                # At least one up: a due topic may be a rounding error below its band.
                self._place(entry, max(entry.band + 1, entry.band_at(now)))

    def _oldest(self, band: int) -> _Entry[Key] | None:
        """The topic of a band that has waited longest. Stale entries are dropped."""
        entries = self._bands[band]
        while entries:
            entry = entries[0][2]
            if self._waiting.get(entry.key) is entry and entry.band == band:
                return entry
            heapq.heappop(entries)
        return None

    def _remove(self, entry: _Entry[Key]) -> ScheduledTopic[Key]:
        del self._waiting[entry.key]
        return ScheduledTopic(entry.key, entry.since)
