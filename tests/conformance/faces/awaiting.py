"""An asynchronous store as a blocking one: every coroutine is run on a loop of its own thread."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

DEADLINE_S = 60.0


class Loop:
    """A loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="awaiting")
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(DEADLINE_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()


class Awaited:
    """Stands for an asynchronous object. What it gives is awaited, and stands for more of them."""

    def __init__(self, behind: Any, loop: Loop) -> None:
        self.__dict__["behind"] = behind
        self.__dict__["loop"] = loop

    def __getattr__(self, name: str) -> Any:
        return _given(getattr(self.behind, name), self.loop)

    def __enter__(self) -> Any:
        return _given(self.behind.__aenter__(), self.loop)

    def __exit__(self, *raised: Any) -> Any:
        return self.loop.run(self.behind.__aexit__(*raised))

    def __repr__(self) -> str:
        return repr(self.behind)


def _given(value: Any, loop: Loop) -> Any:
    if inspect.iscoroutine(value):
        value = loop.run(value)
    if inspect.ismethod(value):
        return _verb(value, loop)
    if inspect.isasyncgen(value):
        return _each(value, loop)
    if isinstance(value, list):
        return [_given(each, loop) for each in value]
    if type(value).__module__.startswith("strandline.client.asynchronous"):
        return Awaited(value, loop)
    return value


def _verb(method: Callable[..., Any], loop: Loop) -> Callable[..., Any]:
    @functools.wraps(method)
    def verb(*args: Any, **kwargs: Any) -> Any:
        given = [_taken(each) for each in args]
        return _given(method(*given, **{name: _taken(each) for name, each in kwargs.items()}), loop)

    return verb


def _taken(value: Any) -> Any:
    if isinstance(value, Awaited):
        return value.behind
    return [_taken(each) for each in value] if isinstance(value, list) else value


def _each(made: Any, loop: Loop) -> Iterator[Any]:
    try:
        while True:
            try:
                value = loop.run(made.__anext__())
            except StopAsyncIteration:
                return
            yield _given(value, loop)
    finally:
        loop.run(made.aclose())
