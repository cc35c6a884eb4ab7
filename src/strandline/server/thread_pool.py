"""Runs calls of the store that may wait on threads, so that the loop goes on.

Pools, so that history does not delay what is live, the lake delays neither, and nor do queries:

    run     microseconds to milliseconds: memory and the log
    slow    longer work on this machine: local segments, whole scans, deletes
    lake    what is known to read the lake, a wait of seconds at times
    query   SQL and commands: seconds at times, and as many as clients want
            (``server/limits/query_registry.py``
            bounds them). Their engine reads the lake from threads of its own
    metrics aggregates of metrics, and the server's own metrics: seen when all else is busy

A handler chooses by where its records are (``Topic.is_near``, ``Topic.is_local``). Work in ``run``
and ``slow`` that needs the object store after all gives its place to another thread for as long as
it waits (``worker_pool.py``). While an operation on a view does so, other operations on the same
topic start in ``lake``, since it may hold the view's lock. What never waits
(``Topic.append_soon``, ``head_seq``) is called on the loop itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from strandline.query.execute.interrupt import Interrupt, interruptible
from strandline.server.worker_pool import RemoteSubjects, Task, WorkerPool

Taken = ParamSpec("Taken")
Given = TypeVar("Given")

LAKE = "strandline-serve-lake"
QUERY = "strandline-serve-query"


class Pool(Protocol):
    """Where tasks run: a ``WorkerPool``, or what a simulation has in its place."""

    @property
    def load(self) -> float:
        """How much there is to do for each thread."""
        ...

    def submit(self, task: Task) -> None:
        """Run a task soon; never before this returns."""
        ...

    def close(self) -> None:
        """Let what runs end; nothing new is taken."""
        ...


class Bridge:
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
        make_pool: Callable[..., Pool] = WorkerPool,
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
        """How much work there is for each of the quick threads, 1 when all have some."""
        return min(1.0, self._quick.load)

    async def run(
        self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The result of work that takes moments."""
        found: Given = await self._result(self._quick, Task(partial(work, *args, **kwargs)))
        return found

    async def slow(
        self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The result of work that may take long."""
        found: Given = await self._result(self._slow, Task(partial(work, *args, **kwargs)))
        return found

    async def lake(
        self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The result of work that waits for the lake."""
        found: Given = await self._result(self._lake, Task(partial(work, *args, **kwargs)))
        return found

    async def query(
        self,
        interrupt: Interrupt,
        work: Callable[Taken, Given],
        *args: Taken.args,
        **kwargs: Taken.kwargs,
    ) -> Given:
        """The result of a query, or of a part of its rows; the interrupt ends it."""

        def run() -> Given:
            with interruptible(interrupt):
                return work(*args, **kwargs)

        found: Given = await self._result(self._queries, Task(run))
        return found

    async def metrics(
        self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The result of work on metrics that may take long."""
        found: Given = await self._result(self._metrics, Task(partial(work, *args, **kwargs)))
        return found

    async def metrics_view(
        self, topic: str, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The same for the metrics of a topic."""
        task = Task(partial(work, *args, **kwargs), topic)
        found: Given = await self._result(self._metrics, task)
        return found

    async def run_view(
        self, topic: str, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """As ``run``, for work on a view or a group of a topic."""
        found: Given = await self._result(self._quick, Task(partial(work, *args, **kwargs), topic))
        return found

    async def slow_view(
        self, topic: str, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """As ``slow``, for work on a view of a topic."""
        found: Given = await self._result(self._slow, Task(partial(work, *args, **kwargs), topic))
        return found

    def close(self) -> None:
        """Let what runs end; nothing new is taken."""
        for pool in (self._quick, self._slow, self._lake, self._queries, self._metrics):
            pool.close()

    async def _result(self, pool: Pool, task: Task) -> Any:
        pool.submit(task)
        return await asyncio.wrap_future(task.future)

    def _redirect(self, task: Task) -> bool:
        """Let the lake's pool have a task whose topic waits for the lake; False when it stays."""
        if task.subject not in self._subjects:
            return False
        self._lake.submit(task)
        return True
