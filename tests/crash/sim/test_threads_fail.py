"""Promise: whichever thread cannot be started, what was asked is done or refused with the cause.

The same work is repeated; each time another thread is refused, once or from then on. An opening
that is refused leaves no lock and no thread, all else is done without the thread.
"""

from __future__ import annotations

import itertools
import threading

import pytest

import strandline
from strandline.config.settings import Settings
from strandline.errors import Unavailable
from strandline.platform.system_errors import NO_THREADS
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.views import PATH, SETTINGS

RECORDS = [b"record %d" % number for number in range(400)]
DEADLINE_S = 30


class Refusal:
    """Refuses the nth start of a thread, or all from that on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nth: int, *, once: bool) -> None:
        self.count = 0
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            self.count += 1
            if self.count == nth or (self.count > nth and not once):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)


def _opened(disk: SimDisk, settings: Settings = SETTINGS) -> Store:
    return strandline.open(PATH, disk=disk, clock=SimClock(), settings=settings)


def _work(store: Store) -> None:
    topic = store.topic("orders", durability="fsync")
    for first in range(0, len(RECORDS), 40):
        topic.append_many(RECORDS[first : first + 40])
        store.checkpoint()
    store.kv("map").put("key", b"value" * 100)
    store.checkpoint()
    store.relocate()
    assert store.topic("orders").read(0, len(RECORDS)).data == RECORDS


@pytest.mark.parametrize("once", [True, False])
def test_any_thread_may_be_refused(monkeypatch, once):
    causes: set[str] = set()
    for nth in itertools.count(1):
        disk, before = SimDisk(), set(threading.enumerate())
        with monkeypatch.context() as patch:
            refusal = Refusal(patch, nth, once=once)
            try:
                store = _opened(disk)
            except Unavailable as error:
                causes.add(str(error).partition(": ")[2])
            else:
                _work(store)
                store.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), f"thread {nth}: {thread.name} is left"

        with _opened(disk) as store:
            if not store.topics():
                _work(store)
            assert store.topic("orders").read(0, len(RECORDS)).data == RECORDS
        if refusal.count < nth:
            break
    assert nth > 10
    assert causes == {NO_THREADS}
