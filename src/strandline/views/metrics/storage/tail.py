"""The newest points in the order of arrival, until they are sorted into a run.

Columns of a fixed size are filled from the front. Filled rows never change, and a full tail gets
new columns: so a reader may keep the slices that it got.
"""

from __future__ import annotations

import numpy as np

from strandline.views.metrics.storage.block import FieldPoints
from strandline.views.metrics.value_types import Ints

FIELD_SHIFT = 32
"""A column of points, one field of one series, is ``field << 32 | series``."""
SERIES_MASK = (1 << FIELD_SHIFT) - 1


class Tail:
    """Points that are not in a run yet. Owned by one thread."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self._columns = np.empty(0, dtype="<i8")
        self._at = np.empty(0, dtype="<i8")
        self._bits = np.empty(0, dtype="<i8")

    @property
    def room(self) -> int:
        return self.size - self.count

    @property
    def ram(self) -> int:
        return self._columns.nbytes * 3

    def add(self, columns: Ints, at: Ints, bits: Ints) -> None:
        """Add points, which must fit."""
        first, self.count = self.count, self.count + len(at)
        if self.count > len(self._at):
            self._grow()
        self._columns[first : self.count] = columns
        self._at[first : self.count] = at
        self._bits[first : self.count] = bits

    def add_one(self, column: int, at: int, bits: int) -> None:
        """Add one point, which must fit."""
        row = self.count
        if row == len(self._at):
            self._grow()
        self._columns[row] = column
        self._at[row] = at
        self._bits[row] = bits
        self.count = row + 1

    def all(self) -> tuple[Ints, Ints, Ints]:
        """All points: columns, times, bits."""
        return self._filled()

    def clear(self) -> None:
        self.count = 0
        self._columns = self._at = self._bits = np.empty(0, dtype="<i8")

    def points(
        self, field: int, first_series: int = 0, last_series: int = SERIES_MASK
    ) -> FieldPoints:
        """The points of a field and a range of series, in the order of arrival."""
        columns, at, bits = self._filled()
        first, last = field << FIELD_SHIFT | first_series, field << FIELD_SHIFT | last_series
        is_match = columns == first if first == last else (columns >= first) & (columns <= last)
        positions = np.flatnonzero(is_match)
        return FieldPoints(columns[positions] & SERIES_MASK, at[positions], bits[positions])

    def _filled(self) -> tuple[Ints, Ints, Ints]:
        count = self.count
        return self._columns[:count], self._at[:count], self._bits[:count]

    def _grow(self) -> None:
        """Double the columns: a view with few points needs little memory."""
        size = min(self.size, max(64, 2 * len(self._at), self.count))
        for name in ("_columns", "_at", "_bits"):
            old = getattr(self, name)
            grown = np.empty(size, dtype="<i8")
            grown[: len(old)] = old
            setattr(self, name, grown)
