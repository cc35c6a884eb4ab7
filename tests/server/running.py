"""A real server for tests: uvicorn on uvloop in a thread, on a free port or a socket file.

with running(tmp_path) as server:
    httpx2.get(f"{server.url}/v0/health")
    server.store.topic("orders").append(b"{}")
    with server.raw() as raw:
        raw.send(b"GET /v0/health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
        assert raw.answer().status == 200
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.security.scopes import parse
from strandline.security.token_store import TokenStore
from strandline.server.app_state import AppState
from strandline.server.connection.listener import Listener
from strandline.server.serve import Server
from strandline.server.settings import ServerSettings
from strandline.store import Store

DEADLINE_S = 30.0


class Answered(NamedTuple):
    """An answer as it came over a raw socket."""

    status: int
    headers: dict[str, str]
    body: bytes
    head: bytes


class Raw:
    """A socket to a server, for what no client library would send."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._read = b""

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, *, to_head: bool = False) -> Answered:
        """The next answer, by its Content-Length or chunks; none of HEAD has a body."""
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        status = int(status_line.split()[1])
        if to_head or status in (100, 101, 204, 304):
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = self._chunks()
        else:
            body = self._exactly(int(headers["content-length"]))
        return Answered(status, headers, body, head)

    def rest(self) -> bytes:
        """Everything until the server hangs up."""
        with contextlib.suppress(ConnectionResetError):
            while data := self.socket.recv(65536):
                self._read += data
        rest, self._read = self._read, b""
        return rest

    @property
    def is_closed(self) -> bool:
        """Whether the server hangs up without another word, before the deadline."""
        return self.rest() == b""

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            self._more()
        body, self._read = self._read[:size], self._read[size:]
        return body

    def _line(self) -> bytes:
        while b"\r\n" not in self._read:
            self._more()
        line, _, self._read = self._read.partition(b"\r\n")
        return line

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._line(), 16):
            body += self._exactly(size)
            self._line()
        self._line()
        return body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError(f"the server hung up after {self._read!r}")
        self._read += data


class Running:
    """A server that runs in a thread of this process."""

    def __init__(self, serving: Server, tokens: dict[str, str]) -> None:
        self._serving = serving
        self.tokens = tokens
        """Texts of tokens by the name that the test gave."""

    @property
    def url(self) -> str:
        return self._serving.url

    @property
    def host(self) -> str:
        return self._serving.address.host

    @property
    def port(self) -> int:
        return self._serving.address.port

    @property
    def parts(self) -> AppState:
        assert self._serving.parts is not None
        return self._serving.parts

    @property
    def listener(self) -> Listener:
        assert self._serving.listener is not None
        return self._serving.listener

    @property
    def store(self) -> Store:
        return self.parts.store

    def on_loop(self, work: Callable[[], object]) -> None:
        """Do something on the loop's thread, and wait until it is done."""
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        loop = self._serving._loop
        assert loop is not None
        loop.call_soon_threadsafe(run)
        assert done.wait(DEADLINE_S)

    def raw(self, *, context: ssl.SSLContext | None = None) -> Raw:
        """A new connection."""
        address = self._serving.address
        if address.path:
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(DEADLINE_S)
            connected.connect(address.path)
        else:
            connected = socket.create_connection((address.host, address.port), DEADLINE_S)
        if context is not None:
            connected = context.wrap_socket(connected, server_hostname="localhost")
        return Raw(connected)

    def stop(self) -> None:
        """Begin to drain."""
        self._serving.stop()


@contextlib.contextmanager
def running(
    path: Path | str,
    *,
    settings: ServerSettings | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
    objects: Objects | None = None,
    tokens: Mapping[str, str] | None = None,
    bind: str = "127.0.0.1:0",
    ready: bool = True,
) -> Iterator[Running]:
    """A server over a store in the folder ``data`` of a path; ``settings.bind`` is replaced.

    ``tokens`` are made before it starts: scopes as text by a name; texts in ``server.tokens``.
    ``ready=False`` does not wait for the store.
    """
    given = settings or ServerSettings()
    given = msgspec.structs.replace(given, data=str(Path(path) / "data"), bind=bind)
    secrets = _make_tokens(given.data, tokens or {})
    begun = threading.Event()
    failures: list[BaseException] = []

    def began(_: Server) -> None:
        begun.set()

    serving = Server(
        given,
        clock=clock,
        disk=disk,
        objects=objects,
        **{"on_ready" if ready else "on_bound": began},
    )

    def run() -> None:
        try:
            serving.run()
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            failures.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=run, name="server-under-test", daemon=True)
    thread.start()
    try:
        assert begun.wait(DEADLINE_S), "the server did not start in time"
        if failures:
            raise failures[0]
        yield Running(serving, secrets)
    finally:
        serving.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the server did not end in time"
    if failures:
        raise failures[0]


def _make_tokens(data: str, tokens: Mapping[str, str]) -> dict[str, str]:
    if not tokens:
        return {}
    with Store(data) as store:
        registry = TokenStore(store, SystemClock(), OsDisk().random_id)
        return {
            name: registry.create(scopes=parse(scopes), label=name, creator="test").text
            for name, scopes in tokens.items()
        }
