"""A server under all attacks at once, with a client that goes on.

    python -m tests.hostile.siege SECONDS [NAME ...]

The client appends, reads and queries, and every answer has to be right; the memory of the server is
sampled, and one that takes more than ``BYTES_MAX`` is ended. Memory is what the process has for
itself: pages of mapped files are the kernel's to take back.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.hostile.attacks import ATTACKS
from tests.server.process import Process, served
from tests.server.running import DEADLINE_S, _make_tokens

ROOT = Path(__file__).parents[2]
BYTES_MAX = 1_500_000_000
_SAMPLE_S = 0.02
_ANON = re.compile(r"RssAnon:\s+(\d+) kB")


class Report(NamedTuple):
    """What the client met, and what the server took."""

    latencies_ms: dict[str, list[float]]
    failures: list[str]
    bytes_most: int
    is_alive: bool
    """Whether the server still ran at the end."""

    def __str__(self) -> str:
        lines = [f"memory: {self.bytes_most / 1e6:.0f} MB at most"]
        for name, found in self.latencies_ms.items():
            cuts = statistics.quantiles(found, n=100) if len(found) > 1 else [*found * 99]
            p50, p99 = cuts[49], cuts[98]
            lines.append(f"{name}: {len(found)} done, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        return "\n".join([*lines, *self.failures[:10]])


def besiege(path: Path, seconds: float, names: Sequence[str] = ()) -> Report:
    """Attack a server over the folder ``data`` of a path; by default with all attacks."""
    tokens = _make_tokens(str(path / "data"), {"client": "all", "small": "write:small"})
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(path, "--log-format", "text"))
        stack.enter_context(drained(server))
        client = Client(server.port, tokens["client"])
        stack.callback(client.close)
        client.ask("POST", "/v0/topics/small", {"records": [{"data": 0}]})
        with watched(server) as watch, attacking(server.port, tokens["small"], names):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not watch.is_over:
                client.turn()
        client.turn()  # nothing of it stays behind
        is_alive = server._process.poll() is None
        return Report(client.latencies_ms, client.failures, watch.bytes_most, is_alive)


class Client:
    """Appends, reads and queries, one after the other, and checks every answer."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        self._authorization = f"Bearer {token}"
        self._count = 0
        self.latencies_ms: dict[str, list[float]] = {"append": [], "read": [], "query": []}
        self.failures: list[str] = []

    def close(self) -> None:
        self._connection.close()

    def turn(self) -> None:
        number = self._count + 1
        data = {"n": number, "text": "x" * 1000}
        appended = self._timed("append", "/v0/topics/orders", {"records": [{"data": data}]})
        if appended is None:
            return
        self._count = number
        self._expect(appended.get("head_seq"), number, "head of an append")
        page = self._timed("read", "/v0/topics/orders/diff", {"from_seq": number - 1})
        if page is not None:
            found = [each["data"] for each in page.get("records", [])]
            self._expect(found, [data], "records of a read")
        text = {"sql": "SELECT count(*) AS n FROM orders"}
        result = self._timed("query", "/v0/sql", text)
        if result is not None:
            self._expect(str(number) in json.dumps(result), True, "rows of a query")

    def ask(self, method: str, path: str, body: Any) -> Any:
        headers = {"Authorization": self._authorization, "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, json.dumps(body), headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if answer.status >= 300:
            raise http.client.HTTPException(f"{answer.status} {content[:300]!r}")
        return json.loads(content)

    def _timed(self, name: str, path: str, body: Any) -> Any:
        began = time.monotonic()
        try:
            found = self.ask("POST", path, body)
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"{name}: {error!r}")
            return None
        self.latencies_ms[name].append((time.monotonic() - began) * 1000)
        return found

    def _expect(self, found: object, wanted: object, what: str) -> None:
        if found != wanted:
            self.failures.append(f"{what}: {str(found)[:300]} instead of {str(wanted)[:300]}")


class Watch:
    """Samples the memory of a server, and ends one that takes too much."""

    def __init__(self, server: Process) -> None:
        self._server = server
        self._status = Path(f"/proc/{server.pid}/status")
        self.bytes_most = 0

    @property
    def is_over(self) -> bool:
        return self.bytes_most > BYTES_MAX or self._server._process.poll() is not None

    def run(self, stopping: threading.Event) -> None:
        while not stopping.wait(_SAMPLE_S) and not self.is_over:
            found = _ANON.search(self._status.read_text())
            if found is not None:
                self.bytes_most = max(self.bytes_most, int(found[1]) * 1024)
        if self.bytes_most > BYTES_MAX:
            self._server._process.kill()


@contextlib.contextmanager
def watched(server: Process) -> Iterator[Watch]:
    watch, stopping = Watch(server), threading.Event()
    thread = threading.Thread(target=watch.run, args=(stopping,))
    thread.start()
    try:
        yield watch
    finally:
        stopping.set()
        thread.join()


@contextlib.contextmanager
def drained(server: Process) -> Iterator[None]:
    """Read the server's log: a full pipe would stop it."""
    stderr = server._process.stderr
    assert stderr is not None
    threading.Thread(target=lambda: [None for _ in stderr], daemon=True).start()
    yield


@contextlib.contextmanager
def attacking(port: int, token: str, names: Sequence[str]) -> Iterator[None]:
    """All attacks, from a process of their own."""
    command = [sys.executable, "-m", "tests.hostile.attacks", str(port), token, *names]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"attacking\n"
        try:
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    seconds_given = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{len(ATTACKS)} attacks at once for {seconds_given:g} s", flush=True)
        print(besiege(Path(folder), seconds_given, sys.argv[2:]))
