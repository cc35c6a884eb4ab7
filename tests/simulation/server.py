"""One life of a server in the simulation: its store, parts and connections, without a socket.

What ``serve.py`` does with sockets and threads is done here with the loop of the simulation: the
same parts, the same application, the same protocol class. ``fail`` is the moment of its death: from
there on no disk, object store or network does what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from strandline.errors import ObjectStoreUnreachable
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.server.app import make_app
from strandline.server.app_state import AppState
from strandline.server.connection.listener import Listener
from strandline.server.http.proxies import TrustedProxies
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.serve import wire
from strandline.server.settings import ServerSettings
from strandline.server.startup_app import StartupApp
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_loop import SimLoop, SimProcess
from strandline.testing.sim_network import SimNetwork, SimTransport
from strandline.testing.sim_objects import SimObjects
from strandline.testing.sim_work import SimJobs, SimPool


class SimServer:
    """A server process. Owned by the loop's thread."""

    def __init__(
        self,
        loop: SimLoop,
        disk: SimDisk,
        objects: SimObjects,
        settings: ServerSettings,
        delay_s: Callable[[], float],
        delays: Callable[[], Callable[[], float]],
    ) -> None:
        self.life = SimProcess(loop)
        self.disk = disk
        self.store: Store | None = None
        self.parts: AppState | None = None
        self.jobs: SimJobs | None = None
        self.has_failed = self.has_ended = False
        self._loop = loop
        self._objects = objects
        self._settings = settings
        self._delay_s = delay_s
        self._network = SimNetwork(loop, delays)
        self._transports: list[SimTransport] = []
        self._listener: Listener | None = None

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._listener is not None and not self.has_failed

    async def start(self) -> None:
        """Open the store and serve it. Raises what keeps it from that."""
        await self.life.task(self._start())

    def connect(self, client: asyncio.Protocol) -> SimTransport:
        """The client's end of a new connection."""
        if not self.is_open:
            raise ConnectionRefusedError
        assert self._listener is not None
        protocol = self.life.run(self._listener.make_protocol)
        near, far = self._network.connect(client, protocol, self.life)
        self._transports.append(far)
        return near

    def fail(self, keep: Callable[[int], int]) -> None:
        """The process is gone at this very moment."""
        self.has_failed = True
        self.disk.power_off()
        self._objects.on_call = _gone
        for transport in self._transports:
            transport.cut(keep)

    async def bury(self) -> None:
        """Take away what a dead process has left in memory."""
        if self.jobs is not None:
            self.jobs.stop()
        await self.life.end()
        self._objects.on_call = None

    async def stop(self) -> None:
        """A clean end: drain, then close the store."""
        await self.life.task(self._stop())
        await self.life.end()

    async def _start(self) -> None:
        clock, proxies = self._loop.clock, TrustedProxies(self._settings.trusted_proxies)
        door = StartupApp(clock, proxies)
        budget = ByteBudget(self._settings.limits)
        listener = Listener(door, self._settings, clock, proxies, budget, None)
        await listener.start([])
        data = self._settings.data
        self.store = store = Store(
            data,
            settings=self._settings.store,
            disk=self.disk,
            clock=clock,
            objects=self._objects,
            start_jobs=False,
        )
        bridge = ThreadPools(make_pool=lambda *_, **__: SimPool(self._loop, self._delay_s))
        schedule = PipelineScheduler(
            data, self._settings.store.pipelines, clock=clock, disk=self.disk
        )
        parts = wire(store, self._settings, clock, bridge, schedule, budget, self.disk.random_id)
        parts.hub.start()
        parts.auth.start()
        self.jobs = SimJobs(self._loop, self.life, store._jobs, self._delay_s)
        door.app = make_app(parts)
        listener.serve(parts)
        self.parts, self._listener = parts, listener

    async def _stop(self) -> None:
        assert self.parts is not None
        assert self._listener is not None
        assert self.jobs is not None
        assert self.store is not None
        listener, self._listener = self._listener, None
        self.parts.draining = True
        await listener.drain(self.parts.hub.drain())
        await self.parts.auth.stop()
        await listener.end()
        self.jobs.stop()
        self.store.close()
        self.has_ended = True


def _gone(operation: str, key: str) -> None:
    raise ObjectStoreUnreachable(f"{operation} of {key}: the process is gone")
