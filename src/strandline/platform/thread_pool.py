"""Threads that the system may refuse: when a process, user or container has all it may have.

``start`` raises Unavailable with the cause. When a pool gets no thread for a task, the task is left
to the caller. (The executor of the standard library raises RuntimeError then, and keeps the task:
it may still run, or never.)

The code that submits work to a pool waits for it, so a simulation may run it at once in the thread
of the caller: ``pools_made_by``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from strandline.errors import Closed, Unavailable
from strandline.platform.system_errors import NO_THREADS

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

_executors: list[Callable[[int, str], Executor]] = [ThreadPoolExecutor]


@contextlib.contextmanager
def pools_made_by(executor: Callable[[int, str], Executor]) -> Iterator[None]:
    """Pools of this process run their work in other executors: for a simulation."""
    _executors.append(executor)
    try:
        yield
    finally:
        _executors.pop()


def start(thread: threading.Thread) -> None:
    """Start a thread, or raise Unavailable: it can be started later then."""
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise Unavailable(
            f"the thread {thread.name} could not be started ({error}): {NO_THREADS}"
        ) from error


class ThreadPool:
    """Some threads for short tasks, started when they are needed. Safe from many threads."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._executor = _executors[-1](threads_max, name)
        self._closed = False

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)

    def submit(
        self, work: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Answer]:
        """Do it in a thread of the pool; in the caller's when none can be started."""
        future = self.try_submit(work, *args, **kwargs)
        if future is None:
            future = Future()
            _run(future, partial(work, *args, **kwargs))
        return future

    def try_submit(
        self, work: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Answer] | None:
        """Do it in a thread of the pool; None, and nothing is done, when none can be started."""
        future: Future[Answer] = Future()
        task = partial(_run, future, partial(work, *args, **kwargs))
        try:
            queued = self._executor.submit(task)
        except (RuntimeError, MemoryError) as error:
            if self._closed:
                raise Closed("this pool of threads is closed: open its owner again") from error
            return None if future.cancel() else future
        queued.add_done_callback(partial(_cancel_with, future))
        return future

    def shutdown(self, *, wait: bool = True, cancel_futures: bool = False) -> None:
        """Take no more tasks. What is queued is done, or is never done with ``cancel_futures``."""
        self._closed = True
        self._executor.shutdown(wait=wait, cancel_futures=cancel_futures)


def _cancel_with(future: Future[Answer], queued: Future[None]) -> None:
    if queued.cancelled() and future.cancel():
        future.set_running_or_notify_cancel()


def _run(future: Future[Answer], work: Callable[[], Answer]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
        future.set_exception(error)
    else:
        future.set_result(answer)
