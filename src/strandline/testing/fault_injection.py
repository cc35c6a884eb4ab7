"""Every call to the simulated disk passes here: counted, shown to the test, made to fail.

In this order: the call is counted, ``on_call(operation, path)`` runs without any lock held (it may
take crash states, block, switch the power off or raise), the power is looked at, then the faults.
What the call does to the disk happens inside ``effect``, which looks at the power again: a call
that was let in while the power went off has not happened, and nobody is told that it has.

Calls that are several system calls on a real disk have a step for each, so that a test can stop
or fail between them:

    make_dirs        .sync_dir
    prepare          .write  .sync  .sync_dir
    reserve          .write
    durable_replace  .write  .sync  .rename  .sync_dir
    commit                   .sync  .rename  .sync_dir
    commit_new               .sync  .link    .sync_dir

A bare name is the call itself: ``sync`` is the sync of a log file, ``write`` that of a log file or
of a file being created, ``store`` a store into a mapping.
"""

from __future__ import annotations

import errno as codes
import threading
from collections import Counter
from collections.abc import Callable

from strandline.testing.sim_tree import failure

ANY = "*"
STEPS = {
    "make_dirs": ("sync_dir",),
    "prepare": ("write", "sync", "sync_dir"),
    "reserve": ("write",),
    "durable_replace": ("write", "sync", "rename", "sync_dir"),
    "commit": ("sync", "rename", "sync_dir"),
    "commit_new": ("sync", "link", "sync_dir"),
}
SINGLE = (
    "abandon",
    "commit",
    "commit_new",
    "create",
    "durable_replace",
    "free_bytes",
    "list_dir",
    "lock",
    "make_dirs",
    "open_direct",
    "open_log",
    "open_read",
    "pread",
    "prepare",
    "read",
    "remove",
    "rename",
    "reserve",
    "sync",
    "sync_dir",
    "write",
    "write_direct",
)
FALLIBLE = frozenset(SINGLE) | {f"{call}.{step}" for call in STEPS for step in STEPS[call]}

Hook = Callable[[str, str], None]


class Fault:
    """One planned failure. ``fired`` tells how often it has struck."""

    def __init__(
        self,
        operation: str,
        *,
        nth: int,
        errno: int,
        once: bool,
        path_contains: str,
        short: int | None,
    ) -> None:
        self.operation = operation
        self.errno = errno
        self.short = short
        self.fired = 0
        self._nth = nth
        self._once = once
        self._path_contains = path_contains
        self._seen = 0

    def strikes(self, operation: str, path: str) -> bool:
        """Count the call when it matches; True when it is to fail."""
        if self.operation not in (ANY, operation) or operation not in FALLIBLE:
            return False
        if self._path_contains not in path:
            return False
        self._seen += 1
        strikes = self._seen == self._nth or (self._seen > self._nth and not self._once)
        self.fired += strikes
        return strikes


class Effect:
    """The moment in which a call changes the disk: under the lock, and with the power on."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        self._calls.lock.acquire()
        if not self._calls.powered:
            self._calls.lock.release()
            raise OSError(codes.EIO, "the power is off")

    def __exit__(self, *_: object) -> None:
        self._calls.lock.release()


class Calls:
    """The gate in front of a simulated disk, and its one lock. Safe from many threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.effect = Effect(self)
        self.counts: Counter[str] = Counter()
        self.total = 0
        self.on_call: Hook | None = None
        self.powered = True
        self._faults: list[Fault] = []

    def fail(self, fault: Fault) -> None:
        if fault.operation not in FALLIBLE | {ANY}:
            raise ValueError(f"{fault.operation!r} is no operation that can fail")
        if fault.short is not None and "write" not in fault.operation:
            raise ValueError(f"{fault.operation!r} is no write and cannot be short")
        with self.lock:
            self._faults.append(fault)

    def heal(self) -> None:
        """Forget every planned failure."""
        with self.lock:
            self._faults.clear()

    def power_off(self) -> None:
        """No call changes the disk from here on."""
        with self.lock:
            self.powered = False

    def enter(self, operation: str, path: str) -> Fault | None:
        """Let the call in, or raise. A fault is returned when the call is to be cut short."""
        with self.lock:
            self.counts[operation] += 1
            self.total += 1
        if self.on_call is not None:
            self.on_call(operation, path)
        if not self.powered:
            raise OSError(codes.EIO, "the power is off", path)
        if not self._faults:
            return None
        with self.lock:
            struck = [fault for fault in self._faults if fault.strikes(operation, path)]
        if struck and struck[0].short is None:
            raise failure(struck[0].errno, path)
        return struck[0] if struck else None
