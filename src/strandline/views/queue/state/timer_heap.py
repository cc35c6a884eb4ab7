"""A timer heap: the earliest time of each chunk at which one of its jobs is due.

The heap has stale entries; ``_earliest`` is authoritative. The time of a chunk may be too early,
never too late; the caller that then checks the chunk corrects it.
"""

from __future__ import annotations

import heapq

_STALE_MIN = 1024
_STALE_SHARE = 4


class TimerHeap:
    """Chunks by their earliest time. Owned by one thread."""

    def __init__(self) -> None:
        self._earliest: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def schedule(self, number: int, time: int) -> None:
        """Add a time of a chunk. It is ignored if the chunk has an earlier one."""
        if time < self._earliest.get(number, time + 1):
            self._put(number, time)

    def reschedule(self, number: int, time: int | None) -> None:
        """Replace the earliest time of a chunk; None removes it."""
        if time is None:
            self._earliest.pop(number, None)
        elif self._earliest.get(number) != time:
            self._put(number, time)

    def first_due(self, now: int) -> int | None:
        """The chunk with the earliest time that has passed, None if there is none. It stays until
        it is corrected."""
        first = self.next()
        return None if first is None or first > now else self._heap[0][1]

    def next(self) -> int | None:
        """The earliest time of all, None if there is none."""
        heap = self._heap
        while heap:
            time, number = heap[0]
            if self._earliest.get(number) == time:
                return time
            heapq.heappop(heap)
        return None

    def _put(self, number: int, time: int) -> None:
        self._earliest[number] = time
        heapq.heappush(self._heap, (time, number))
        if len(self._heap) > _STALE_MIN + _STALE_SHARE * len(self._earliest):
            self._heap = [(time, number) for number, time in self._earliest.items()]
            heapq.heapify(self._heap)
