"""Charges a share of the memory budget with the actual memory use of a fold."""

from __future__ import annotations

from strandline.config.memory_budget import MemoryShare


class Account:
    """The memory that one fold has charged. Owned by one thread.

    Its destructor releases the charge: a runner drops a failed fold without an explicit close.
    """

    def __init__(self, share: MemoryShare) -> None:
        self._share = share
        self.charged = 0

    def set_charge(self, size: int) -> None:
        """Set the charge to ``size`` bytes."""
        difference, self.charged = size - self.charged, size
        if difference > 0:
            self._share.charge(difference)
        elif difference:
            self._share.release(-difference)

    def __del__(self) -> None:
        self.set_charge(0)
