"""Ways in which a process with an open store ends, done by processes of the nursery.

Each opens the store, reports, appends, and ends in its way. The test sends signals once it sees
appends in the journal.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading

import strandline
from tests.crash.real.promises import Client, report, settings
from tests.crash.real.quick_clock import QuickClock

APPENDS = 150
INTERRUPTS = 200
INTERRUPT_S_MAX = 0.004
FILE_SIZE = 4 * 1024 * 1024


def opened(directory: str, pipe: str) -> tuple[strandline.Store, Client]:
    store = strandline.open(directory, settings=settings(), clock=QuickClock())
    return store, Client(store, report(store, pipe, 1), seed=1)


def close_under_appends(directory: str, pipe: str) -> None:
    """Call ``close`` while other threads append."""
    store, client = opened(directory, pipe)
    reached = threading.Event()
    thread = threading.Thread(target=_append_until_closed, args=(client, reached))
    thread.start()
    reached.wait()
    store.close()
    thread.join()


def leave_the_block(directory: str, pipe: str) -> None:
    store, client = opened(directory, pipe)
    with store:
        _append_some(client)


def exit_in_the_block(directory: str, pipe: str) -> None:
    store, client = opened(directory, pipe)
    with store:
        _append_some(client)
        sys.exit(0)


def forget_to_close(directory: str, pipe: str) -> None:
    """Let the interpreter end with the store open and its jobs at work."""
    _, client = opened(directory, pipe)
    _append_some(client)


def forget_to_close_with_reference(directory: str, pipe: str) -> None:
    """The same when the store outlives every function: it goes with the module's names."""
    global _kept
    _kept, client = opened(directory, pipe)
    _append_some(client)


def be_interrupted(directory: str, pipe: str) -> None:
    """Append on the main thread until SIGINT raises KeyboardInterrupt in the middle of it."""
    store, client = opened(directory, pipe)
    try:
        with store:
            while True:
                client.append()
    except KeyboardInterrupt:
        return


def exit_from_handler(directory: str, pipe: str) -> None:
    """The same with a SIGTERM handler that calls ``sys.exit``."""
    store, client = opened(directory, pipe)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with store:
        while True:
            client.append()


def close_from_handler(directory: str, pipe: str) -> None:
    """A SIGTERM handler that closes the store while other threads append and the main one waits."""
    store, client = opened(directory, pipe)
    closed = threading.Event()

    def handler(*_: object) -> None:
        store.close()
        closed.set()

    signal.signal(signal.SIGTERM, handler)
    thread = threading.Thread(target=_append_until_closed, args=(client, threading.Event()))
    thread.start()
    closed.wait()
    thread.join()


def close_from_handler_in_an_append(directory: str, pipe: str) -> None:
    """A SIGTERM handler that closes the store, perhaps in the middle of an append of its thread:
    then it cannot, is told so, and the append ends with what it was told."""
    store, client = opened(directory, pipe)
    signal.signal(signal.SIGTERM, lambda *_: store.close())
    with store, contextlib.suppress(strandline.Invalid):
        _append_until_closed(client, threading.Event())


def go_on_after_interrupts(directory: str, pipe: str) -> None:
    """Interrupt appends of the main thread at hundreds of instants, and go on each time.

    With large files: beginning a file rings a ``threading.Event``, and an interrupt inside that
    leaves its lock behind. Nobody can help that but Python.
    """
    rng = random.Random(1)
    signal.signal(signal.SIGALRM, _Alarm.ring)
    generation = 0
    while generation < INTERRUPTS:
        generation += 1
        wide = settings(file_size=FILE_SIZE)
        store = strandline.open(directory, settings=wide, clock=QuickClock())
        client = Client(store, report(store, pipe, generation), seed=generation)
        client.append(2)
        with store, contextlib.suppress(strandline.StoreFailed):
            while generation < INTERRUPTS:
                generation += 1
                _append_until_interrupted(client, rng.random() * INTERRUPT_S_MAX)
    signal.setitimer(signal.ITIMER_REAL, 0)


_kept: object = None


def _append_some(client: Client) -> None:
    for _ in range(APPENDS):
        client.append()


class _Alarm:
    """Raises KeyboardInterrupt once each time it has been armed."""

    armed = False

    @classmethod
    def ring(cls, *_: object) -> None:
        if cls.armed:
            cls.armed = False
            raise KeyboardInterrupt


def _append_until_interrupted(client: Client, after_s: float) -> None:
    try:
        _Alarm.armed = True
        signal.setitimer(signal.ITIMER_REAL, after_s)
        _append_some(client)
    except KeyboardInterrupt:
        return
    finally:
        _Alarm.armed = False


def _append_until_closed(client: Client, reached: threading.Event) -> None:
    try:
        while True:
            _append_some(client)
            reached.set()
    except strandline.Closed:
        return
