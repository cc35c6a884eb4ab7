"""Promise: simulated time moves only by hand, and whoever waits for it is woken by it."""

from __future__ import annotations

import threading
import time

import pytest

from strandline.platform.clock import Clock
from strandline.testing.sim_clock import SimClock

DEADLINE_SECONDS = 30


def test_time_stands_still_until_it_is_moved():
    clock: Clock = SimClock(wall_us=5_000_000)

    readings = [(clock.now_us(), clock.monotonic()) for _ in range(2)]

    assert readings == [(5_000_000, 0.0)] * 2


def test_advance_moves_both_clocks():
    clock = SimClock(wall_us=5_000_000)

    for _ in range(10):
        clock.advance(0.1)

    assert clock.now_us() == 6_000_000
    assert clock.monotonic() == 1.0


def test_a_jump_of_the_wall_clock_leaves_monotonic_time_alone():
    clock = SimClock(wall_us=5_000_000)

    clock.jump_wall(-3.5)

    assert clock.now_us() == 1_500_000
    assert clock.monotonic() == 0.0


def test_monotonic_time_cannot_be_set_back():
    clock = SimClock()

    with pytest.raises(ValueError, match="jump_wall"):
        clock.advance(-1)


def test_waiting_no_time_only_looks_at_the_event():
    clock = SimClock()
    unset, set_ = threading.Event(), threading.Event()
    set_.set()

    assert [clock.wait(unset, 0), clock.wait(set_, 0)] == [False, True]


def test_advance_past_the_deadline_ends_a_wait():
    clock = SimClock()
    waiter = Waiter(clock, 60.0)

    clock.advance(60.0)

    assert waiter.result() is False


def test_a_wait_goes_on_before_its_deadline_and_over_wall_jumps():
    clock = SimClock()
    waiter = Waiter(clock, 60.0)

    clock.advance(59.999)
    clock.jump_wall(3600)

    assert waiter.still_waits()
    clock.advance(0.001)
    assert waiter.result() is False


@pytest.mark.parametrize("seconds", [60.0, None])
def test_a_set_event_ends_a_wait_without_any_time_passing(seconds: float | None):
    clock = SimClock()
    waiter = Waiter(clock, seconds)

    waiter.event.set()

    assert waiter.result() is True
    assert clock.waiting == 0


class Waiter:
    """A thread that waits on the clock; ready when it is known to wait."""

    def __init__(self, clock: SimClock, seconds: float | None) -> None:
        self.event = threading.Event()
        self._results: list[bool] = []
        self._thread = threading.Thread(
            target=lambda: self._results.append(clock.wait(self.event, seconds)), daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not clock.waiting:
            assert time.monotonic() < deadline
            time.sleep(0)

    def still_waits(self) -> bool:
        self._thread.join(0.02)
        return self._thread.is_alive()

    def result(self) -> bool:
        self._thread.join(DEADLINE_SECONDS)
        return self._results[0]
