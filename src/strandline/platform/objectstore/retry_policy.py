"""Patience with another machine: when a request is made again, and after which pause.

    for attempt in Attempts(pause_after):        async for, in a coroutine
        with attempt:
            return ask()

``pause_after`` looks at what was raised and says False (give up: it travels), True (once more,
after a pause that doubles and is stretched by chance), or for how many seconds to pause.

Nothing is logged: whoever asks is told in the end.
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
    """Attempts, one after the other, until one is left without an error. Owned by one request."""

    def __init__(
        self,
        pause_after: PauseAfter,
        *,
        first_s: float = _PAUSE_S_FIRST,
        longest_s: float = _PAUSE_S_MAX,
    ) -> None:
        self._pause_after = pause_after
        self._usual_s = first_s
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
        self._pause_s = self._next_usual_s() if pause is True else pause
        return True

    def _next_usual_s(self) -> float:
        usual_s = self._usual_s
        self._usual_s = min(self._longest_s, 2 * usual_s)
        return usual_s * (1 + random.random())  # noqa: S311 - spreads requests, guards nothing
