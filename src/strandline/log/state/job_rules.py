"""What a topic must know of its queue before a job is appended: rules, and how many jobs wait.

The queue knows which of its jobs wait, up to the newest record that it has folded in. Every record
that was placed after that one waits too, so the sum is exact without a lock of the queue.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class JobRules(Protocol):
    """What a queue says about jobs that are appended to its topic. Called without a lock."""

    def admit(self, count: int) -> None:
        """Raise MemoryPressure when there is no memory for so many more."""
        ...

    def make_room(self) -> None:
        """End jobs that are over, and publish what waits: the topic looks full."""
        ...


class WaitingJobs:
    """Numbers of one topic. Changed under its writer's lock; ``publish`` is called without it and
    replaces one tuple."""

    __slots__ = ("_after", "_known", "_placed")

    def __init__(self) -> None:
        self._known = (0, 0, 0)
        self._placed: deque[tuple[int, int]] = deque()
        """Last seq and bytes of each batch that was placed and may not be folded in."""
        self._after = 0
        """Bytes of those."""

    def publish(self, head_seq: int, count: int, size: int) -> None:
        """Of the records up to a seq, so many wait, with so many bytes."""
        self._known = (head_seq, count, size)

    def place(self, last_seq: int, size: int) -> None:
        """A batch was placed."""
        self._placed.append((last_seq, size))
        self._after += size

    def with_placed(self, placed_seq: int) -> tuple[int, int]:
        """Jobs that wait, and their bytes, when records up to this seq are placed."""
        head_seq, count, size = self._known
        placed = self._placed
        while placed and placed[0][0] <= head_seq:
            self._after -= placed.popleft()[1]
        return count + max(0, placed_seq - head_seq), size + self._after
