"""Promise (E9): background work goes on, tries again with growing pauses, or is seen to be dead."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from strandline.errors import StoreFailed, Unavailable
from strandline.platform.background_jobs import BackgroundJob
from strandline.testing.sim_clock import SimClock

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DEADLINE_S = 30


class Bench:
    """A job whose turns the test sees and directs."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.turns = threading.Semaphore(0)
        self.outcome: Callable[[], None] = lambda: None
        self.deaths: list[str] = []
        self.job = BackgroundJob(
            "test", self._run_once, self.clock, interval_s=10.0, on_death=self.deaths.append
        )

    def _run_once(self) -> None:
        self.turns.release()
        self.outcome()

    def start(self) -> None:
        self.job.start()
        self.until(lambda: self.clock.waiting == 1)

    def fail_with(self, error: BaseException) -> None:
        def outcome() -> None:
            raise error

        self.outcome = outcome

    def pass_time(self, seconds: float) -> None:
        """Let a pause of just this length end in one turn."""
        self.clock.advance(seconds)
        assert self.turns.acquire(timeout=DEADLINE_S)
        self.until(lambda: self.clock.waiting == 1 or not self.job.health().alive)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(DEADLINE_S * 1000):
            if condition():
                return
            threading.Event().wait(0.001)
        raise AssertionError("it never happened")

    def is_quiet(self) -> bool:
        """Whether no turn was taken that the test did not ask for."""
        return not self.turns.acquire(timeout=0.02)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.job.stop()


def test_a_job_runs_once_per_interval(bench):
    bench.start()

    bench.clock.advance(9.9)
    assert bench.is_quiet()
    bench.pass_time(0.1)
    bench.pass_time(10)

    health = bench.job.health()
    assert (health.alive, health.runs, health.failures_in_row) == (True, 2, 0)


def test_a_kick_makes_it_run_at_once(bench):
    bench.start()

    bench.job.kick.set()

    assert bench.turns.acquire(timeout=DEADLINE_S)


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "broken"),
        Unavailable("busy"),
        MemoryError("no memory"),
        pa.ArrowMemoryError("no memory for a buffer"),
        pa.ArrowInvalid("not Arrow"),
        zstd.ZstdError("Allocation error"),
    ],
)
def test_a_failure_of_the_world_is_tried_again_after_growing_pauses(bench, error):
    bench.fail_with(error)
    bench.start()
    bench.pass_time(10)

    pauses = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30)
    for count, pause in enumerate(pauses, start=1):
        health = bench.job.health()
        assert (health.alive, health.failures_in_row, health.runs) == (True, count, 0)
        assert str(error) in health.last_error
        bench.clock.advance(pause * 0.99)
        assert bench.is_quiet()
        bench.pass_time(pause * 0.011)

    assert bench.deaths == []


def test_an_error_without_text_is_named_in_health(bench):
    bench.fail_with(MemoryError())
    bench.start()

    bench.pass_time(10)

    assert bench.job.health().last_error == "MemoryError"


def test_after_a_success_the_pause_is_the_usual_one_again(bench):
    bench.fail_with(OSError(5, "broken"))
    bench.start()
    bench.pass_time(10)
    bench.outcome = lambda: None
    bench.pass_time(0.1)

    bench.clock.advance(9)
    assert bench.is_quiet()
    bench.pass_time(1)

    health = bench.job.health()
    assert (health.failures_in_row, health.last_error, health.runs) == (0, "", 2)


@pytest.mark.parametrize("error", [ValueError("a bug"), StoreFailed("a sync failed")])
def test_a_bug_or_a_poisoned_shard_kills_the_job_and_is_told_at_once(bench, error):
    bench.fail_with(error)
    bench.start()

    bench.pass_time(10)

    health = bench.job.health()
    bench.until(lambda: bool(bench.deaths))
    assert not health.alive
    assert health.last_error
    assert "test job died" in bench.deaths[0]


def test_stopping_waits_for_the_run_under_way(bench):
    inside, let_go = threading.Event(), threading.Event()
    finished = []

    def slow() -> None:
        inside.set()
        assert let_go.wait(DEADLINE_S)
        finished.append(True)

    bench.outcome = slow
    bench.start()
    bench.clock.advance(10)
    assert inside.wait(DEADLINE_S)
    threading.Timer(0.02, let_go.set).start()

    bench.job.stop()

    assert finished == [True]
    assert not bench.job.health().alive


def test_a_job_that_never_started_can_be_stopped():
    Bench().job.stop()


def test_a_steady_job_counts_its_interval_from_the_beginning_of_a_run():
    bench = Bench()
    bench.job.is_steady = True
    bench.outcome = lambda: bench.clock.advance(7.0)
    bench.start()
    bench.pass_time(10.0)

    bench.clock.advance(2.9)
    assert bench.is_quiet()
    bench.pass_time(0.1)

    assert bench.job.health().runs == 2
    bench.job.stop()


def test_a_steady_job_that_takes_longer_than_its_interval_begins_again_at_once():
    bench = Bench()
    bench.job.is_steady = True
    remaining = [3]

    def outcome() -> None:
        remaining[0] -= 1
        bench.clock.advance(11.0 if remaining[0] else 1.0)

    bench.outcome = outcome
    bench.start()
    bench.clock.advance(10.0)
    for _ in range(3):
        assert bench.turns.acquire(timeout=DEADLINE_S)
    bench.until(lambda: bench.clock.waiting == 1)

    assert bench.is_quiet()
    bench.job.stop()
