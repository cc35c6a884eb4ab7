"""The rules and counts of a queue that its topic needs before a job is appended.

The queue counts its waiting jobs up to the newest record that it has folded. Every record that was
placed after that one waits, too, so the sum is exact without a lock of the queue.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class JobRules(Protocol):
    """The checks of a queue for jobs that are appended to its topic. Called without a lock."""

    def admit(self, count: int) -> None:
        """Raise MemoryPressure when there is no memory for so many more jobs."""
        ...

    def end_expired_and_publish(self) -> None:
        """End expired jobs and publish the counts again, because the topic looks full."""
        ...


class WaitingJobs:
    """The waiting jobs of one topic. Changed under its writer's lock; ``publish`` is called without
    it and replaces one tuple."""

    __slots__ = ("_known", "_placed", "_placed_bytes")

    def __init__(self) -> None:
        self._known = (0, 0, 0)
        self._placed: deque[tuple[int, int]] = deque()
        """Last seq and bytes of each batch that was placed and may not be folded yet."""
        self._placed_bytes = 0
        """Bytes of those."""

    def publish(self, head_seq: int, count: int, size: int) -> None:
        """Set the number and bytes of the jobs that wait among the records up to a seq."""
        self._known = (head_seq, count, size)

    def place(self, last_seq: int, size: int) -> None:
        """Note a batch that was placed."""
        self._placed.append((last_seq, size))
        self._placed_bytes += size

    def with_placed(self, placed_seq: int) -> tuple[int, int]:
        """Jobs that wait, and their bytes, when records up to this seq are placed."""
        head_seq, count, size = self._known
        placed = self._placed
        while placed and placed[0][0] <= head_seq:
            self._placed_bytes -= placed.popleft()[1]
        return count + max(0, placed_seq - head_seq), size + self._placed_bytes
