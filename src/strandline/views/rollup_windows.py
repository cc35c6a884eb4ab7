"""Identifies windows of a rule of a metrics view that another process computed.

A module of its own, so that a store can accept such windows without loading all views.
"""

from __future__ import annotations

from typing import NamedTuple


class RollupWindows(NamedTuple):
    """Which windows of which rule."""

    source: str
    into: str
    version: int
    """The seq of the rule."""
    after: int | None
    """The position of the rule before these windows."""
    first: int
    until: int
    position: int
    """The log was read up to this seq."""
