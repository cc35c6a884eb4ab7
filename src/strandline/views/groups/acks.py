"""Acks and nacks in line, one write for all of them.

Whoever settles something takes it out of the member's hands first, so that it cannot be delivered
to another meanwhile. Then it lines up. Whoever is first in line stores the offsets for all who have
come so far; those behind find that theirs are stored. While one write is under way the next line
forms, so a slow disk makes longer lines rather than more writes.

When a write fails, everything that was to be settled is in its member's hands as before. It may
have been stored all the same: then it is not delivered again after a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from strandline.errors import Closed, Conflict, Fenced, StrandlineError
from strandline.views.groups.group_state import Desk
from strandline.views.groups.inflight import Lease
from strandline.views.groups.offset_store import Keeper
from strandline.views.groups.offsets import Offsets

MOVED = "the group was moved meanwhile, and nothing is anybody's any more: read on"


class Settlement:
    """Leases that are held to be settled, and how that went."""

    __slots__ = ("due", "failure", "leases", "settled")

    def __init__(self, leases: list[Lease], due: float | None) -> None:
        self.leases = leases
        self.due = due
        """When to deliver them again; None when they are done."""
        self.settled = False
        self.failure: StrandlineError | None = None

    def write(self, offsets: Offsets) -> None:
        """How the offsets are with it."""
        seqs = [lease.taken.seq for lease in self.leases]
        if self.due is None:
            offsets.settle(seqs)
            return
        for seq in seqs:
            offsets.fail(seq)


class Settling:
    """Stores what members are done with. Safe from many threads."""

    def __init__(self, desk: Desk, keeper: Keeper) -> None:
        self.finished: Closed | None = None
        """Why nothing can be stored any more."""
        self.is_ours = False
        """Whether this opening is the one that writes."""
        self._desk = desk
        self._keeper = keeper
        self._writing = threading.Lock()
        self._line: list[Settlement] = []

    def take_over(self, begin: Callable[[], Offsets]) -> None:
        """Make this opening the one that writes, if it is not."""
        with self._writing:
            if self.is_ours:
                return
            offsets = self._keeper.take_over(begin)
            with self._desk.lock:
                self._desk.begin(offsets)
            self.is_ours = True

    def store(self, settlement: Settlement) -> None:
        """Return when a settlement is stored, by this thread or by one before it in line."""
        with self._desk.lock:
            self._line.append(settlement)
        try:
            with self._writing:
                if not settlement.settled:
                    self._write_line()
        except BaseException:
            self._drop_out(settlement)
            raise
        if settlement.failure is not None:
            raise settlement.failure

    def move(self, floor: int) -> None:
        """Be done with everything up to here, and with nothing behind."""
        with self._writing:
            with self._desk.lock:
                offsets = self._desk.offsets.moved(floor)
            self._keep(offsets, anew=True)
            with self._desk.lock:
                self._desk.begin(offsets)

    def _write_line(self) -> None:
        with self._desk.lock:
            line, self._line = self._line, []
            stale = [each for each in line if self._desk.is_stale(each.leases)]
            line = [each for each in line if each not in stale]
            offsets = self._desk.offsets.copy()
        _end(stale, Conflict(MOVED))
        for settlement in line:
            settlement.write(offsets)
        try:
            if line:
                self._keep(offsets)
        except StrandlineError as error:
            self._fail(line, error)
        except BaseException:
            self._fail(line, Closed("an ack was interrupted, and may have happened or not"))
            raise
        else:
            self._succeed(line, offsets)

    def _succeed(self, line: list[Settlement], offsets: Offsets) -> None:
        desk = self._desk
        with desk.lock:
            desk.offsets.merge(offsets)
            for settlement in line:
                if settlement.due is None:
                    desk.settle(settlement.leases)
                else:
                    desk.give_back(settlement.leases, settlement.due)
        _end(line, None)

    def _fail(self, line: list[Settlement], failure: StrandlineError) -> None:
        with self._desk.lock:
            for settlement in line:
                self._desk.let_go(settlement.leases)
        _end(line, failure)

    def _drop_out(self, settlement: Settlement) -> None:
        """Somebody was interrupted in line."""
        with self._desk.lock:
            if settlement in self._line:
                self._line.remove(settlement)
                self._desk.let_go(settlement.leases)

    def _keep(self, offsets: Offsets, *, anew: bool = False) -> None:
        try:
            self._keeper.save(offsets, anew=anew)
        except Fenced as error:
            self.finished = error
            raise


def _end(line: list[Settlement], failure: StrandlineError | None) -> None:
    for settlement in line:
        settlement.failure = failure
        settlement.settled = True
