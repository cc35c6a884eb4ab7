"""The memory budget of a store: eight shares, and a ladder for whoever wants more.

    share        of 32   what is counted there
    log              4   records in memory, the mapped end of the log
    kv              12   maps of keys
    queue            2   waiting jobs and leases
    series           4   series and metrics
    io               2   uploads and the spool
    checkpoint       1   pages on their way into the reservoir
    cache            2   verified blocks and zones
    reserve          5   nobody's own: what the others borrow

``charge`` and ``release`` count what is there; they never refuse. ``admit`` is asked before
something is brought in, and goes up the ladder only as far as it must:

    1  it fits into the share                        fine
    2  evictors free what is missing and a tenth     fine
    3  the reserve has as much to lend               fine, counted as borrowed
    4  it would fit if less were there               MemoryPressure: retry later
    5  it is larger than share and reserve           TooLarge: it can never fit

What is in ``cache`` can be had again at any time, so a full one is of most use. Nobody is admitted
there, it borrows nothing, and it is not brought down when it is nearly full: whoever wants to keep
something asks to ``make_room``, of all who keep something there in turn.

Borrowed is what a share uses beyond its limit, and nothing else: whatever is released is given back
to the reserve first, and no loan can be forgotten.

``admit`` looks, it does not set aside: threads that are between their ``admit`` and their
``charge`` do not see each other. So the sum of all shares may pass the budget by what such threads
bring, and by nothing else.

Evictors try, they never wait. One is called by the thread that wants memory, which may hold the
lock of another view, or of the same one: it takes locks only with ``acquire(blocking=False)``
(one that the thread holds already is fine), frees nothing when it cannot have them, and never calls
``admit`` itself. No lock of the budget is held while it runs, so it may charge and release. Whoever
calls ``admit`` is in the middle of nothing: an evictor may change the same view.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from strandline.errors import Invalid, MemoryPressure, TooLarge

RELIEF_INTERVAL_S = 5.0
"""How often the store looks for shares above the high mark."""
HIGH_MARK = 0.85
"""A share that uses more than this part of its limit is brought down before somebody must wait."""
LOW_MARK = 0.70
"""How far down."""
GROWTH_MARK = 0.84
"""Up to this part of its limit a share has room for what could also be evicted. Just below the high
mark: a view that has only its minimum brings a full share above that, and idle views give way."""
HEADROOM = 0.10
"""This part of the limit is asked of evictors on top, so that not every request evicts."""

RESERVE = "reserve"
CACHE = "cache"
_PARTS_OF_32 = {
    "log": 4,
    "kv": 12,
    "queue": 2,
    "series": 4,
    "io": 2,
    "checkpoint": 1,
    CACHE: 2,
}
BUDGET_BYTES_MIN = 32

Evictor = Callable[[int], int]
"""Frees about so many bytes, releases them from the share, and says how many it were."""


class ShareUse(msgspec.Struct, frozen=True, kw_only=True):
    """How one share is doing. Of the reserve, what is used is what it has lent."""

    name: str
    limit: int
    used: int
    borrowed: int = 0
    """Bytes beyond the limit, from the reserve."""
    evictions: int = 0
    """How often evictors freed something."""
    evicted_bytes: int = 0
    refusals: int = 0
    """Requests that did not get their memory."""


class Reserve:
    """What shares may borrow. Safe from many threads; without lock, since it keeps no state."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.borrowers: Sequence[Share] = ()

    @property
    def lent(self) -> int:
        return sum([share.borrowed for share in self.borrowers])


