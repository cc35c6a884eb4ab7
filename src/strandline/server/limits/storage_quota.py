"""Whether the store holds as much as it may: ``total_bytes_max``.

To add up all topics takes time when there are many, so it is done now and then, on a thread, and
what was appended since is added. Deletes therefore count with the next look.
"""

from __future__ import annotations

import asyncio

from strandline.api.errors import Refused
from strandline.platform.clock import Clock
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import Bridge
from strandline.store import Store

_LOOK_S = 1.0


class Fullness:
    """How much is in the store. Owned by the loop's thread; ``admit`` is safe from others."""

    def __init__(
        self, store: Store, settings: ServerSettings, clock: Clock, bridge: Bridge
    ) -> None:
        self._bytes_max = settings.limits.total_bytes_max
        self.is_bounded = bool(self._bytes_max)
        """Whether there is such a limit at all."""
        self._store = store
        self._clock = clock
        self._bridge = bridge
        self._looked_s = clock.monotonic()
        self._looking: asyncio.Task[None] | None = None
        self._bytes = store.totals().payload_bytes if self._bytes_max else 0

    def admit(self, size: int) -> None:
        """429, when so many more bytes are too many."""
        if not self._bytes_max:
            return
        if self._clock.monotonic() - self._looked_s >= _LOOK_S:
            self._look_soon()
        if self._bytes + size > self._bytes_max:
            raise Refused(
                429,
                "throttled",
                f"the store holds its {self._bytes_max} bytes (total_bytes_max): delete some",
                detail={"limit": "total_bytes_max", "max": self._bytes_max},
                retry_after_s=_LOOK_S,
            )
        self._bytes += size

    def _look_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # on a thread, with a large body: the next small one looks
        if self._looking is None or self._looking.done():
            self._looked_s = self._clock.monotonic()
            self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        totals = await self._bridge.run(self._store.totals)
        self._bytes = totals.payload_bytes
