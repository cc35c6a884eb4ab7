"""Runs the work of threads in the single thread of a simulation.

    SimPool      tasks of a server's pool: each runs completely, after a delay
    SimExecutor  work that its submitter waits for: it runs at once
    SimJobs      the jobs of a store that was opened with ``start_jobs=False``

So work is not interrupted by other work, except by hooks of a disk or an object store: tests with
real threads cover two threads inside one operation of the store (``tests/history``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar

from strandline.platform.background_jobs import BackgroundJob
from strandline.testing.sim_loop import SimLoop, SimProcess

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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
        """Does nothing: submitted tasks run."""


class SimExecutor(Executor):
    """Runs submitted work before ``submit`` returns."""

    def __init__(self, threads: int, name: str) -> None:
        """With the parameters that ``platform/thread_pool.py`` passes."""

    def submit(
        self,
        work: Callable[Arguments, Result],
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised to the caller, not here
            future.set_exception(error)
        return future


class SimJobs:
    """Runs jobs when they are due or kicked, until one dies or their process ends."""

    def __init__(
        self,
        loop: SimLoop,
        life: SimProcess,
        jobs: Iterable[BackgroundJob],
        delay_s: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._life = life
        self._delay_s = delay_s
        self._timers: dict[BackgroundJob, Any] = {}
        self._kicked: set[str] = set()
        self._is_stopped = False
        self.deaths: list[str] = []
        """Names of jobs that died."""
        for job in jobs:
            self._schedule(job, job.pause_s() + delay_s())
        loop.before_waiting.append(self._schedule_kicked)

    def stop(self) -> None:
        """Start no more jobs."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        if self._schedule_kicked in self._loop.before_waiting:
            self._loop.before_waiting.remove(self._schedule_kicked)

    def _schedule(self, job: BackgroundJob, seconds: float) -> None:
        if job in self._timers:
            self._timers[job].cancel()
        self._timers[job] = self._life.run(self._loop.call_later, seconds, self._run_job, job)

    def _schedule_kicked(self) -> None:
        for job in self._timers:
            if job.kick.is_set() and job.name not in self._kicked:
                self._kicked.add(job.name)
                self._schedule(job, self._delay_s())

    def _run_job(self, job: BackgroundJob) -> None:
        self._kicked.discard(job.name)
        if self._is_stopped or self._life.is_over:
            return
        if job.run_once():
            self._schedule(job, job.pause_s())
        else:
            self.deaths.append(job.name)
            del self._timers[job]
