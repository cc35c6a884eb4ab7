"""Asks a server as fast as it answers, from a process of its own that has the other core.

One client for all servers: prepared bytes go out, signs of good answers are counted, so that none
is held back by the client library of its language. What is counted is what was acknowledged. The
connections are made here; the asking is done by ``load.c`` where there is a C compiler, and by
``load_slowly.py``, which becomes the limit sooner, where there is none.

The plan goes to its stdin: writers, watchers, window, count of refusals, rounds (0: a flood),
seconds of warm-up and of work; then the sign of an acknowledgement, of a delivery, what a watcher
sends after one, the refusals; then a descriptor for each connection, writers with their request.
Bytes are told as ``SIZE bytes``.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

WARM_UP_S = 0.2
OWN_NAME = b"OWNINBOX"
"""Stands in a plan where a connection puts a name of its own, of the same length."""
_LATE_S = 60.0


class Plan(msgspec.Struct, kw_only=True):
    """What to ask of whom."""

    pid: int
    port: int
    records: int = 1
    """That one request has."""
    in_flight: int = 1
    """Requests that stand for one of a server that takes batches."""
    greeting: bytes = b""
    """Sent first on each connection; ``welcome`` must come before the first request."""
    welcome: bytes = b""
    request: bytes
    acknowledged: bytes
    """What stands once in every good answer."""
    refused: tuple[bytes, ...] = ()
    """What stands in bad ones."""


class Watchers(msgspec.Struct, kw_only=True):
    """Connections that are told."""

    sockets: list[socket.socket]
    sign: bytes
    """What every delivery has once, and nothing else."""
    again: bytes = b""
    """What to send after a delivery, to be told of the next, up to the newest id."""


class Result(msgspec.Struct, kw_only=True):
    """What came of it."""

    requests_per_s: float
    deliveries_per_s: float
    p50_ms: float
    p99_ms: float
    server_cpu_s: float = 0.0
    """What the server took of its core meanwhile, for each second."""


NOBODY = Watchers(sockets=[], sign=b"\0")


@functools.cache
def client() -> tuple[tuple[str, ...], str]:
    """The program that asks, and a note when it is the slow one."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is not None:
        folder = Path(tempfile.gettempdir()) / f"strandline-bench-load-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        source, program = Path(__file__).with_name("load.c"), folder / f"load-{os.getpid()}"
        atexit.register(program.unlink, missing_ok=True)
        command = [compiler, "-O2", "-o", str(program), str(source)]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return (str(program),), ""
    slow = (sys.executable, str(Path(__file__).with_name("load_slowly.py")))
    return slow, "asked by Python, for want of a C compiler"


def flood(
    plan: Plan,
    *,
    connections: int = 1,
    in_flight: int = 1,
    seconds: float,
    core: int | None,
    watchers: Watchers = NOBODY,
) -> Result:
    """Keep so many requests under way, for so long."""
    writers = [connect(plan) for _ in range(connections)]
    return _run(plan, writers, watchers, plan.in_flight * in_flight, 0, seconds, core)


def paced(plan: Plan, watchers: Watchers, *, rounds: int, core: int | None) -> Result:
    """One append after the other; the times are those until watchers were told."""
    return _run(plan, [connect(plan)], watchers, 1, rounds, 0.0, core)


def connect(plan: Plan) -> tuple[socket.socket, bytes]:
    """A connection that was greeted, and what to ask on it."""
    name = os.urandom(len(OWN_NAME) // 2).hex().encode()
    connected = socket.create_connection(("127.0.0.1", plan.port), _LATE_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if plan.greeting:
        connected.sendall(plan.greeting.replace(OWN_NAME, name))
        said = b""
        while plan.welcome not in said:
            data = connected.recv(65536)
            assert data, said
            said += data
    return connected, plan.request.replace(OWN_NAME, name)


def cpu_s(pid: int) -> float:
    """What a process and those that it started and that live have taken."""
    taken = time.clock_gettime((~pid << 3) | 2)  # the clock of its CPU, by Linux's rule
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            try:
                taken += cpu_s(int(child))
            except (OSError, FileNotFoundError):
                continue  # it has ended
    return taken


def _run(
    plan: Plan,
    writers: Sequence[tuple[socket.socket, bytes]],
    watchers: Watchers,
    window: int,
    rounds: int,
    seconds: float,
    core: int | None,
) -> Result:
    numbers = (len(writers), len(watchers.sockets), window, len(plan.refused), rounds)
    told = [f"{' '.join(map(str, numbers))} {WARM_UP_S} {seconds} ".encode()]
    signs = (plan.acknowledged, watchers.sign, watchers.again, *plan.refused)
    told += [_blob(each) for each in signs]
    told += [b"%d " % writer.fileno() + _blob(request) for writer, request in writers]
    told += [b"%d " % each.fileno() for each in watchers.sockets]
    descriptors = [writer.fileno() for writer, _ in writers]
    descriptors += [each.fileno() for each in watchers.sockets]
    asking = subprocess.Popen(
        client()[0],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
    )
    try:
        if core is not None:
            os.sched_setaffinity(asking.pid, {core})
        assert asking.stdin is not None
        assert asking.stdout is not None
        assert asking.stderr is not None
        asking.stdin.write(b"".join(told))
        asking.stdin.close()
        cpu, when = {}, {}
        for line in asking.stdout:
            word = line.strip().decode()
            if word in ("begin", "end"):
                cpu[word], when[word] = cpu_s(plan.pid), time.perf_counter()
            else:
                result = msgspec.json.decode(line, type=Result)
                share = (cpu["end"] - cpu["begin"]) / (when["end"] - when["begin"])
                return msgspec.structs.replace(result, server_cpu_s=share)
        raise RuntimeError(f"no good answers: {asking.stderr.read().decode(errors='replace')}")
    finally:
        asking.kill()
        asking.wait()
        for writer, _ in writers:
            writer.close()


def _blob(data: bytes) -> bytes:
    return b"%d %b " % (len(data), data)
