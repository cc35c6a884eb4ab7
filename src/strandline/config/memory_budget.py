"""The memory budget of a store: eight shares, and an escalation when a share is full.

    share        of 32   what is counted there
    log              4   records in memory, the mapped end of the log
    kv              12   maps of keys
    queue            2   waiting jobs and leases
    series           4   series and metrics
    io               2   uploads and the spool
    checkpoint       1   pages that are being written to the reservoir
    cache            2   verified blocks and zones
    reserve          5   belongs to no share: the others borrow from it

``charge`` and ``release`` count what is in memory; they never fail. ``admit`` is called before
memory is used, and takes only as many of these steps as necessary:

    1  the bytes fit into the share                  admitted
    2  evictors free what is missing and a tenth     admitted
    3  the reserve has enough left to lend           admitted, counted as borrowed
    4  they would fit if the share held less         MemoryPressure: retry later
    5  they exceed share and reserve together        TooLarge: they can never fit

The content of ``cache`` can be read again at any time, so it is most useful when it is full.
``admit`` is not used there, it borrows nothing, and it is not relieved when it is nearly full: a
cache that stores something calls ``make_room``, which evicts from all caches in turn.

Borrowed are exactly the bytes that a share uses beyond its limit: released bytes go back to the
reserve first, and no loan can be lost.

``admit`` checks and does not reserve: threads between their ``admit`` and their ``charge`` do not
see each other. So the sum of all shares may exceed the budget by what such threads add, and by
nothing else.

Evictors never wait. An evictor is called by the thread that needs memory, which may hold the lock
of another view, or of the same one: it acquires locks only with ``acquire(blocking=False)`` (a lock
that the thread holds already is fine), frees nothing when it cannot get them, and never calls
``admit`` itself. No lock of the budget is held while it runs, so it may charge and release. A
caller of ``admit`` is not in the middle of a change: an evictor may change the same view.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from strandline.errors import Invalid, MemoryPressure, TooLarge

RELIEF_INTERVAL_S = 5.0
"""Seconds between checks for shares above the high mark."""
HIGH_MARK = 0.85
"""A share that uses more than this part of its limit is relieved before a caller must wait."""
LOW_MARK = 0.70
"""The part of its limit that a relieved share uses."""
GROWTH_MARK = 0.84
"""Up to this part of its limit a share accepts memory that could also be evicted. Just below the
high mark: a view at its minimum brings a full share above that, and idle views are evicted."""
HEADROOM = 0.10
"""Evictors free this part of the limit in addition, so that not every request evicts."""

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
"""Frees about this many bytes, releases them from the share, and returns their number."""


class ShareUse(msgspec.Struct, frozen=True, kw_only=True):
    """Use of one share. ``used`` of the reserve is what it has lent."""

    name: str
    limit: int
    used: int
    borrowed: int = 0
    """Bytes beyond the limit, from the reserve."""
    evictions: int = 0
    """Number of calls in which an evictor freed memory."""
    evicted_bytes: int = 0
    refusals: int = 0
    """Number of requests that failed."""


class _Reserve:
    """The memory that shares borrow. Safe from many threads: it has no state, hence no lock."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.borrowers: Sequence[MemoryShare] = ()

    @property
    def lent(self) -> int:
        return sum([share.borrowed for share in self.borrowers])


class MemoryShare:
    """A part of the budget. Safe from many threads."""

    def __init__(self, limit: int, name: str = "", reserve: _Reserve | None = None) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        self._high_bytes = int(limit * HIGH_MARK)
        self._growth_bytes = int(limit * GROWTH_MARK)
        self._reserve = _Reserve(0) if reserve is None else reserve
        # Reentrant: a finalizer may release a view's memory while this thread holds the lock.
        self._lock = threading.RLock()
        self._evictors: tuple[Evictor, ...] = ()
        self._rotation = 0
        self._evictions = 0
        self._evicted_bytes = 0
        self._rejections = 0

    @property
    def borrowed(self) -> int:
        """Bytes of the reserve that are in use here."""
        return max(0, self.used - self.limit)

    def charge(self, size: int) -> None:
        """Count bytes that came into memory."""
        with self._lock:
            self.used += size

    def release(self, size: int) -> None:
        """Count bytes that left memory."""
        with self._lock:
            self.used -= size

    def admit(self, size: int) -> None:
        """Return if the share admits so many more bytes; else raise MemoryPressure or TooLarge."""
        if self.used + size <= self._high_bytes:
            return  # clearly inside, without the lock: this is on the path of every append
        self._admit_under_pressure(size)

    @property
    def spare_bytes(self) -> int:
        """Bytes that views may use beyond their minimum; if negative, they must use less."""
        return self._growth_bytes - self.used

    def try_evict(self, size: int) -> bool:
        """Evict just enough for so many more bytes; return whether they fit into the share."""
        self._evict_until(max(0, self.limit - size), headroom=0)
        return self.used + size <= self.limit

    def add_evictor(self, evict: Evictor) -> None:
        """Add an evictor, which is called when memory is short."""
        with self._lock:
            self._evictors = (*self._evictors, evict)

    def remove_evictor(self, evict: Evictor) -> None:
        """Remove an evictor. The owner of its memory must release what it charged."""
        with self._lock:
            self._evictors = tuple(known for known in self._evictors if known != evict)

    def relieve(self) -> None:
        """Evict down to the low mark if the share is above the high mark."""
        if self.used > self._high_bytes:
            self._evict_until(int(self.limit * LOW_MARK), headroom=0)

    def use(self) -> ShareUse:
        """The use of the share at this time."""
        with self._lock:
            return ShareUse(
                name=self.name,
                limit=self.limit,
                used=self.used,
                borrowed=self.borrowed,
                evictions=self._evictions,
                evicted_bytes=self._evicted_bytes,
                refusals=self._rejections,
            )

    def _admit_under_pressure(self, size: int) -> None:
        if size > self.limit + self._reserve.limit:
            self._reject(TooLarge(self._too_large(size)))
        self._evict_until(max(0, self.limit - size), headroom=int(self.limit * HEADROOM))
        if not self._can_borrow(size):
            self._reject(MemoryPressure(self._under_pressure(size)))

    def _evict_until(self, target: int, *, headroom: int) -> None:
        """Call the evictors in turn, each for what is still missing, until the target is met."""
        evictors = self._evictors
        if not evictors:
            return
        self._rotation += 1  # without the lock: a lost update only changes the order
        first = self._rotation % len(evictors)
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
        with self._lock:
            self._evictions += 1
            self._evicted_bytes += freed

    def _reject(self, error: MemoryPressure | TooLarge) -> None:
        with self._lock:
            self._rejections += 1
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
        self._reserve = _Reserve(total_bytes - sum(limits.values()))
        self._shares = {
            name: MemoryShare(limit, name, self._reserve) for name, limit in limits.items()
        }
        self._reserve.borrowers = tuple(self._shares.values())

    def share(self, name: str) -> MemoryShare:
        """The share of this name. The reserve is not among them."""
        return self._shares[name]

    def run_once(self) -> None:
        """Relieve every share that is above the high mark, except the cache."""
        for name, share in self._shares.items():
            if name != CACHE:
                share.relieve()

    def use(self) -> dict[str, ShareUse]:
        """The use of all eight shares, by name."""
        uses = {name: share.use() for name, share in self._shares.items()}
        lent = sum(use.borrowed for use in uses.values())
        return uses | {RESERVE: ShareUse(name=RESERVE, limit=self._reserve.limit, used=lent)}
