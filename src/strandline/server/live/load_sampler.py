"""Samples the load of the server for load shedding, and applies its decisions.

Under load a sample is taken every ``SAMPLE_S``; otherwise the server is checked every ``WATCH_S``.
Both are timers of the event loop, and their delay is itself a measure: a loop that is busy with
requests runs all timers late. Times are read from the clock of the constructor.

The decisions apply to the committers (how long a sync waits) and to the routers (whether they are
deferred).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from strandline.platform.clock import Clock
from strandline.server.live.load_shedding import LAG_S_RANGE, SAMPLE_S, LoadSample, LoadShedder
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store

WATCH_S = 0.25


class LoadSampler:
    """Samples the load. Owned by the loop's thread."""

    def __init__(
        self,
        governor: LoadShedder,
        store: Store,
        bridge: ThreadPools,
        clock: Clock,
        ready_count: Callable[[], int],
    ) -> None:
        self._governor = governor
        self._store = store
        self._bridge = bridge
        self._clock = clock
        self._ready_count = ready_count
        self._push_count = 0
        self._waited_s = 0.0
        self._lag_s = 0.0
        self._sample_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the periodic checks."""
        self._loop = loop
        self._watch_later()

    def stop(self) -> None:
        """Stop sampling."""
        self._is_stopped = True

    def note_push(self, waited_s: float) -> None:
        """Count a push of a topic that waited ``waited_s``."""
        self._waited_s += waited_s
        self._push_count += 1

    def sample_later(self) -> None:
        """Take a sample after ``SAMPLE_S``: there is load."""
        assert self._loop is not None
        if self._sample_timer is None:
            due_s = self._clock.monotonic() + SAMPLE_S
            self._sample_timer = self._loop.call_later(SAMPLE_S, self.sample, due_s)

    def sample(self, due_s: float | None = None) -> None:
        """Measure the load, and apply the decisions."""
        self._sample_timer = None
        if self._is_stopped:
            return
        self._note_lag(due_s)
        committers = self._store.committers
        load = LoadSample(
            ready=self._ready_count(),
            latency_s=self._waited_s / self._push_count if self._push_count else 0.0,
            busy=self._bridge.busy,
            ingest=sum(committer.waiting for committer in committers),
            lag_s=self._lag_s,
        )
        self._waited_s, self._push_count, self._lag_s = 0.0, 0, 0.0
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
        """Start samples for load without pushes: waiting appends, or a busy loop."""
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
