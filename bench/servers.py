"""Servers to be measured side by side: ours, Redis, NATS and PostgreSQL, each with its own log.

All keep 200 bytes of JSON. What an acknowledgement means is as alike as they allow:

             Strandline   Redis       NATS JetStream   PostgreSQL, synchronous_commit
    cached   disk         everysec    default          off
    synced   fsync        always      sync always      on

All of them are held to one core. That is hard on NATS and PostgreSQL, which would use more.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from bench.load import OWN_NAME, Plan

Safety = Literal["cached", "synced"]
RECORD = b'{"id":"%b","amount":12.5,"note":"%b"}' % (b"a" * 32, b"n" * 131)
START_S = 30.0


class Server(NamedTuple):
    """A server that runs, and how to ask it for an append."""

    name: str
    plan: Callable[[Safety, int], Plan | None]
    """How to append so many records with one acknowledgement; None when it cannot."""


@contextlib.contextmanager
def strandline_server(folder: Path, core: int | None) -> Iterator[Server]:
    """Ours, as a process of its own."""
    program = [sys.executable, "-c", "from strandline.cli.main import main; main()", "serve"]
    flags = ["--data", str(folder / "strandline"), "--bind", "127.0.0.1:0"]
    with _process([*program, *flags], core, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = b""
        while not (found := re.search(rb"serving http://127.0.0.1:(\d+)", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        port = int(found[1])
        for topic, durability in (("cached", "disk"), ("synced", "fsync")):
            body = b'{"durability":"%b"}' % durability.encode()
            _once(port, _http("PUT", f"/v0/topics/{topic}", body), b" 201 ")
            # The first append has the topic at hand for those that follow.
            _once(port, _append(topic, 1), b" 200 ")
        yield Server("Strandline", lambda safety, count: _ours(port, safety, count))


def _ours(port: int, safety: Safety, count: int) -> Plan:
    return Plan(
        host="127.0.0.1",
        port=port,
        request=_append(safety, count),
        acknowledged=b'"server_total_ms":',
        refused=(b'"error":',),
    )


def _append(topic: str, count: int) -> bytes:
    """One record or a hundred as JSON; a thousand as a table of Arrow."""
    path = f"/v0/topics/{topic}"
    if count < 1000:
        records = b",".join([b'{"data":%b}' % RECORD] * count)
        return _http("POST", path, b'{"records":[%b]}' % records)
    table = pa.table({"data": pa.array([RECORD] * count, pa.binary())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return _http("POST", path, sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream")


def _http(method: str, path: str, body: bytes, kind: str = "application/json") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@contextlib.contextmanager
def redis_server(folder: Path, core: int | None) -> Iterator[Server | None]:
    """Two of them: how it syncs is a matter of the whole server."""
    if shutil.which("redis-server") is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        for safety, policy in (("cached", "everysec"), ("synced", "always")):
            place = folder / f"redis-{policy}"
            place.mkdir()
            ports[safety] = port = _free_port()
            flags = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(place), "--save", ""]
            flags += ["--appendonly", "yes", "--appendfsync", policy]
            stack.enter_context(_process(["redis-server", *flags], core))
            _wait_for(port)

        def plan(safety: Safety, count: int) -> Plan:
            xadd = _resp(b"XADD", b"log", b"*", b"d", RECORD)
            # One answer for all: the last one of a transaction has every id.
            request = xadd if count == 1 else _resp(b"MULTI") + xadd * count + _resp(b"EXEC")
            sign = b"$" if count == 1 else b"*%d\r\n" % count
            return Plan(
                host="127.0.0.1",
                port=ports[safety],
                request=request,
                acknowledged=sign,
                refused=(b"-ERR", b"-EXEC"),
            )

        yield Server("Redis", plan)


def _resp(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


@contextlib.contextmanager
def nats_server(folder: Path, core: int | None) -> Iterator[Server | None]:
    """JetStream with a stream on disk; an acknowledgement comes as a message."""
    program = shutil.which(
        "nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    if program is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        for safety, sync in (("cached", "2m"), ("synced", "always")):
            ports[safety] = port = _free_port()
            place = folder / f"nats-{safety}"
            config = folder / f"nats-{safety}.conf"
            config.write_text(
                f'listen: "127.0.0.1:{port}"\n'
                f'jetstream {{ store_dir: "{place}", sync_interval: {sync} }}\n'
            )
            stack.enter_context(_process([program, "-c", str(config)], core))
            _wait_for(port)
            stream = b'{"name":"log","subjects":["log"],"storage":"file","num_replicas":1}'
            ask = _nats_greeting() + _publish(b"$JS.API.STREAM.CREATE.log", stream)
            _once(port, ask, b'"created"')

        def plan(safety: Safety, count: int) -> Plan | None:
            if count > 1:
                return None  # every message is acknowledged by itself
            return Plan(
                host="127.0.0.1",
                port=ports[safety],
                greeting=_nats_greeting() + b"PING\r\n",
                welcome=b"PONG\r\n",
                request=_publish(b"log", RECORD),
                acknowledged=b'"seq":',
                refused=(b'"error"', b"-ERR"),
            )

        yield Server("NATS", plan)


def _nats_greeting() -> bytes:
    return b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _INBOX.%b 1\r\n' % OWN_NAME


def _publish(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b _INBOX.%b %d\r\n%b\r\n" % (subject, OWN_NAME, len(payload), payload)


@contextlib.contextmanager
def postgres_server(folder: Path, core: int | None) -> Iterator[Server | None]:
    """A table with a serial key, and a prepared insert; it will not run as root."""
    if shutil.which("postgres") is None or shutil.which("initdb") is None:
        yield None
        return
    user = "postgres" if os.geteuid() == 0 else None
    place = Path(tempfile.mkdtemp(prefix="strandline-bench-", dir=folder.parent))
    try:
        if user is not None:
            shutil.chown(place, user)
        data, port = place / "data", _free_port()
        subprocess.run(
            ["initdb", "-D", str(data), "-A", "trust", "-U", "postgres"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=user,
            cwd=place,
        )
        flags = ["-D", str(data), "-p", str(port), "-k", str(place), "-c", "max_connections=200"]
        with _process(["postgres", *flags], core, user=user, cwd=place) as process:
            _wait_for(port, _pg_start("on"), b"Z\0\0\0\x05I")
            table = "create table log (seq bigserial primary key, data text not null)"
            _once(port, _pg_start("on") + _pg_query(table), b"CREATE TABLE")
            yield Server("PostgreSQL", lambda safety, count: _pg_plan(port, safety, count))
            process.send_signal(signal.SIGINT)  # fast: do not wait for who is connected
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _pg_plan(port: int, safety: Safety, count: int) -> Plan:
    rows = ",".join(f"(${number})" for number in range(1, count + 1))
    parse = _pg(b"P", b"s\0insert into log (data) values %b\0\0\0" % rows.encode())
    values = (struct.pack("!i", len(RECORD)) + RECORD) * count
    bind = _pg(b"B", b"\0s\0" + struct.pack("!hh", 0, count) + values + struct.pack("!h", 0))
    execute = _pg(b"E", b"\0" + struct.pack("!i", 0))
    return Plan(
        host="127.0.0.1",
        port=port,
        greeting=_pg_start("on" if safety == "synced" else "off") + parse + _pg(b"S", b""),
        welcome=b"1\0\0\0\x04Z\0\0\0\x05I",
        request=bind + execute + _pg(b"S", b""),
        acknowledged=b"Z\0\0\0\x05I",
        refused=(b"ERROR", b"FATAL"),
    )


def _pg_start(synchronous: str) -> bytes:
    told = b"user\0postgres\0database\0postgres\0options\0-c synchronous_commit=%b\0\0"
    body = struct.pack("!i", 196608) + told % synchronous.encode()
    return struct.pack("!i", len(body) + 4) + body


def _pg(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _pg_query(text: str) -> bytes:
    return _pg(b"Q", text.encode() + b"\0")


@contextlib.contextmanager
def _process(
    command: list[str],
    core: int | None,
    *,
    stderr: int = subprocess.DEVNULL,
    user: str | None = None,
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process on one core, which is ended in the end."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})  # the child, and all it starts, inherit it
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=stderr, user=user, cwd=cwd
        )
    finally:
        os.sched_setaffinity(0, before)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _once(port: int, request: bytes, sign: bytes) -> None:
    """Ask one thing, and see that it was done."""
    with socket.create_connection(("127.0.0.1", port), START_S) as connected:
        connected.sendall(request)
        answer = b""
        while sign not in answer:
            data = connected.recv(65536)
            assert data, answer
            answer += data


def _wait_for(port: int, request: bytes = b"", sign: bytes = b"") -> None:
    """Until somebody listens, and answers as wished."""
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError, AssertionError):
            _once(port, request, sign)
            return
        assert time.monotonic() < deadline, f"no server on port {port}"
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
