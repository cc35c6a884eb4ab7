"""Windows of a rule of a metrics view that were made elsewhere: which ones, and by what they hold.

Apart from the view itself, so that a store need not load all views to be handed some.
"""

from __future__ import annotations

from typing import NamedTuple


class MadeWindows(NamedTuple):
    """Which windows of which rule."""

    source: str
    into: str
    version: int
    """The seq of the rule."""
    after: int | None
    """How far the rule was."""
    first: int
    until: int
    position: int
    """The log up to this seq was looked at."""
