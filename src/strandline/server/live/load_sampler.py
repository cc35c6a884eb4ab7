"""Measures the load of the server for the governor, and applies what the governor decides.

While there is load a sample is taken every ``SAMPLE_S``; without any, the server is looked at every
``WATCH_S``. Both are timers of the event loop, and how late they run is itself a measure: a loop
that is busy with requests runs everything late. When and how late is read from the clock that is
handed in.

The governor's decisions go to the committers (how long a sync waits) and to the routers (whether
they are deferred).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from strandline.platform.clock import Clock
from strandline.server.live.load_shedding import LAG_S_RANGE, SAMPLE_S, Governor, Load
from strandline.server.thread_pool import Bridge
from strandline.store import Store

WATCH_S = 0.25


class LoadSampler:
    """Samples the load. Owned by the loop's thread."""

    def __init__(
        self,
        governor: Governor,
        store: Store,
        bridge: Bridge,
        clock: Clock,
        ready_count: Callable[[], int],
    ) -> None:
        self._governor = governor
        self._store = store
        self._bridge = bridge
        self._clock = clock
        self._ready_count = ready_count
        self._turns = 0
        self._waited_s = 0.0
        self._lag_s = 0.0
        self._sampler: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch."""
        self._loop = loop
        self._watch_later()

    def stop(self) -> None:
        """Take no more samples."""
        self._is_stopped = True

    def note_turn(self, waited_s: float) -> None:
        """A topic has had its turn, after so long."""
        self._waited_s += waited_s
        self._turns += 1

    def sample_later(self) -> None:
        """There is load: take a sample soon."""
        assert self._loop is not None
        if self._sampler is None:
            due_s = self._clock.monotonic() + SAMPLE_S
            self._sampler = self._loop.call_later(SAMPLE_S, self.sample, due_s)

    def sample(self, due_s: float | None = None) -> None:
        """Measure the load, and apply what the governor makes of it."""
        self._sampler = None
        if self._is_stopped:
            return
        self._note_lag(due_s)
        committers = self._store.committers
        load = Load(
            ready=self._ready_count(),
            latency_s=self._waited_s / self._turns if self._turns else 0.0,
            busy=self._bridge.busy,
            ingest=sum(committer.waiting for committer in committers),
            lag_s=self._lag_s,
        )
        self._waited_s, self._turns, self._lag_s = 0.0, 0, 0.0
        governor = self._governor
        governor.sample(load)
        for committer in committers:
            committer.window_s = governor.window_s
        self._store.routers.deferred = governor.is_deferring
        if governor.pressure or load.ready or load.ingest:
            self.sample_later()

    def _watch_later(self) -> None:
        assert self._loop is not None
        self._loop.call_later(WATCH_S, self._watch, self._clock.monotonic() + WATCH_S)

    def _watch(self, due_s: float) -> None:
        """Appends and a busy loop press the server although no topic has news to push."""
        if self._is_stopped:
            return
        self._note_lag(due_s)
        is_late = self._lag_s > LAG_S_RANGE[0]
        if is_late or any(committer.waiting for committer in self._store.committers):
            self.sample_later()
        self._watch_later()

    def _note_lag(self, due_s: float | None) -> None:
        if due_s is not None:
            self._lag_s = max(self._lag_s, self._clock.monotonic() - due_s)
