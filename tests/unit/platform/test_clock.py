"""Promise (T1): wall time and monotonic time come from the machine, and waiting ends as asked."""

from __future__ import annotations

import threading
import time

from strandline.platform.clock import SystemClock, yield_to_other_threads


def test_wall_time_is_in_microseconds():
    before = time.time_ns() // 1000

    found = SystemClock().now_us()

    assert before <= found <= time.time_ns() // 1000


def test_monotonic_time_never_goes_back():
    clock = SystemClock()

    readings = [clock.monotonic() for _ in range(1000)]

    assert readings == sorted(readings)


def test_waiting_tells_whether_the_event_came():
    clock = SystemClock()
    event = threading.Event()

    missed = clock.wait(event, 0.001)
    event.set()

    assert (missed, clock.wait(event, None)) == (False, True)


def test_yielding_lets_another_thread_go_on():
    steps: list[int] = []
    other = threading.Thread(target=lambda: steps.append(1))
    other.start()

    while not steps:
        yield_to_other_threads()
    other.join()

    assert steps == [1]
