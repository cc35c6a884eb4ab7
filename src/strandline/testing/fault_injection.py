"""Counts calls to the simulated disk, reports them to the test, and injects failures.

In this order: the call is counted, ``on_call(operation, path)`` runs without any lock held (it may
take crash states, block, switch the power off or raise), the power is checked, then the faults. The
call changes the disk inside ``effect``, which checks the power again: a call that was admitted
while the power went off has no effect, and does not report success.

Calls that are several system calls on a real disk have a step for each, so that a test can stop or
fail between them:

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
    """One planned failure. ``fired`` counts how often it occurred."""

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
        self._matched = 0

    def occurs(self, operation: str, path: str) -> bool:
        """Count a matching call; returns whether it fails."""
        if self.operation not in (ANY, operation) or operation not in FALLIBLE:
            return False
        if self._path_contains not in path:
            return False
        self._matched += 1
        fails = self._matched == self._nth or (self._matched > self._nth and not self._once)
        self.fired += fails
        return fails


class Effect:
    """Context in which a call changes the disk: with the lock held, and the power on."""

    def __init__(self, calls: FaultInjector) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        self._calls.lock.acquire()
        if not self._calls.powered:
            self._calls.lock.release()
            raise OSError(codes.EIO, "the power is off")

    def __exit__(self, *_: object) -> None:
        self._calls.lock.release()


class FaultInjector:
    """Admits calls to a simulated disk, and has its only lock. Safe from many threads."""

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
            raise ValueError(f"{fault.operation!r} is not an operation that can fail")
        if fault.short is not None and "write" not in fault.operation:
            raise ValueError(f"{fault.operation!r} is not a write and cannot be short")
        with self.lock:
            self._faults.append(fault)

    def heal(self) -> None:
        """Remove all planned failures."""
        with self.lock:
            self._faults.clear()

    def power_off(self) -> None:
        """Let no call change the disk from now on."""
        with self.lock:
            self.powered = False

    def enter(self, operation: str, path: str) -> Fault | None:
        """Admit a call, or raise. Returns the fault of a write that is to be short."""
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
            occurring = [fault for fault in self._faults if fault.occurs(operation, path)]
        if occurring and occurring[0].short is None:
            raise failure(occurring[0].errno, path)
        return occurring[0] if occurring else None
