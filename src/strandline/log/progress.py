"""The progress callback of long operations."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""The name of the step, how much of it is done, and the total."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""
    del what, done, total
