"""Promise: an event loop that runs late presses the server, also while no topic has news."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.server.live.load_sampler import WATCH_S, LoadSampler
from strandline.server.live.load_shedding import LAG_S_RANGE, SAMPLE_S, LoadShedder
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from tests.server.running import DEADLINE_S, running


class Timers:
    """An event loop's timers, which run when the test says, and as late as it says."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.due: list[tuple[float, Callable[..., object], tuple[Any, ...]]] = []

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> object:
        self.due.append((self._clock.monotonic() + delay, call, args))
        return object()

    def run(self, *, seconds: float, late_s: float) -> None:
        """Let time pass, and run each timer this late."""
        end = self._clock.monotonic() + seconds
        while self.due and min(self.due, key=_time)[0] <= end:
            entry = min(self.due, key=_time)
            self.due.remove(entry)
            self._clock.advance(max(0.0, entry[0] + late_s - self._clock.monotonic()))
            entry[1](*entry[2])


def _time(entry: tuple[float, object, object]) -> float:
    return entry[0]


@pytest.fixture
def store(data_dir: str) -> Iterator[Store]:
    with Store(data_dir) as found:
        yield found


def _pressures(store: Store, *lates_s: float) -> list[float]:
    """The pressure after some seconds with each of these lags, on a server without requests."""
    clock, governor, bridge = SimClock(), LoadShedder(), ThreadPools()
    timers = Timers(clock)
    sampler = LoadSampler(governor, store, bridge, clock, lambda: 0)
    sampler.start(timers)  # type: ignore[arg-type]  # all that it uses of a loop
    found = []
    for late_s in lates_s:
        timers.run(seconds=5.0, late_s=late_s)
        found.append(governor.pressure)
    sampler.stop()
    bridge.close()
    return found


def test_a_loop_that_runs_late_is_pressure_and_one_in_time_is_none(store):
    low, high = LAG_S_RANGE

    in_time, a_little, late, again_in_time = _pressures(store, low, (low + high) / 2, high, 0.0)

    assert in_time == again_in_time == 0.0
    assert a_little == pytest.approx(0.5, abs=0.05)
    assert late == pytest.approx(1.0, abs=0.01)


def test_a_quiet_server_takes_no_samples(store):
    clock, bridge = SimClock(), ThreadPools()
    timers = Timers(clock)
    sampler = LoadSampler(LoadShedder(), store, bridge, clock, lambda: 0)
    sampler.start(timers)  # type: ignore[arg-type]  # all that it uses of a loop

    delays = []
    for _ in range(20):
        ((due, _, _),) = timers.due
        delays.append(due - clock.monotonic())
        timers.run(seconds=delays[-1], late_s=0.0)
    bridge.close()

    assert SAMPLE_S < WATCH_S
    assert delays == [pytest.approx(WATCH_S)] * 20


def test_a_blocked_loop_defers_and_recovers(tmp_path: Path):
    with running(tmp_path) as server:
        governor = server.parts.hub.load_shedder
        deadline = time.monotonic() + DEADLINE_S
        while not governor.is_deferring:
            assert time.monotonic() < deadline
            server.on_loop(lambda: time.sleep(4 * LAG_S_RANGE[1]))
        while governor.is_deferring:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_sampler_that_is_stopped_leaves_no_timer(store):
    async def run() -> int:
        bridge = ThreadPools()
        clock = SimClock()
        timers = Timers(clock)
        sampler = LoadSampler(LoadShedder(), store, bridge, clock, lambda: 1)
        sampler.start(timers)  # type: ignore[arg-type]  # all that it uses of a loop
        sampler.sample_later()
        sampler.stop()
        timers.run(seconds=1.0, late_s=0.0)
        bridge.close()
        return len(timers.due)

    assert asyncio.run(run()) == 0
