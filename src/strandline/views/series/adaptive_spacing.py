"""Adapts the number of points per index entry, and of entries per batch, to the load. Pure.

    level     0   1   2    3    4    5     6     7     8
    spacing  16  32  64  128  256  512  1024  2048  4096     maximal points of one block
    batch     8  16  32   64  128  256   512  1024  2048     blocks that are written together

Blocks wait in a queue. If it is longer than ``HIGH`` after a batch, points are appended faster than
blocks are written: the level rises, and there are fewer and larger blocks. If it is shorter than
``LOW``, the level falls: a reader then unpacks fewer points that it does not need. Between two
changes are at least ``PATIENCE`` batches, so that the level does not oscillate.
"""

from __future__ import annotations

LEVEL_MAX = 8
LEVEL_FIRST = 6
CAPACITY = 2048
HIGH = 1024
LOW = 512
PATIENCE = 5


class Tuning:
    """The current level. Owned by one thread."""

    def __init__(self, level: int = LEVEL_FIRST) -> None:
        self.level = level
        self.ups = 0
        self.downs = 0
        self._batches = 0

    @property
    def spacing(self) -> int:
        return 16 << self.level

    @property
    def batch(self) -> int:
        return 8 << self.level

    def after_batch(self, waiting: int) -> None:
        """Adapt the level to the number of blocks that still wait after a batch was written."""
        self._batches += 1
        if self._batches < PATIENCE:
            return
        if waiting > HIGH and self.level < LEVEL_MAX:
            self.level += 1
            self.ups += 1
            self._batches = 0
        elif waiting < LOW and self.level > 0:
            self.level -= 1
            self.downs += 1
            self._batches = 0
