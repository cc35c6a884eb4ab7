"""What processes of the nursery do: write until killed, do a fixed piece of work, look around."""

from __future__ import annotations

import threading

import strandline
from tests.crash.real.promises import TOPICS, Client, report, settings
from tests.crash.real.quick_clock import QuickClock

WRITERS = 4


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


def _append_forever(client: Client) -> None:
    while True:
        client.append()


def _delete_forever(client: Client) -> None:
    pause = threading.Event()
    while True:
        pause.wait(0.015)
        client.delete()
