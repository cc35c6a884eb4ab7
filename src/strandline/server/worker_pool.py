"""A pool of threads in which a thread that waits for an object store does not count.

``threads`` is how many work at a time. When one of them starts to wait for an object store
(``platform/remote_wait.py``) and tasks are queued, a spare thread is started in its place, up to
``spares`` of them; when the wait has ended, the next thread that finishes its task ends. With all
spares in use a waiting thread counts as in any other pool.

Tasks start in the order in which they were submitted. A task may name its subject, a topic: while
an operation of that topic waits for the object store, others of it may need a lock that it holds.
``redirect`` is called with a task before it starts and can take it over to another pool.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from strandline.errors import Unavailable
from strandline.platform.remote_wait import observe_waits
from strandline.platform.thread_pool import start_thread


class PoolTask:
    """Work, its result, and its topic."""

    __slots__ = ("future", "subject", "work")

    def __init__(self, work: Callable[[], Any], subject: str | None = None) -> None:
        self.work = work
        self.subject = subject
        self.future: Future[Any] = Future()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001 - raised to the caller, not here
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class RemoteSubjects:
    """Topics of which an operation waits for the object store now. Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()

    def __contains__(self, subject: str | None) -> bool:
        return subject in self._waiting

    def add(self, subject: str) -> None:
        with self._lock:
            self._waiting[subject] += 1

    def remove(self, subject: str) -> None:
        with self._lock:
            self._waiting[subject] -= 1
            if not self._waiting[subject]:
                del self._waiting[subject]


class WorkerPool:
    """Threads and their queue. Safe from many threads."""

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        spares: int = 0,
        subjects: RemoteSubjects,
        redirect: Callable[[PoolTask], bool] = lambda _: False,
    ) -> None:
        self.name = name
        self._threads_max = threads
        self._spares = spares
        self._subjects = subjects
        self._redirect = redirect
        self._changed = threading.Condition()
        self._tasks: deque[PoolTask] = deque()
        self._threads: set[threading.Thread] = set()
        self._numbers = 0
        self._idle = 0
        self._waiting = 0
        self._closed = False

    @property
    def load(self) -> float:
        """Tasks that run or are queued for each thread; those that wait do not count."""
        with self._changed:
            running = len(self._threads) - self._idle - self._waiting
            return (running + len(self._tasks)) / self._threads_max

    def submit(self, task: PoolTask) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError(f"the pool {self.name} is closed")
            self._tasks.append(task)
            if self._idle:
                self._changed.notify()
            try:
                self._start_threads()
            except Unavailable:
                self._tasks.remove(task)
                raise

    def close(self) -> None:
        """Wait for running tasks; queued ones are cancelled."""
        with self._changed:
            self._closed = True
            cancelled, self._tasks = self._tasks, deque()
            threads = tuple(self._threads)
            self._changed.notify_all()
        for task in cancelled:
            task.future.cancel()
        for thread in threads:
            thread.join()

    def task_waits(self, subject: str | None) -> None:
        """Called when a thread of this pool starts to wait for the object store."""
        if subject is not None:
            self._subjects.add(subject)
        with self._changed:
            self._waiting += 1
            self._start_threads()

    def task_continues(self, subject: str | None) -> None:
        if subject is not None:
            self._subjects.remove(subject)
        with self._changed:
            self._waiting -= 1
            if self._has_surplus():
                self._changed.notify()

    def _start_threads(self) -> None:
        """Start a thread for queued tasks beyond the idle threads. The lock is held."""
        count = len(self._threads)
        is_free = count - self._waiting < self._threads_max
        if self._closed or len(self._tasks) <= self._idle or not is_free:
            return
        if count < self._threads_max + self._spares:
            self._numbers += 1
            thread = _Worker(self, f"{self.name}_{self._numbers}")
            self._threads.add(thread)
            try:
                start_thread(thread)
            except Unavailable:
                self._threads.discard(thread)
                if not self._threads:
                    raise  # no thread would ever take a task

    def next_task(self) -> PoolTask | None:
        """The next task for a thread of this pool; None when the thread is to end."""
        while True:
            with self._changed:
                while not self._tasks and not self._closed and not self._has_surplus():
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                if not self._tasks or self._has_surplus():
                    self._threads.discard(threading.current_thread())
                    return None
                task = self._tasks.popleft()
            if not self._redirect(task):
                return task

    def _has_surplus(self) -> bool:
        return len(self._threads) - self._waiting > self._threads_max


class _Worker(threading.Thread):
    """One thread of a pool, and the observer of its own waits."""

    def __init__(self, pool: WorkerPool, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._pool = pool
        self._subject: str | None = None

    def run(self) -> None:
        observe_waits(self)
        while (task := self._pool.next_task()) is not None:
            self._subject = task.subject
            task.run()
            del task  # release its result before the next task

    def wait_began(self) -> None:
        self._pool.task_waits(self._subject)

    def wait_ended(self) -> None:
        self._pool.task_continues(self._subject)
