"""Repeats a request to another machine, with pauses between the attempts.

    for attempt in Attempts(pause_after):        async for, in a coroutine
        with attempt:
            return request()

``pause_after`` gets the error and returns False (give up: the error is raised), True (try again,
after a pause that doubles each time and is lengthened at random), or the seconds to pause.

Nothing is logged: the caller gets the last error.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator

_PAUSE_S_FIRST = 0.05
_PAUSE_S_MAX = 5.0

PauseAfter = Callable[[Exception], bool | float]


class Attempts:
    """Attempts, one after the other, until one succeeds. Owned by one request."""

    def __init__(
        self,
        pause_after: PauseAfter,
        *,
        first_s: float = _PAUSE_S_FIRST,
        longest_s: float = _PAUSE_S_MAX,
    ) -> None:
        self._pause_after = pause_after
        self._base_pause_s = first_s
        self._longest_s = longest_s
        self._pause_s = 0.0

    def __iter__(self) -> Iterator[Attempts]:
        while True:
            yield self
            time.sleep(self._pause_s)

    async def __aiter__(self) -> AsyncIterator[Attempts]:
        while True:
            yield self
            await asyncio.sleep(self._pause_s)

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        pause = self._pause_after(error)
        if pause is False:
            return False
        self._pause_s = self._next_pause_s() if pause is True else pause
        return True

    def _next_pause_s(self) -> float:
        base_s = self._base_pause_s
        self._base_pause_s = min(self._longest_s, 2 * base_s)
        return base_s * (1 + random.random())  # noqa: S311 - spreads requests; not for security
