"""What processes of the nursery do: write until killed, do a fixed piece of work, look around."""

from __future__ import annotations

import contextlib
import errno
import threading

import strandline
from tests.crash.real.promises import TOPICS, Client, report, reporter_of, settings
from tests.crash.real.quick_clock import QuickClock

WRITERS = 4
FAILED = 10
ACKED_AFTER_POISON = 3


def write_until_killed(directory: str, pipe: str, generation: int, shards: int) -> None:
    """Open, report what is there, then append and delete from many threads without end."""
    with strandline.open(directory, settings=settings(shards), clock=QuickClock()) as store:
        reporter = report(store, pipe, generation)
        clients = [Client(store, reporter, generation * WRITERS + n) for n in range(WRITERS)]
        threads = [threading.Thread(target=_append_forever, args=(client,)) for client in clients]
        threads.append(threading.Thread(target=_delete_forever, args=(clients[0],)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def look(directory: str, pipe: str, *, lossy: tuple[str, ...] = ("memory",)) -> None:
    """Open, report what is there, close."""
    with strandline.open(directory, settings=settings()) as store:
        report(store, pipe, 0, lossy=lossy)


def do_fixed_work(directory: str, pipe: str) -> None:
    """Everything that a store does to files, always in the same order, on one thread."""
    with strandline.open(
        directory, settings=settings(), clock=QuickClock(), start_jobs=False
    ) as store:
        client = Client(store, report(store, pipe, 1), seed=1)
        for _ in range(4):
            for _ in range(40):
                client.append()
            store.sync()
            client.delete()
            store.checkpoint()
        store.topic("gone").append(b"x")
        store.delete_topic("gone")
        for number in TOPICS:
            client.append(number)


def work_through_errors(directory: str, pipe: str) -> int:
    """The fixed work on a disk that fails: 0 when it never did, else 10. Bad answers count below.

    After a failed sync nothing may be acked any more; reads go on, whatever happens.
    """
    try:
        reporter = reporter_of(pipe, 1)
    except OSError:
        return FAILED  # it was the journal's own call that failed
    try:
        store = strandline.open(
            directory, settings=settings(), clock=QuickClock(), start_jobs=False
        )
    except strandline.StrandlineError:
        return FAILED
    failures = _Failures()
    with store:
        with failures:
            client = Client(store, report(store, reporter, 1), seed=1)
        if failures.count:
            return FAILED
        for _ in range(4):
            for _ in range(40):
                with failures:
                    client.append()
            with failures:
                client.delete()
            for step in (store.sync, store.checkpoint):  # fine when there is nothing to do
                with failures.of_the_store:
                    step()
            _read_a_little(store)
    if failures.broken:
        return ACKED_AFTER_POISON
    return FAILED if failures.count else 0


def _read_a_little(store: strandline.Store) -> None:
    """Reads go on, unless it is opening a file that fails."""
    for name in store.topics():
        try:
            store.topic(name).read(0, 10)
        except strandline.Unavailable as error:
            cause = error.__cause__
            if not (isinstance(cause, OSError) and cause.errno == errno.EMFILE):
                raise


class _Failures:
    """Takes the store's own errors, and watches that nothing is acked by a poisoned one."""

    def __init__(self) -> None:
        self.count = 0
        self.poisoned = False
        self.broken = False
        self.of_the_store = contextlib.suppress(strandline.StrandlineError)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None:
            self.broken |= self.poisoned
            return False
        self.count += 1
        self.poisoned |= issubclass(kind, strandline.StoreFailed)
        return issubclass(kind, strandline.StrandlineError)


def _append_forever(client: Client) -> None:
    while True:
        client.append()


def _delete_forever(client: Client) -> None:
    pause = threading.Event()
    while True:
        pause.wait(0.015)
        client.delete()
