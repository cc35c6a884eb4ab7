"""Where the loop meets the store: calls that may wait run on threads, and the loop goes on.

Two pools, so that history never holds up what is live: ``run`` is for what takes microseconds to
milliseconds (memory, local disk), ``slow`` for what may take seconds (SQL, the lake, whole scans).
What never waits (``Topic.append_soon``, ``head_seq``) is called on the loop itself.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Bridge:
    """The pools. Owned by the loop's thread."""

    def __init__(self, *, threads: int = 8, slow_threads: int = 4) -> None:
        self._quick = ThreadPoolExecutor(threads, "strandline-serve")
        self._slow = ThreadPoolExecutor(slow_threads, "strandline-serve-slow")
        self._threads = threads
        self._at_work = 0

    @property
    def busy(self) -> float:
        """How much work there is for each of the quick threads, 1 when all have some."""
        return min(1.0, self._at_work / self._threads)

    async def run(
        self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The result of work that takes moments."""
        loop = asyncio.get_running_loop()
        self._at_work += 1
        try:
            return await loop.run_in_executor(self._quick, functools.partial(work, *args, **kwargs))
        finally:
            self._at_work -= 1

    async def slow(
        self, work: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        """The result of work that may take long."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._slow, functools.partial(work, *args, **kwargs))

    def close(self) -> None:
        """Let what runs end; nothing new is taken."""
        self._quick.shutdown(wait=True, cancel_futures=True)
        self._slow.shutdown(wait=True, cancel_futures=True)
