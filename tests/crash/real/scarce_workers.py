"""What processes of the nursery do when the system refuses descriptors, threads or memory."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import strandline
from tests.crash.real.promises import settings
from tests.crash.real.quick_clock import QuickClock

STEPS_MAX = 400
WAIT_S_MAX = 10.0
USER = 54321  # of nobody else
MEMORY_STEP = 1024 * 1024
PAYLOAD = b"kept %d"
RECORDS = 50
LEFT_OPEN, NOT_OURS, WRONG_CAUSE, LOST, NEVER_REFUSED, NEVER_OPEN = 3, 4, 5, 6, 7, 8


def open_without_descriptors(directory: str, *, readonly: bool) -> int:
    """Allow so many more descriptors than there are, from none until the store opens."""

    @contextmanager
    def scarce(step: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(_descriptors()) + 1 + step, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return _open_until_it_succeeds(directory, scarce, "ulimit -n", readonly=readonly)


def open_without_threads(directory: str) -> int:
    """Allow so many threads to a user who has none."""
    _opened(directory).close()  # imports, which that user may not read
    os.chown(directory, USER, USER)
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            os.chown(f"{folder}/{name}", USER, USER)
    os.setresuid(USER, USER, USER)

    @contextmanager
    def scarce(step: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        resource.setrlimit(resource.RLIMIT_NPROC, (1 + step, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))

    return _open_until_it_succeeds(directory, scarce, "ulimit -u")


def open_without_memory(directory: str) -> int:
    """Allow so much more memory than there is."""

    @contextmanager
    def scarce(step: int) -> Iterator[None]:
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken + step * MEMORY_STEP, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    return _open_until_it_succeeds(directory, scarce, "memory", "ulimit -u")


def fill(directory: str) -> int:
    """A store with something in every folder."""
    with _opened(directory) as store:
        for number in range(RECORDS):
            store.topic("orders", durability="fsync").append(PAYLOAD % number)
        store.kv("map").put("key", b"value")
        store.queue("jobs").put(b"job")
        store.routers.put("copies", source="orders", dest="copy", create_dest=True)
        store.checkpoint()
        store.relocate()
        store.topic("orders").append(b"in the log")
    return 0


def _open_until_it_succeeds(
    directory: str,
    scarce: Callable[[int], object],
    *causes: str,
    readonly: bool = False,
) -> int:
    """After every refused opening nothing is left open, and the next one succeeds."""
    _opened(directory, readonly=readonly).close()  # what is imported and allocated at first use
    for step in range(STEPS_MAX):
        descriptors, threads = _descriptors(), set(threading.enumerate())
        store, problem = None, 0
        with scarce(step):  # type: ignore[attr-defined]  # a context manager
            try:
                store = _opened(directory, readonly=readonly)
            except strandline.Unavailable as error:
                problem = 0 if any(cause in str(error) for cause in causes) else WRONG_CAUSE
                reason = str(error)
            except BaseException as error:  # noqa: BLE001 - every other one is a failure
                problem, reason = NOT_OURS, repr(error)
        if problem:
            raise SystemExit(f"{problem}: {reason}")
        if store is not None:
            store.close()
            return 0 if step else NEVER_REFUSED
        left = [thread for thread in threading.enumerate() if _lives(thread, threads)]
        more = _descriptors() - descriptors
        if more or left:
            raise SystemExit(f"{LEFT_OPEN}: {more} {left} at step {step}")
        with _opened(directory) as store:
            if store.topic("orders").read(0, RECORDS).data[-1] != PAYLOAD % (RECORDS - 1):
                return LOST
    return NEVER_OPEN


def _lives(thread: threading.Thread, before: set[threading.Thread]) -> bool:
    """Without memory for a lock a thread cannot be waited for: it may end a moment later."""
    if thread not in before:
        thread.join(WAIT_S_MAX)
    return thread not in before and thread.is_alive()


def _opened(directory: str, *, readonly: bool = False) -> strandline.Store:
    return strandline.open(directory, settings=settings(), clock=QuickClock(), readonly=readonly)


def _descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd") if _is_open(int(name))}


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
