"""What processes of the nursery do when something runs out: descriptors, file sizes, the disk."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import strandline
from tests.crash.real.promises import Client, report, settings
from tests.crash.real.quick_clock import QuickClock

WAIT_S_MAX = 30.0
REFUSED_MIN = 50
TAKEN_ENOUGH = 10
PAUSE_S = 0.01
FILE_SIZE = 512 * 1024
NEVER_REFUSED, WRONG_ERROR, READS_FAIL, NOT_GREEN = 3, 4, 5, 6


def run_out_of_descriptors(directory: str, pipe: str) -> int:
    """Allow no more open files than there are, append until that hurts, then allow them again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def starve() -> None:
        taken = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))

    def relieve() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return _starve_and_relieve(directory, pipe, starve, relieve, strandline.Unavailable)


def run_into_a_file_size_limit(directory: str, pipe: str) -> int:
    """Allow no file as large as the second one of the log, then allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE + 1, hard))

    def relieve() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return _starve_and_relieve(directory, pipe, lambda: None, relieve, strandline.DiskFull)


def fill_the_disk(directory: str, pipe: str) -> int:
    """Fill a small disk to the last byte, append until it is refused, then free some space."""
    filler = Path(directory).parent / "filler"

    def starve() -> None:
        fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(fd, bytes(4096)):
                pass
        os.close(fd)

    return _starve_and_relieve(directory, pipe, starve, filler.unlink, strandline.DiskFull)


def fill_the_disk_and_die(directory: str, pipe: str) -> int:
    """Fill the disk, append until it is refused, and end without closing."""
    store = strandline.open(directory, settings=settings(), clock=QuickClock())
    client = Client(store, report(store, pipe, 1), seed=1)
    with contextlib.suppress(strandline.DiskFull):
        while True:
            client.append()
    os._exit(0)


def _starve_and_relieve(
    directory: str,
    pipe: str,
    starve: Callable[[], None],
    relieve: Callable[[], None],
    refusal: type[strandline.StrandlineError],
) -> int:
    sizes = settings(file_size=FILE_SIZE)
    with strandline.open(directory, settings=sizes, clock=QuickClock()) as store:
        client = Client(store, report(store, pipe, 1), seed=1)
        for _ in range(50):
            client.append()
        starve()
        refused = 0
        deadline = time.monotonic() + WAIT_S_MAX
        while refused < REFUSED_MIN and time.monotonic() < deadline:
            try:
                client.append()
            except refusal:
                refused += 1
            except strandline.Unavailable:
                relieve()
                return WRONG_ERROR
        readable = _is_readable(store)
        relieve()
        if not readable:
            return READS_FAIL
        if not _recovers(store, client):
            return NOT_GREEN
    return 0 if refused else NEVER_REFUSED


def _is_readable(store: strandline.Store) -> bool:
    """Reading the newest records needs no new descriptor and no space."""
    for name in store.topics():
        topic = store.topic(name)
        head = topic.head_seq
        if head and topic.read(head - 1, 1).next != head:
            return False
    return True


def _recovers(store: strandline.Store, client: Client) -> bool:
    """Whether appends are taken again and health turns green, without anybody's help.

    A few appends only: on a disk of 16 MB more of them would fill it again.
    """
    deadline = time.monotonic() + WAIT_S_MAX
    taken = 0
    while time.monotonic() < deadline:
        if taken < TAKEN_ENOUGH:
            with contextlib.suppress(strandline.Unavailable):
                client.append()
                taken += 1
        elif store.health().status == "green":
            return True
        time.sleep(PAUSE_S)
    return False
