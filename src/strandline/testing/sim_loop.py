"""An event loop in simulated time: when nothing is ready, the clock moves to the next timer.

    clock = SteppingClock()
    loop = SimLoop(clock)
    loop.run_until_complete(main())       # hours of timers in the time of their callbacks

One thread runs everything, what is sent to threads included (``asyncio.to_thread``). The same
program does the same each time. There are no sockets: ``sim_network.py`` connects protocols in
memory.

A ``Life`` is one process in that world: everything that is started inside ``life.run`` belongs to
it, tasks and timers too. ``end`` is its death: what is scheduled of it never runs.
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

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class SteppingClock(SimClock):
    """A clock for one thread: to wait lets the time pass."""

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        if event.is_set():
            return True
        if seconds is None:
            raise RuntimeError("the only thread waits for what no other can do")
        self.advance(seconds)
        return event.is_set()


_alive: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


class Life:
    """One process of a simulated world. Owned by the loop's thread."""

    def __init__(self, loop: SimLoop) -> None:
        self.is_over = False
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_alive.set, self)
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def run(self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        """Do something as this process."""
        return self._context.copy().run(work, *args, **kwargs)

    def task(self, work: Coroutine[Any, Any, Given]) -> asyncio.Task[Given]:
        """A task of this process."""
        return self.run(self._loop.create_task, work)

    def forget(self, task: asyncio.Task[Any]) -> None:
        """A task has ended."""
        self.tasks.pop(task, None)

    async def end(self) -> None:
        """Let nothing of it run any more.

        Its tasks are cancelled first, so that they end in order: by now no disk, network or object
        store of the world may listen to them.
        """
        tasks = [each for each in self.tasks if not each.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_UNWINDING_S_MAX)
        self.is_over = True


class _Selector:
    """Stands where a loop waits for its sockets."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is not None and timeout <= 0:
            return []
        for look in tuple(self._loop.before_waiting):
            look()
        self._loop.pass_time()
        return []

    def close(self) -> None:
        """Nothing is held."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop in simulated time. Owned by one thread."""

    _scheduled: list[asyncio.TimerHandle]
    _ready: Any

    def __init__(self, clock: SteppingClock) -> None:
        super().__init__()
        self.clock = clock
        self.before_waiting: list[Callable[[], None]] = []
        """Called whenever nothing is ready, before the time moves on. May schedule something."""
        self._selector = _Selector(self)
        self.set_exception_handler(self._note)
        self.complaints: list[dict[str, Any]] = []
        """What callbacks and tasks have raised that nothing has taken."""

    def time(self) -> float:
        return self.clock.monotonic()

    def pass_time(self) -> None:
        """Move the clock to the next timer, when nothing is ready."""
        if self._ready:
            return
        if not self._scheduled:
            raise RuntimeError("everything waits, and nothing will happen")
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
        return _still_born(handle, context)

    def call_at(  # type: ignore[override]  # as its base, with less overloading
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, _unless_over(callback), *args, context=context)
        return _still_born(handle, context)

    def run_in_executor(  # type: ignore[override]  # runs in this thread, as a future all the same
        self, executor: Any, func: Callable[..., Given], *args: Any
    ) -> asyncio.Future[Given]:
        del executor
        done: asyncio.Future[Given] = self.create_future()
        self.call_soon(_settle, done, func, args)
        return done

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        life = _alive.get()
        if life is not None:
            life.tasks[task] = None
            task.add_done_callback(life.forget)
        return task

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No thread sleeps that would have to be woken."""

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        self.complaints.append(context)


_Handle = TypeVar("_Handle", bound=asyncio.Handle)


def _still_born(handle: _Handle, context: contextvars.Context | None) -> _Handle:
    """Cancelled at once, when it belongs to a life that is over."""
    life = _alive.get() if context is None else context.get(_alive)
    if life is not None and life.is_over:
        handle.cancel()
    return handle


def _settle(done: asyncio.Future[Given], func: Callable[..., Given], args: tuple[Any, ...]) -> None:
    if done.cancelled():
        return
    try:
        done.set_result(func(*args))
    except Exception as error:  # noqa: BLE001 - raised to what waits for it
        done.set_exception(error)


def _unless_over(callback: Callable[..., object]) -> Callable[..., object]:
    """A timer's callback, which does nothing once its life is over."""

    def run(*args: Any) -> None:
        life = _alive.get()
        if life is None or not life.is_over:
            callback(*args)

    return run
