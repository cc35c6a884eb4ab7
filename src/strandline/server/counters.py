"""Counts the operations of a server. Plain numbers: the fast path increments them."""

from __future__ import annotations

from collections import Counter


class ServerCounters:
    """Counts since the server started. Owned by the loop's thread; others may read."""

    __slots__ = ("appends", "records", "records_read", "requests")

    def __init__(self) -> None:
        self.appends = 0
        """Appends written to the log."""
        self.records = 0
        """Records in them."""
        self.records_read = 0
        """Records that reads returned."""
        self.requests: Counter[int] = Counter()
        """Responses by status."""
