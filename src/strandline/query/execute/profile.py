"""The cost of a query: a profile for EXPLAIN, filled while the query runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from strandline.platform.clock import Clock
from strandline.views.table.snapshot import ReadStatistics


class SourceProfile(msgspec.Struct, kw_only=True):
    """One table that was read."""

    table: str
    columns: tuple[str, ...]
    condition: str
    facts: ReadStatistics


class Profile(msgspec.Struct, kw_only=True):
    """The profile of one query. Owned by the thread that runs it, until it has ended."""

    sources: list[SourceProfile] = []
    sql: list[str] = []
    """The SQL that DuckDB ran, in order."""
    seconds: dict[str, float] = {}
    """Time by step, and in total."""
    rows: int = 0
    """Rows of the result."""

    @contextlib.contextmanager
    def timed(self, step: str, clock: Clock) -> Iterator[None]:
        start = clock.monotonic()
        try:
            yield
        finally:
            spent = clock.monotonic() - start
            self.seconds[step] = self.seconds.get(step, 0.0) + spent
