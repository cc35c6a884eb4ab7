"""What an answer has cost: a profile for EXPLAIN, filled while the answer is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from strandline.platform.clock import Clock
from strandline.views.table.snapshot import Facts


class Source(msgspec.Struct, kw_only=True):
    """One table that was read."""

    table: str
    columns: tuple[str, ...]
    condition: str
    facts: Facts


class Profile(msgspec.Struct, kw_only=True):
    """Owned by the thread that runs a question, until there is an answer."""

    sources: list[Source] = []
    sql: list[str] = []
    """What DuckDB was asked, in that order."""
    seconds: dict[str, float] = {}
    """Time by step, of the whole question."""
    rows: int = 0
    """Rows of the answer."""

    @contextlib.contextmanager
    def timed(self, step: str, clock: Clock) -> Iterator[None]:
        begun = clock.monotonic()
        try:
            yield
        finally:
            spent = clock.monotonic() - begun
            self.seconds[step] = self.seconds.get(step, 0.0) + spent
