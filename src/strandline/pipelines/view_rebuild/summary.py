"""What a rebuild tells of itself."""

from __future__ import annotations

import msgspec


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A range in which a view is not what its log folds into."""

    first: str
    """Its first name, as text; empty for the first range of all."""
    rebuilt: int
    """Parts that the log has there: keys, jobs, sources, columns of points."""
    live: int
    """Those that the view has."""
    differing: int
    names: list[str]
    """The first of them."""


class RebuildSummary(msgspec.Struct, kw_only=True):
    """What a rebuild found, or did."""

    store: str
    kind: str
    name: str
    engine: str = ""
    replaced: bool = False
    position: list[int] = []
    """How far the view's topics were folded."""
    records: int = 0
    parts: int = 0
    """What can be seen of the view: keys, jobs, sources, columns of points. 0 when replaced."""
    ranges: int = 0
    """Ranges that were compared, or folded by themselves."""
    pages: int = 0
    """Of a view that was replaced."""
    taken_over: int = 0
    """Tasks that were done already: by a run that was ended, or before this one began again."""
    again: int = 0
    """How often it was begun again, because records left the log meanwhile."""
    seconds: float = 0.0
    load_seconds: float = 0.0
    """Of that: until the store's writer had taken the view."""
    differences: list[Difference] = []

    @property
    def same(self) -> bool:
        return not self.differences
