"""A server from its first socket to its last: bind, open the store, serve, drain, close.

    bind      before anything else, so that probes are answered while the log is replayed
    open      the store, on a thread; what could be dangerous is looked at before a request gets in
    serve     until ``stop`` or a signal: SIGTERM, SIGINT
    drain     accept nothing new, tell the streams, let requests end within ``drain_s``
    close     the pools, then the store: everything acknowledged is on disk

A second signal ends the process at once, as a crash would: what was acknowledged is kept as its
class promises. SIGHUP reads the certificate again. All parts of a server are wired here.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import partial
from socket import socket
from threading import current_thread, main_thread

import structlog
import uvloop

from strandline.api.struct_warmup import learn
from strandline.errors import Invalid, Unavailable
from strandline.pipelines.schedule.scheduler import Schedule
from strandline.platform import listen_sockets
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.server.app import make_app
from strandline.server.app_state import Parts
from strandline.server.auth import listen_policy
from strandline.server.auth.auth import Auth
from strandline.server.connection import tls
from strandline.server.connection.listener import Listener
from strandline.server.http.proxies import Proxies
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.live.hub import Hub
from strandline.server.routes import pipelines
from strandline.server.settings import ServerSettings
from strandline.server.startup_app import Door
from strandline.server.thread_pool import Bridge
from strandline.store import Store

_LOG = structlog.get_logger("strandline.server")
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Serving:
    """One server. ``run`` is for one thread; ``stop`` is safe from many."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        objects: Objects | None = None,
        on_bound: Callable[[Serving], None] = lambda _: None,
        on_ready: Callable[[Serving], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.address = listen_policy.check_exposure(settings)
        self.parts: Parts | None = None
        """The parts, once the store is open."""
        self.listener: Listener | None = None
        """The network side, once it is bound."""
        self._clock = clock or SystemClock()
        self._disk = disk
        self._objects = objects
        self._budget = ByteBudget(settings.limits)
        self._context = tls.make_context(settings.tls)
        self._schedule = Schedule(  # before anything is bound: a bad declaration is told at once
            settings.data,
            settings.store.pipelines,
            lake=settings.store.lake.url,
            views=settings.store.views.url,
            clock=self._clock,
            disk=disk,
        )
        self._on_bound = on_bound
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """Where to ask; once it is bound, with the port that was found for port 0."""
        if self.address.path:
            return f"unix:{self.address.path}"
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"{'https' if self._context else 'http'}://{host}:{self.address.port}"

    def run(self) -> None:
        """Serve until told to stop; raises what kept the server from starting."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    def stop(self) -> None:
        """Drain and end. A server that does not run yet will not."""
        if self._loop is None:
            self._stopping.set()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        proxies = Proxies(self.settings.trusted_proxies)
        door = Door(self._clock, proxies)
        sockets = self._bind()
        listener = Listener(door, self.settings, self._clock, proxies, self._budget, self._context)
        self.listener = listener
        try:
            with self._signals():
                await listener.start(sockets)
                self._on_bound(self)
                store = await asyncio.to_thread(self._open, door)
                try:
                    await self._serve_store(store, door, listener)
                finally:
                    await listener.end()
                    await asyncio.to_thread(store.close)
        finally:
            await listener.end()
            if self.address.path:
                listen_sockets.remove_unix(self.address.path)

    async def _serve_store(self, store: Store, door: Door, listener: Listener) -> None:
        parts = wire(store, self.settings, self._clock, Bridge(), self._schedule, self._budget)
        try:
            listen_policy.check_tokens(self.settings, has_tokens=parts.auth.has_tokens)
            parts.hub.start()
            parts.auth.start()
            scheduling = pipelines.job_of(parts)
            self.parts, door.app = parts, make_app(parts)
            listener.serve(parts)
            if scheduling is not None:
                scheduling.start()
            self._on_ready(self)
            await self._stopping.wait()
            parts.draining = True
            loop = asyncio.get_running_loop()
            # Half of the time is for queries to end by themselves, half for their errors to leave.
            loop.call_later(self.settings.drain_s / 2, parts.queries.stop_all)
            await listener.drain(parts.hub.drain())
            await parts.auth.stop()
            if scheduling is not None:
                await asyncio.to_thread(scheduling.stop)
        finally:
            parts.queries.stop_all()
            # While the store is open: it takes what the runs leave for the history.
            await asyncio.to_thread(parts.schedule.stop)
            await asyncio.to_thread(parts.bridge.close)
            await asyncio.to_thread(parts.processes.close)

    def _open(self, door: Door) -> Store:
        return Store(
            self.settings.data,
            settings=self.settings.store,
            disk=self._disk,
            clock=self._clock,
            objects=self._objects,
            progress=door.opening.tell,
        )

    def _bind(self) -> list[socket]:
        address = self.address
        try:
            if address.path:
                return listen_sockets.listen_unix(address.path)
            sockets = listen_sockets.listen_tcp(address.host, address.port)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {self.settings.bind} ({error}): is another server there?"
            ) from error
        self.address = address._replace(port=sockets[0].getsockname()[1])
        return sockets

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Signals, where this is the main thread and so may have them."""
        if current_thread() is not main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, partial(self._told_to_end, number))
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in (*_ENDING, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _told_to_end(self, number: int) -> None:
        if self._stopping.is_set():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._stopping.set()

    def _reload(self) -> None:
        if self._context is None:
            return
        try:
            tls.reload(self._context, self.settings.tls)
        except Invalid as error:
            _LOG.error("the certificate stays as it was", reason=str(error))
        else:
            _LOG.info("the certificate was read again", certificate=self.settings.tls.certificate)


def wire(
    store: Store,
    settings: ServerSettings,
    clock: Clock,
    bridge: Bridge,
    schedule: Schedule,
    budget: ByteBudget,
    random_id: Callable[[], bytes] | None = None,
) -> Parts:
    """The parts of a server over an open store. Nothing of them has begun yet."""
    learn()
    auth = Auth(store=store, settings=settings, clock=clock, random_id=random_id)
    hub = Hub(store=store, settings=settings, clock=clock, bridge=bridge, random_id=random_id)
    auth.on_revoked(hub.close_streams_of)
    parts = Parts(
        store=store,
        settings=settings,
        clock=clock,
        bridge=bridge,
        auth=auth,
        budget=budget,
        hub=hub,
        schedule=schedule,
    )
    auth.on_revoked(parts.queries.stop_queries_of)
    return parts