class Share:
    """A part of the budget. Safe from many threads."""

    def __init__(self, limit: int, name: str = "", reserve: Reserve | None = None) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        self._calm = int(limit * HIGH_MARK)
        self._growth = int(limit * GROWTH_MARK)
        self._reserve = Reserve(0) if reserve is None else reserve
        # A finalizer may release what a view had, in the middle of one of the few lines below.
        self._counting = threading.RLock()
        self._evictors: tuple[Evictor, ...] = ()
        self._turn = 0
        self._evictions = 0
        self._evicted_bytes = 0
        self._refusals = 0

    @property
    def borrowed(self) -> int:
        """Bytes of the reserve that are in use here."""
        return max(0, self.used - self.limit)

    def charge(self, size: int) -> None:
        """Count what is there."""
        with self._counting:
            self.used += size

    def release(self, size: int) -> None:
        """Count what is there no longer."""
        with self._counting:
            self.used -= size

    def admit(self, size: int) -> None:
        """Return when so much more may be brought in; raise MemoryPressure or TooLarge if not."""
        if self.used + size <= self._calm:
            return  # clearly inside: this is on the path of every append
        self._climb(size)

    @property
    def room(self) -> int:
        """Bytes by which views may keep more in memory than they must; below 0, keep less."""
        return self._growth - self.used

    def make_room(self, size: int) -> bool:
        """Evict until so much more fits into the share, and not more; whether it does."""
        self._evict_until(max(0, self.limit - size), headroom=0)
        return self.used + size <= self.limit

    def evicts(self, evict: Evictor) -> None:
        """Ask this when memory is short: it frees about so many bytes, and says how many."""
        with self._counting:
            self._evictors = (*self._evictors, evict)

    def forget(self, evict: Evictor) -> None:
        """Ask this no longer. What it has charged must be released by whoever charged it."""
        with self._counting:
            self._evictors = tuple(known for known in self._evictors if known != evict)

    def relieve(self) -> None:
        """Bring the share down to the low mark if it is above the high one."""
        if self.used > self._calm:
            self._evict_until(int(self.limit * LOW_MARK), headroom=0)

    def use(self) -> ShareUse:
        """How the share is doing, at this moment."""
        with self._counting:
            return ShareUse(
                name=self.name,
                limit=self.limit,
                used=self.used,
                borrowed=self.borrowed,
                evictions=self._evictions,
                evicted_bytes=self._evicted_bytes,
                refusals=self._refusals,
            )

    def _climb(self, size: int) -> None:
        if size > self.limit + self._reserve.limit:
            self._refuse(TooLarge(self._too_large(size)))
        self._evict_until(max(0, self.limit - size), headroom=int(self.limit * HEADROOM))
        if not self._can_borrow(size):
            self._refuse(MemoryPressure(self._under_pressure(size)))

    def _evict_until(self, target: int, *, headroom: int) -> None:
        """Ask evictors in turn, each time for what is still missing, until the target is met."""
        evictors = self._evictors
        if not evictors:
            return
        self._turn += 1  # a lost count costs nothing: it only says who is asked first
        first = self._turn % len(evictors)
        for evict in (*evictors[first:], *evictors[:first]):
            excess = self.used - target
            if excess <= 0:
                return
            freed = evict(min(excess + headroom, self.used))
            if freed > 0:
                self._count_eviction(freed)

    def _can_borrow(self, size: int) -> bool:
        loan = max(0, self.used + size - self.limit) - self.borrowed
        return loan <= 0 or self._reserve.lent + loan <= self._reserve.limit

    def _count_eviction(self, freed: int) -> None:
        with self._counting:
            self._evictions += 1
            self._evicted_bytes += freed

    def _refuse(self, error: MemoryPressure | TooLarge) -> None:
        with self._counting:
            self._refusals += 1
        raise error

    def _under_pressure(self, size: int) -> str:
        left = max(0, self._reserve.limit - self._reserve.lent)
        return (
            f"no memory for {size} more bytes: the share {self.name!r} uses {self.used} of its "
            f"{self.limit} bytes, nothing more can be evicted, and the reserve has {left} left: "
            "retry later, or raise views.memory_bytes"
        )

    def _too_large(self, size: int) -> str:
        return (
            f"{size} bytes can never fit: the share {self.name!r} has {self.limit} bytes and the "
            f"reserve {self._reserve.limit}: split the request, or raise views.memory_bytes"
        )


class Budget:
    """The memory of one store, divided. Safe from many threads."""

    def __init__(self, total_bytes: int) -> None:
        if total_bytes < BUDGET_BYTES_MIN:
            raise Invalid(
                f"a memory budget is at least {BUDGET_BYTES_MIN} bytes, not {total_bytes}: raise "
                "views.memory_bytes"
            )
        self.total_bytes = total_bytes
        limits = {name: total_bytes * part // 32 for name, part in _PARTS_OF_32.items()}
        self._reserve = Reserve(total_bytes - sum(limits.values()))
        self._shares = {name: Share(limit, name, self._reserve) for name, limit in limits.items()}
        self._reserve.borrowers = tuple(self._shares.values())

    def share(self, name: str) -> Share:
        """The share of this name. The reserve is nobody's own, so it is not among them."""
        return self._shares[name]

    def run_once(self) -> None:
        """Bring every share that is above the high mark down to the low one, but for the cache."""
        for name, share in self._shares.items():
            if name != CACHE:
                share.relieve()

    def use(self) -> dict[str, ShareUse]:
        """How all eight shares are doing, by name."""
        found = {name: share.use() for name, share in self._shares.items()}
        lent = sum(use.borrowed for use in found.values())
        return found | {RESERVE: ShareUse(name=RESERVE, limit=self._reserve.limit, used=lent)}
