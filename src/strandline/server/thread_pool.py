"""Runs calls of the store that may wait on threads, so that they do not block the loop.

Separate pools, so that history, the lake and queries do not delay live reads, or each other:

    run     microseconds to milliseconds: memory and the log
    slow    longer work on this machine: local segments, whole scans, deletes
    lake    work that is known to read the lake: it may wait for seconds
    query   SQL and commands: may take seconds
            (``server/limits/query_registry.py`` limits their number).
            Their engine reads the lake from its own threads
    metrics aggregates of metrics, and the server's own metrics: available under load

A handler chooses by where its records are (``Topic.is_near``, ``Topic.is_local``). Work in ``run``
and ``slow`` that needs the object store anyway is replaced by another thread while it waits
(``worker_pool.py``). While an operation on a view does so, other operations on the same topic start
in ``lake``, since it may hold the view's lock. Calls that never wait (``Topic.append_nowait``,
``head_seq``) run on the loop itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from strandline.query.execute.interrupt import Interrupt, interruptible
from strandline.server.worker_pool import PoolTask, RemoteSubjects, WorkerPool

Args = ParamSpec("Args")
Value = TypeVar("Value")

LAKE = "strandline-serve-lake"
QUERY = "strandline-serve-query"


class TaskPool(Protocol):
    """Runs tasks: a ``WorkerPool``, or its replacement in a simulation."""

    @property
    def load(self) -> float:
        """Tasks for each thread."""
        ...

    def submit(self, task: PoolTask) -> None:
        """Run a task soon; never before this returns."""
        ...

    def close(self) -> None:
        """Wait for running tasks; no new ones are accepted."""
        ...


class ThreadPools:
    """The pools. Owned by the loop's thread."""

    def __init__(
        self,
        *,
        threads: int = 8,
        slow_threads: int = 4,
        lake_threads: int = 16,
        query_threads: int = 16,
        metrics_threads: int = 4,
        spares: int = 16,
        make_pool: Callable[..., TaskPool] = WorkerPool,
    ) -> None:
        subjects = RemoteSubjects()
        self._subjects = subjects
        self._lake = make_pool(LAKE, lake_threads, subjects=subjects)
        local = partial(make_pool, spares=spares, subjects=subjects, redirect=self._redirect)
        self._quick = local("strandline-serve", threads)
        self._slow = local("strandline-serve-slow", slow_threads)
        self._queries = local(QUERY, query_threads)
        self._metrics = local("strandline-serve-metrics", metrics_threads)

    @property
    def busy(self) -> float:
        """Load of the quick threads, from 0 to 1, when all are busy."""
        return min(1.0, self._quick.load)

    async def run(
        self, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """Run a short operation."""
        result: Value = await self._result(self._quick, PoolTask(partial(work, *args, **kwargs)))
        return result

    async def slow(
        self, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """Run work that may take long."""
        result: Value = await self._result(self._slow, PoolTask(partial(work, *args, **kwargs)))
        return result

    async def lake(
        self, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """Run work that waits for the lake."""
        result: Value = await self._result(self._lake, PoolTask(partial(work, *args, **kwargs)))
        return result

    async def query(
        self,
        interrupt: Interrupt,
        work: Callable[Args, Value],
        *args: Args.args,
        **kwargs: Args.kwargs,
    ) -> Value:
        """Run a query, or read a part of its rows; the interrupt ends it."""

        def run() -> Value:
            with interruptible(interrupt):
                return work(*args, **kwargs)

        result: Value = await self._result(self._queries, PoolTask(run))
        return result

    async def metrics(
        self, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """Run work on metrics that may take long."""
        result: Value = await self._result(self._metrics, PoolTask(partial(work, *args, **kwargs)))
        return result

    async def metrics_view(
        self, topic: str, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """As ``metrics``, for the metrics view of a topic."""
        task = PoolTask(partial(work, *args, **kwargs), topic)
        result: Value = await self._result(self._metrics, task)
        return result

    async def run_view(
        self, topic: str, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """As ``run``, for work on a view or a group of a topic."""
        result: Value = await self._result(
            self._quick, PoolTask(partial(work, *args, **kwargs), topic)
        )
        return result

    async def slow_view(
        self, topic: str, work: Callable[Args, Value], *args: Args.args, **kwargs: Args.kwargs
    ) -> Value:
        """As ``slow``, for work on a view of a topic."""
        result: Value = await self._result(
            self._slow, PoolTask(partial(work, *args, **kwargs), topic)
        )
        return result

    def close(self) -> None:
        """Wait for running tasks; no new ones are accepted."""
        for pool in (self._quick, self._slow, self._lake, self._queries, self._metrics):
            pool.close()

    async def _result(self, pool: TaskPool, task: PoolTask) -> Any:
        pool.submit(task)
        return await asyncio.wrap_future(task.future)

    def _redirect(self, task: PoolTask) -> bool:
        """Move a task to the lake's pool if its topic waits for the lake; False if it stays."""
        if task.subject not in self._subjects:
            return False
        self._lake.submit(task)
        return True
