"""The summary of a rebuild."""

from __future__ import annotations

import msgspec


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A range in which a view differs from its rebuild."""

    first: str
    """The first name of the range, as text; empty for the first range."""
    rebuilt: int
    """Parts of the rebuilt view in the range: keys, jobs, sources, columns of points."""
    live: int
    """Parts of the saved view."""
    differing: int
    names: list[str]
    """The first differing parts."""


class RebuildSummary(msgspec.Struct, kw_only=True):
    """The result of a rebuild."""

    store: str
    kind: str
    name: str
    engine: str = ""
    replaced: bool = False
    position: list[int] = []
    """The seqs up to which the view's topics were folded."""
    records: int = 0
    parts: int = 0
    """Visible parts of the view: keys, jobs, sources, columns of points. 0 when replaced."""
    ranges: int = 0
    """Ranges that were compared, or folded separately."""
    pages: int = 0
    """Pages of a view that was replaced."""
    taken_over: int = 0
    """Tasks that were finished before: by an interrupted run, or an earlier attempt of this one."""
    again: int = 0
    """How often it was started again, because records left the log in the meantime."""
    seconds: float = 0.0
    load_seconds: float = 0.0
    """The part of it until the store's writer had installed the view."""
    differences: list[Difference] = []

    @property
    def same(self) -> bool:
        return not self.differences
