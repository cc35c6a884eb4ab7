"""An event loop in simulated time: when nothing is ready, the clock moves to the next timer.

    clock = SteppingClock()
    loop = SimLoop(clock)
    loop.run_until_complete(main())       # hours of timers take only the time of callbacks

One thread runs everything, including the work for threads (``asyncio.to_thread``). The same program
runs in the same way each time. There are no sockets: ``sim_network.py`` connects protocols in
memory.

A ``SimProcess`` is one process of the simulation: everything that is started inside ``life.run``
belongs to it, including tasks and timers. ``end`` ends the process: its scheduled callbacks never
run.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from strandline.testing.sim_clock import SimClock

STEP_S_MIN = 1e-6
_UNWINDING_S_MAX = 60.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class SteppingClock(SimClock):
    """A clock for one thread: a wait advances the time."""

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        if event.is_set():
            return True
        if seconds is None:
            raise RuntimeError("the only thread waits for an event that no thread can set")
        self.advance(seconds)
        return event.is_set()


_current_life: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar(
    "life", default=None
)


class SimProcess:
    """One process of a simulation. Owned by the loop's thread."""

    def __init__(self, loop: SimLoop) -> None:
        self.is_over = False
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_current_life.set, self)
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def run(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a function as this process."""
        return self._context.copy().run(work, *args, **kwargs)

    def task(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Create a task of this process."""
        return self.run(self._loop.create_task, work)

    def forget(self, task: asyncio.Task[Any]) -> None:
        """Remove a task that has ended."""
        self.tasks.pop(task, None)

    async def end(self) -> None:
        """End the process: none of its callbacks run any more.

        Its tasks are cancelled first, so that they end in order: before this, disks, networks and
        object stores of the simulation must have stopped serving them.
        """
        tasks = [each for each in self.tasks if not each.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_UNWINDING_S_MAX)
        self.is_over = True


class _Selector:
    """Replaces the selector with which a loop waits for sockets."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is not None and timeout <= 0:
            return []
        for callback in tuple(self._loop.before_waiting):
            callback()
        self._loop.pass_time()
        return []

    def close(self) -> None:
        """Does nothing."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop in simulated time. Owned by one thread."""

    _scheduled: list[asyncio.TimerHandle]
    _ready: Any

    def __init__(self, clock: SteppingClock) -> None:
        super().__init__()
        self.clock = clock
        self.before_waiting: list[Callable[[], None]] = []
        """Called when nothing is ready, before the time advances. May schedule callbacks."""
        self._selector = _Selector(self)
        self.set_exception_handler(self._record_error)
        self.errors: list[dict[str, Any]] = []
        """Unhandled errors of callbacks and tasks."""

    def time(self) -> float:
        return self.clock.monotonic()

    def pass_time(self) -> None:
        """Advance the clock to the next timer, if nothing is ready."""
        if self._ready:
            return
        if not self._scheduled:
            raise RuntimeError("every task waits, and no timer is scheduled")
        left_s = self._scheduled[0].when() - self.time()
        if left_s > 0:
            self.clock.advance(max(left_s, STEP_S_MIN))

    def call_soon(  # type: ignore[override]  # as its base, with less overloading
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        return _cancelled_if_over(handle, context)

    def call_at(  # type: ignore[override]  # as its base, with less overloading
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, _unless_over(callback), *args, context=context)
        return _cancelled_if_over(handle, context)

    def run_in_executor(  # type: ignore[override]  # runs in this thread
        self, executor: Any, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        del executor
        future: asyncio.Future[Result] = self.create_future()
        self.call_soon(_run_into_future, future, func, args)
        return future

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        life = _current_life.get()
        if life is not None:
            life.tasks[task] = None
            task.add_done_callback(life.forget)
        return task

    def _process_events(self, event_list: list[object]) -> None:
        """Does nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Does nothing: no thread waits in the selector."""

    def _record_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        self.errors.append(context)


_Handle = TypeVar("_Handle", bound=asyncio.Handle)


def _cancelled_if_over(handle: _Handle, context: contextvars.Context | None) -> _Handle:
    """Cancel a handle at once if it belongs to a process that has ended."""
    life = _current_life.get() if context is None else context.get(_current_life)
    if life is not None and life.is_over:
        handle.cancel()
    return handle


def _run_into_future(
    future: asyncio.Future[Result], func: Callable[..., Result], args: tuple[Any, ...]
) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(func(*args))
    except Exception as error:  # noqa: BLE001 - passed to the future
        future.set_exception(error)


def _unless_over(callback: Callable[..., object]) -> Callable[..., object]:
    """A callback that does nothing after the end of its process."""

    def run(*args: Any) -> None:
        life = _current_life.get()
        if life is None or not life.is_over:
            callback(*args)

    return run
