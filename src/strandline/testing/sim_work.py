"""Work that has threads elsewhere, done in the one thread of a simulation.

    SimPool      tasks of a server's pool: each runs whole, after a delay
    SimExecutor  work that its submitter waits for: it runs at once
    SimJobs      the jobs of a store that was opened with ``start_jobs=False``

So work is never interrupted by other work, but for what a disk's or object store's hook does: two
threads inside one operation of the store are for the tests with threads (``tests/history``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar

from strandline.platform.background_jobs import Job
from strandline.testing.sim_loop import Life, SimLoop

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Runnable(Protocol):
    """A task of a pool."""

    def run(self) -> None: ...


class SimPool:
    """A pool of a server's bridge. Owned by the loop's thread."""

    def __init__(self, loop: SimLoop, delay_s: Callable[[], float]) -> None:
        self.load = 0.0
        self._loop = loop
        self._delay_s = delay_s

    def submit(self, task: Runnable) -> None:
        self._loop.call_later(self._delay_s(), task.run)

    def close(self) -> None:
        """Nothing is held: what was submitted runs."""


class SimExecutor(Executor):
    """Runs what is submitted before it returns."""

    def __init__(self, threads: int, name: str) -> None:
        """As ``platform/thread_pool.py`` makes an executor."""

    def submit(
        self, work: Callable[Taken, Given], /, *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Future[Given]:
        done: Future[Given] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised to the caller, not here
            done.set_exception(error)
        return done


class SimJobs:
    """Runs jobs when they are due or kicked, until one dies or their process does."""

    def __init__(
        self, loop: SimLoop, life: Life, jobs: Iterable[Job], delay_s: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._life = life
        self._delay_s = delay_s
        self._timers: dict[Job, Any] = {}
        self._kicked: set[str] = set()
        self._is_stopped = False
        self.deaths: list[str] = []
        """Names of jobs that died."""
        for job in jobs:
            self._schedule(job, job.pause_s() + delay_s())
        loop.before_waiting.append(self._look_for_kicks)

    def stop(self) -> None:
        """No job begins any more."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        if self._look_for_kicks in self._loop.before_waiting:
            self._loop.before_waiting.remove(self._look_for_kicks)

    def _schedule(self, job: Job, seconds: float) -> None:
        if job in self._timers:
            self._timers[job].cancel()
        self._timers[job] = self._life.run(self._loop.call_later, seconds, self._turn, job)

    def _look_for_kicks(self) -> None:
        for job in self._timers:
            if job.kick.is_set() and job.name not in self._kicked:
                self._kicked.add(job.name)
                self._schedule(job, self._delay_s())

    def _turn(self, job: Job) -> None:
        self._kicked.discard(job.name)
        if self._is_stopped or self._life.is_over:
            return
        if job.turn():
            self._schedule(job, job.pause_s())
        else:
            self.deaths.append(job.name)
            del self._timers[job]
