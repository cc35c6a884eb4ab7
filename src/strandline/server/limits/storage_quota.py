"""The storage quota of the store: ``total_bytes_max``.

Adding up many topics takes time, so it is done at intervals, on a thread; bytes appended since are
added. Deletes therefore count from the next measurement on.
"""

from __future__ import annotations

import asyncio

from strandline.api.errors import Refused
from strandline.platform.clock import Clock
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store

_MEASURE_S = 1.0


class StorageQuota:
    """Counts the bytes of the store. Owned by the loop's thread; ``admit`` is safe from others."""

    def __init__(
        self, store: Store, settings: ServerSettings, clock: Clock, bridge: ThreadPools
    ) -> None:
        self._bytes_max = settings.limits.total_bytes_max
        self.is_bounded = bool(self._bytes_max)
        """Whether the quota is set."""
        self._store = store
        self._clock = clock
        self._bridge = bridge
        self._measured_s = clock.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._bytes = store.totals().payload_bytes if self._bytes_max else 0

    def admit(self, size: int) -> None:
        """Count ``size`` more bytes; 429 when they exceed the quota."""
        if not self._bytes_max:
            return
        if self._clock.monotonic() - self._measured_s >= _MEASURE_S:
            self._measure_soon()
        if self._bytes + size > self._bytes_max:
            raise Refused(
                429,
                "throttled",
                f"the store has {self._bytes_max} bytes, the limit (total_bytes_max): delete some",
                detail={"limit": "total_bytes_max", "max": self._bytes_max},
                retry_after_s=_MEASURE_S,
            )
        self._bytes += size

    def _measure_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a large body on a thread: the next small one measures
        if self._task is None or self._task.done():
            self._measured_s = self._clock.monotonic()
            self._task = loop.create_task(self._measure())

    async def _measure(self) -> None:
        totals = await self._bridge.run(self._store.totals)
        self._bytes = totals.payload_bytes
