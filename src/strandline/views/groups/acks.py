"""Group commit of acks and nacks: one write of the offsets for many of them.

An ack first ends the lease, so that the record cannot be delivered to another member meanwhile.
Then it is queued. The first caller in the queue stores the offsets for all queued acks; the others
find that theirs are stored. While one write is in progress the next group forms, so a slow disk
makes groups larger instead of writes more frequent.

When a write fails, the leases of its group are restored. The write may have happened nevertheless:
then the records are not delivered again after a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from strandline.errors import Closed, Conflict, Fenced, StrandlineError
from strandline.views.groups.group_state import DeliveryState
from strandline.views.groups.inflight import Lease
from strandline.views.groups.offset_store import OffsetStore
from strandline.views.groups.offsets import Offsets

MOVED = "the group was moved by a seek, and its deliveries are no longer valid: read again"


class PendingAck:
    """An ack or a nack of leases, and its outcome."""

    __slots__ = ("due", "failure", "is_complete", "leases")

    def __init__(self, leases: list[Lease], due: float | None) -> None:
        self.leases = leases
        self.due = due
        """When to deliver the records again; None if they are done."""
        self.is_complete = False
        self.failure: StrandlineError | None = None

    def write(self, offsets: Offsets) -> None:
        """Apply it to offsets."""
        seqs = [lease.record.seq for lease in self.leases]
        if self.due is None:
            offsets.mark_done(seqs)
            return
        for seq in seqs:
            offsets.fail(seq)


class AckWriter:
    """Stores acks and nacks of members. Safe to use from many threads."""

    def __init__(self, state: DeliveryState, offset_store: OffsetStore) -> None:
        self.finished: Closed | None = None
        """The error of all later writes, None while writes are possible."""
        self.is_ours = False
        """Whether this opening is the one that writes."""
        self._state = state
        self._offset_store = offset_store
        self._writing = threading.Lock()
        self._pending: list[PendingAck] = []

    def take_over(self, begin: Callable[[], Offsets]) -> None:
        """Make this opening the one that writes, if it is not yet."""
        with self._writing:
            if self.is_ours:
                return
            offsets = self._offset_store.take_over(begin)
            with self._state.lock:
                self._state.reset(offsets)
            self.is_ours = True

    def store(self, settlement: PendingAck) -> None:
        """Return when a settlement is stored, by this thread or by an earlier one in the queue."""
        with self._state.lock:
            self._pending.append(settlement)
        try:
            with self._writing:
                if not settlement.is_complete:
                    self._write_pending()
        except BaseException:
            self._withdraw(settlement)
            raise
        if settlement.failure is not None:
            raise settlement.failure

    def move(self, floor: int) -> None:
        """Move the group: all seqs up to ``floor`` are done, and none after it."""
        with self._writing:
            with self._state.lock:
                offsets = self._state.offsets.moved(floor)
            self._save(offsets, replace=True)
            with self._state.lock:
                self._state.reset(offsets)

    def _write_pending(self) -> None:
        with self._state.lock:
            group, self._pending = self._pending, []
            stale = [each for each in group if self._state.is_stale(each.leases)]
            group = [each for each in group if each not in stale]
            offsets = self._state.offsets.copy()
        _end(stale, Conflict(MOVED))
        for settlement in group:
            settlement.write(offsets)
        try:
            if group:
                self._save(offsets)
        except StrandlineError as error:
            self._fail(group, error)
        except BaseException:
            self._fail(group, Closed("an ack was interrupted; it may or may not be stored"))
            raise
        else:
            self._succeed(group, offsets)

    def _succeed(self, group: list[PendingAck], offsets: Offsets) -> None:
        state = self._state
        with state.lock:
            state.offsets.merge(offsets)
            for settlement in group:
                if settlement.due is None:
                    state.finish(settlement.leases)
                else:
                    state.give_back(settlement.leases, settlement.due)
        _end(group, None)

    def _fail(self, group: list[PendingAck], failure: StrandlineError) -> None:
        with self._state.lock:
            for settlement in group:
                self._state.restore(settlement.leases)
        _end(group, failure)

    def _withdraw(self, settlement: PendingAck) -> None:
        """Remove a settlement whose caller was interrupted, and restore its leases."""
        with self._state.lock:
            if settlement in self._pending:
                self._pending.remove(settlement)
                self._state.restore(settlement.leases)

    def _save(self, offsets: Offsets, *, replace: bool = False) -> None:
        try:
            self._offset_store.save(offsets, replace=replace)
        except Fenced as error:
            self.finished = error
            raise


def _end(group: list[PendingAck], failure: StrandlineError | None) -> None:
    for settlement in group:
        settlement.failure = failure
        settlement.is_complete = True
