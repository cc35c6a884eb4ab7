"""Counts what a server does. Plain numbers: the hot path adds to them."""

from __future__ import annotations

from collections import Counter


class Counters:
    """Since the server began. Owned by the loop's thread; others may look."""

    __slots__ = ("appends", "records", "records_read", "requests")

    def __init__(self) -> None:
        self.appends = 0
        """Appends that were placed."""
        self.records = 0
        """Records in them."""
        self.records_read = 0
        """Records that reads gave."""
        self.requests: Counter[int] = Counter()
        """Answers by status."""
