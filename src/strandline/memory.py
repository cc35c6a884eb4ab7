"""The memory budget of a store. (Interface; the ladder is being written.)"""

from __future__ import annotations

from collections.abc import Callable


class Share:
    """A part of the budget. Safe from many threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def charge(self, size: int) -> None:
        """Count what is there."""
        self.used += size

    def release(self, size: int) -> None:
        """Count what is there no longer."""
        self.used -= size

    def admit(self, size: int) -> None:
        """Raise when so much more cannot be had."""

    def evicts(self, evict: Callable[[int], int]) -> None:
        """Ask this when memory is short: it frees about so many bytes, and says how many."""
