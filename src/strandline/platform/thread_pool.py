"""Threads and thread pools that handle the thread limit of a process, user or container.

``start`` raises Unavailable with the cause. When a pool cannot start a thread for a task, the
caller runs the task. (The executor of the standard library raises RuntimeError then, and keeps the
task: it may run later, or never.)

The code that submits work to a pool waits for it, so a simulation may run it immediately in the
thread of the caller: ``pools_with_executor``.
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
Result = TypeVar("Result")

_executors: list[Callable[[int, str], Executor]] = [ThreadPoolExecutor]


@contextlib.contextmanager
def pools_with_executor(executor: Callable[[int, str], Executor]) -> Iterator[None]:
    """Let pools of this process use other executors: for simulations."""
    _executors.append(executor)
    try:
        yield
    finally:
        _executors.pop()


def start_thread(thread: threading.Thread) -> None:
    """Start a thread; Unavailable if that fails: it can be started later."""
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise Unavailable(
            f"the thread {thread.name} could not be started ({error}): {NO_THREADS}"
        ) from error


class ThreadPool:
    """Threads for short tasks, started on demand. Safe from many threads."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._executor = _executors[-1](threads_max, name)
        self._closed = False

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)

    def submit(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Run ``work`` in a thread of the pool; in the caller's if none can be started."""
        future = self.try_submit(work, *args, **kwargs)
        if future is None:
            future = Future()
            _run(future, partial(work, *args, **kwargs))
        return future

    def try_submit(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result] | None:
        """The same, but returns None without running it if no thread can be started."""
        future: Future[Result] = Future()
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
        """Accept no more tasks. Queued tasks run, or are cancelled with ``cancel_futures``."""
        self._closed = True
        self._executor.shutdown(wait=wait, cancel_futures=cancel_futures)


def _cancel_with(future: Future[Result], queued: Future[None]) -> None:
    if queued.cancelled() and future.cancel():
        future.set_running_or_notify_cancel()


def _run(future: Future[Result], work: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - passed to the future
        future.set_exception(error)
    else:
        future.set_result(result)
