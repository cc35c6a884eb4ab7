"""Servers to be measured side by side: ours, Redis, NATS and PostgreSQL, each with its own log.

All keep 200 bytes of JSON. What an acknowledgement means is as alike as they allow:

             Strandline   Redis       NATS JetStream   PostgreSQL, synchronous_commit
    cached   disk         everysec    default          off
    synced   fsync        always      sync always      on

All of them are held to one core. That is hard on NATS and PostgreSQL, which would use more. Redis
and NATS have no request with a batch in it: what stands beside a batch is as many requests in
flight. Redis also knows transactions (``Redis MULTI``).
"""

from __future__ import annotations

import base64
import contextlib
import os
import pwd
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

import msgspec
import pyarrow as pa

from bench.load import OWN_NAME, Plan

Safety = Literal["cached", "synced"]
UPGRADE = (
    b"GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: %b\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
RECORD = b'{"id":"%b","amount":12.5,"note":"%b"}' % (b"a" * 32, b"n" * 131)
START_S = 30.0


class Server(NamedTuple):
    """A server that runs, and how to ask it for an append."""

    name: str
    plan: Callable[[Safety, int], Plan | None]
    """How to append so many records at a time; None when it cannot."""


@contextlib.contextmanager
def strandline_server(folder: Path, core: int | None) -> Iterator[list[Server]]:
    """Ours, as a process of its own, asked by HTTP and by WebSocket."""
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
        yield [
            Server("Strandline", lambda safety, count: _ours(process.pid, port, safety, count)),
            Server("WebSocket", lambda safety, count: _socket(process.pid, port, safety, count)),
        ]


def _ours(pid: int, port: int, safety: Safety, count: int) -> Plan:
    return Plan(
        pid=pid,
        port=port,
        records=count,
        request=_append(safety, count),
        acknowledged=b'"server_total_ms":',
        refused=(b'"error":',),
    )


def _socket(pid: int, port: int, safety: Safety, count: int) -> Plan | None:
    if count >= 1000:
        return None  # no tables of Arrow by WebSocket
    records = b",".join([b'{"data":%b}' % RECORD] * count)
    message = b'{"op":"publish","topic":"%b","request_id":1,"records":[%b]}'
    return Plan(
        pid=pid,
        port=port,
        records=count,
        greeting=UPGRADE % base64.b64encode(os.urandom(16)),
        welcome=b"\r\n\r\n",
        request=client_frame(message % (safety.encode(), records)),
        acknowledged=b'"op":"ack"',
        refused=(b'"op":"error"',),
    )


def client_frame(message: bytes) -> bytes:
    """A text frame of a client; a mask of zeros leaves the message as it is."""
    size = len(message)
    if size < 126:
        head = struct.pack("!BB", 0x81, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
    return head + bytes(4) + message


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
def redis_server(folder: Path, core: int | None) -> Iterator[list[Server]]:
    """Two of them: how it syncs is a matter of the whole server."""
    if shutil.which("redis-server") is None:
        yield []
        return
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        pids: dict[str, int] = {}
        for safety, policy in (("cached", "everysec"), ("synced", "always")):
            place = folder / f"redis-{policy}"
            place.mkdir()
            ports[safety] = port = _free_port()
            flags = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(place), "--save", ""]
            flags += ["--appendonly", "yes", "--appendfsync", policy]
            pids[safety] = stack.enter_context(_process(["redis-server", *flags], core)).pid
            _wait_for(port)
        xadd = resp(b"XADD", b"log", b"*", b"d", RECORD)

        def pipelined(safety: Safety, count: int) -> Plan:
            return Plan(
                pid=pids[safety],
                port=ports[safety],
                in_flight=count,
                # Begin with an empty stream, or a long run would fill the memory.
                greeting=resp(b"UNLINK", b"log"),
                welcome=b"\r\n",
                request=xadd,
                acknowledged=b"$",
                refused=(b"-ERR", b"-OOM"),
            )

        def transaction(safety: Safety, count: int) -> Plan | None:
            if count == 1:
                return None
            # One answer for all: the last one of a transaction has every id.
            return msgspec.structs.replace(
                pipelined(safety, 1),
                records=count,
                request=resp(b"MULTI") + xadd * count + resp(b"EXEC"),
                acknowledged=b"*%d\r\n" % count,
                refused=(b"-ERR", b"-EXEC"),
            )

        yield [Server("Redis", pipelined), Server("Redis MULTI", transaction)]


def resp(*words: bytes) -> bytes:
    """A command of Redis."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


@contextlib.contextmanager
def nats_server(folder: Path, core: int | None) -> Iterator[list[Server]]:
    """JetStream with a stream on disk; an acknowledgement comes as a message."""
    program = shutil.which(
        "nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    if program is None:
        yield []
        return
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        pids: dict[str, int] = {}
        for safety, sync in (("cached", "2m"), ("synced", "always")):
            ports[safety] = port = _free_port()
            place = folder / f"nats-{safety}"
            config = folder / f"nats-{safety}.conf"
            config.write_text(
                f'listen: "127.0.0.1:{port}"\n'
                f'jetstream {{ store_dir: "{place}", sync_interval: {sync} }}\n'
            )
            pids[safety] = stack.enter_context(_process([program, "-c", str(config)], core)).pid
            _wait_for(port)
            stream = b'{"name":"log","subjects":["log"],"storage":"file","num_replicas":1}'
            ask = _nats_greeting() + _publish(b"$JS.API.STREAM.CREATE.log", stream)
            _once(port, ask, b'"created"')

        def plan(safety: Safety, count: int) -> Plan:
            return Plan(
                pid=pids[safety],
                port=ports[safety],
                in_flight=count,
                greeting=_nats_greeting() + b"PING\r\n",
                welcome=b"PONG\r\n",
                request=_publish(b"log", RECORD),
                acknowledged=b'"seq":',
                refused=(b'"error"', b"-ERR"),
            )

        yield [Server("NATS", plan)]


def _nats_greeting() -> bytes:
    return b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _INBOX.%b 1\r\n' % OWN_NAME


def _publish(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b _INBOX.%b %d\r\n%b\r\n" % (subject, OWN_NAME, len(payload), payload)


@contextlib.contextmanager
def postgres_server(folder: Path, core: int | None) -> Iterator[list[Server]]:
    """A table with a serial key, and a prepared insert; it will not run as root."""
    # Debian has its programs where no PATH leads.
    where = [*map(str, Path("/usr/lib/postgresql").glob("*/bin")), os.environ["PATH"]]
    postgres, initdb = (shutil.which(name, path=":".join(where)) for name in ("postgres", "initdb"))
    user = "postgres" if os.geteuid() == 0 else None
    if postgres is None or initdb is None or (user is not None and not _is_user(user)):
        yield []
        return
    place = Path(tempfile.mkdtemp(prefix="strandline-bench-", dir=folder.parent))
    try:
        if user is not None:
            shutil.chown(place, user)
        if subprocess.run(["test", "-w", str(place)], user=user, check=False).returncode != 0:
            print(f"PostgreSQL is left out: {user} may not write to {folder}; change --folder")
            yield []
            return
        data, port = place / "data", _free_port()
        subprocess.run(
            [initdb, "-D", str(data), "-A", "trust", "-U", "postgres"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=user,
            cwd=place,
        )
        flags = ["-D", str(data), "-p", str(port), "-k", str(place), "-c", "max_connections=200"]
        with _process([postgres, *flags], core, user=user, cwd=place) as process:
            _wait_for(port, _pg_start("on"), b"Z\0\0\0\x05I")
            table = "create table log (seq bigserial primary key, data text not null)"
            _once(port, _pg_start("on") + _pg_query(table), b"CREATE TABLE")
            pid = process.pid
            yield [Server("PostgreSQL", lambda safety, count: _pg_plan(pid, port, safety, count))]
            process.send_signal(signal.SIGINT)  # fast: do not wait for who is connected
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _pg_plan(pid: int, port: int, safety: Safety, count: int) -> Plan:
    rows = ",".join(f"(${number})" for number in range(1, count + 1))
    parse = _pg(b"P", b"s\0insert into log (data) values %b\0\0\0" % rows.encode())
    values = (struct.pack("!i", len(RECORD)) + RECORD) * count
    bind = _pg(b"B", b"\0s\0" + struct.pack("!hh", 0, count) + values + struct.pack("!h", 0))
    execute = _pg(b"E", b"\0" + struct.pack("!i", 0))
    return Plan(
        pid=pid,
        port=port,
        records=count,
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
