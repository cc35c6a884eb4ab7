"""How many points an index entry stands for, and how many entries are written together. Pure.

    level     0   1   2    3    4    5     6     7     8
    spacing  16  32  64  128  256  512  1024  2048  4096     points of one block, at most
    batch     8  16  32   64  128  256   512  1024  2048     blocks that go into the map together

Blocks wait in a queue. When it is longer than ``HIGH`` after a batch, points come faster than
blocks are written: the level goes up, and there are fewer and larger ones. Below ``LOW`` there is
time, and the level goes down: a reader then unpacks less that it does not want. Between two changes
lie ``PATIENCE`` batches, so that it does not swing.
"""

from __future__ import annotations

LEVEL_MAX = 8
LEVEL_FIRST = 6
CAPACITY = 2048
HIGH = 1024
LOW = 512
PATIENCE = 5


class Tuning:
    """The present level. Owned by one thread."""

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
        """Adapt to how many blocks still wait after one batch was written."""
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
