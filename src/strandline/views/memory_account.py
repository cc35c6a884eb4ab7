"""Tells a share of the memory budget how much of it a fold really takes."""

from __future__ import annotations

from strandline.config.memory_budget import Share


class Account:
    """What one fold has charged. Owned by one thread.

    It gives back what it charged when it goes: a fold that failed is dropped by its host without a
    word.
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self.charged = 0

    def settle(self, size: int) -> None:
        """The fold takes so much now."""
        difference, self.charged = size - self.charged, size
        if difference > 0:
            self._share.charge(difference)
        elif difference:
            self._share.release(-difference)

    def __del__(self) -> None:
        self.settle(0)
