"""The life cycle of a server: bind, open the store, serve, drain, close.

    bind      before anything else, so that probes get a response while the log is replayed
    open      the store, on a thread; addresses and tokens are checked before the first request
    serve     until ``stop`` or a signal: SIGTERM, SIGINT
    drain     stop accepting, end the streams, let requests end within ``drain_s``
    close     the pools, then the store: everything acknowledged is on disk

A second signal ends the process at once, like a crash: acknowledged records survive as their
durability promises. SIGHUP reads the certificate again. All parts of a server are created here.
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

from strandline.api.struct_warmup import warm_up
from strandline.errors import Invalid, Unavailable
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.platform import listen_sockets
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.server.app import make_app
from strandline.server.app_state import AppState
from strandline.server.auth import listen_policy
from strandline.server.auth.auth import Auth
from strandline.server.connection import tls
from strandline.server.connection.listener import Listener
from strandline.server.http.proxies import TrustedProxies
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.live.hub import Hub
from strandline.server.routes import pipelines
from strandline.server.settings import ServerSettings
from strandline.server.startup_app import StartupApp
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store

_LOG = structlog.get_logger("strandline.server")
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server:
    """One server. ``run`` is for one thread; ``stop`` is safe from many."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        objects: Objects | None = None,
        on_bound: Callable[[Server], None] = lambda _: None,
        on_ready: Callable[[Server], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.address = listen_policy.check_exposure(settings)
        self.parts: AppState | None = None
        """The parts, once the store is open."""
        self.listener: Listener | None = None
        """The network side, once it is bound."""
        self._clock = clock or SystemClock()
        self._disk = disk
        self._objects = objects
        self._budget = ByteBudget(settings.limits)
        self._context = tls.make_context(settings.tls)
        self._schedule = (
            PipelineScheduler(  # before binding, so that a bad declaration fails at once
                settings.data,
                settings.store.pipelines,
                lake=settings.store.lake.url,
                views=settings.store.views.url,
                clock=self._clock,
                disk=disk,
            )
        )
        self._on_bound = on_bound
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """The URL of the server; once it is bound, with the port chosen for port 0."""
        if self.address.path:
            return f"unix:{self.address.path}"
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"{'https' if self._context else 'http'}://{host}:{self.address.port}"

    def run(self) -> None:
        """Serve until ``stop``; raises the error that prevented the start."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    def stop(self) -> None:
        """Drain and end. A server that has not started yet will not start."""
        if self._loop is None:
            self._stopping.set()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended already
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        proxies = TrustedProxies(self.settings.trusted_proxies)
        startup = StartupApp(self._clock, proxies)
        sockets = self._bind()
        listener = Listener(
            startup, self.settings, self._clock, proxies, self._budget, self._context
        )
        self.listener = listener
        try:
            with self._signals():
                await listener.start(sockets)
                self._on_bound(self)
                store = await asyncio.to_thread(self._open, startup)
                try:
                    await self._serve_store(store, startup, listener)
                finally:
                    await listener.end()
                    await asyncio.to_thread(store.close)
        finally:
            await listener.end()
            if self.address.path:
                listen_sockets.remove_unix(self.address.path)

    async def _serve_store(self, store: Store, startup: StartupApp, listener: Listener) -> None:
        parts = wire(store, self.settings, self._clock, ThreadPools(), self._schedule, self._budget)
        try:
            listen_policy.check_tokens(self.settings, has_tokens=parts.auth.has_tokens)
            parts.hub.start()
            parts.auth.start()
            schedule_job = pipelines.schedule_job(parts)
            self.parts, startup.app = parts, make_app(parts)
            listener.serve(parts)
            if schedule_job is not None:
                schedule_job.start()
            self._on_ready(self)
            await self._stopping.wait()
            parts.draining = True
            loop = asyncio.get_running_loop()
            # Half of the time is for queries to end by themselves, half for sending their errors.
            loop.call_later(self.settings.drain_s / 2, parts.queries.stop_all)
            await listener.drain(parts.hub.drain())
            await parts.auth.stop()
            if schedule_job is not None:
                await asyncio.to_thread(schedule_job.stop)
        finally:
            parts.queries.stop_all()
            # While the store is open: the history of ended runs is written to it.
            await asyncio.to_thread(parts.schedule.stop)
            await asyncio.to_thread(parts.bridge.close)
            await asyncio.to_thread(parts.processes.close)

    def _open(self, startup: StartupApp) -> Store:
        return Store(
            self.settings.data,
            settings=self.settings.store,
            disk=self._disk,
            clock=self._clock,
            objects=self._objects,
            progress=startup.opening.update,
        )

    def _bind(self) -> list[socket]:
        address = self.address
        try:
            if address.path:
                return listen_sockets.listen_unix(address.path)
            sockets = listen_sockets.listen_tcp(address.host, address.port)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {self.settings.bind} ({error}): is another server using it?"
            ) from error
        self.address = address._replace(port=sockets[0].getsockname()[1])
        return sockets

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle signals; only the main thread can."""
        if current_thread() is not main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, partial(self._on_stop_signal, number))
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in (*_STOP_SIGNALS, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _on_stop_signal(self, number: int) -> None:
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
            _LOG.error("the certificate was not reloaded", reason=str(error))
        else:
            _LOG.info("the certificate was reloaded", certificate=self.settings.tls.certificate)


def wire(
    store: Store,
    settings: ServerSettings,
    clock: Clock,
    bridge: ThreadPools,
    schedule: PipelineScheduler,
    budget: ByteBudget,
    random_id: Callable[[], bytes] | None = None,
) -> AppState:
    """The parts of a server over an open store; none is started yet."""
    warm_up()
    auth = Auth(store=store, settings=settings, clock=clock, random_id=random_id)
    hub = Hub(store=store, settings=settings, clock=clock, bridge=bridge, random_id=random_id)
    auth.on_revoked(hub.close_streams_of)
    parts = AppState(
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
