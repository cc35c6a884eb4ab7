"""Which chunk must be looked at when: the earliest moment of each, in order.

A heap with stale entries: what counts is ``_earliest``. A chunk's moment may be too early, never
too late; whoever looks at the chunk then says what its moment really is.
"""

from __future__ import annotations

import heapq

_STALE_MIN = 1024
_STALE_SHARE = 4


class Moments:
    """Chunks by their earliest moment. Owned by one thread."""

    def __init__(self) -> None:
        self._earliest: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def note(self, number: int, moment: int) -> None:
        """Something in this chunk is due then."""
        if moment < self._earliest.get(number, moment + 1):
            self._put(number, moment)

    def correct(self, number: int, moment: int | None) -> None:
        """The chunk was looked at: this is its earliest moment, or it has none."""
        if moment is None:
            self._earliest.pop(number, None)
        elif self._earliest.get(number) != moment:
            self._put(number, moment)

    def passed(self, now: int) -> int | None:
        """The chunk whose moment came first, None when none has come. It stays until corrected."""
        first = self.next()
        return None if first is None or first > now else self._heap[0][1]

    def next(self) -> int | None:
        """The earliest moment of all, None when there is none."""
        heap = self._heap
        while heap:
            moment, number = heap[0]
            if self._earliest.get(number) == moment:
                return moment
            heapq.heappop(heap)
        return None

    def _put(self, number: int, moment: int) -> None:
        self._earliest[number] = moment
        heapq.heappush(self._heap, (moment, number))
        if len(self._heap) > _STALE_MIN + _STALE_SHARE * len(self._earliest):
            self._heap = [(moment, number) for number, moment in self._earliest.items()]
            heapq.heapify(self._heap)
