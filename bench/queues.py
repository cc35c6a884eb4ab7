"""Queues: put, claim and ack beside SQLite and Redis, and what jobs cost that wait."""

from __future__ import annotations

import gc
import importlib.util
import shutil
import sqlite3
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import strandline
from bench.measure import Figure, scaled
from strandline.config.memory_budget import MemoryShare
from strandline.config.view_config import QueueConfig
from strandline.platform.clock import SystemClock
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_objects import SimObjects
from strandline.views.queue.codec import StoredJobOptions, encode_job
from strandline.views.queue.fold import QueueFold
from strandline.views.queue.queue import Queue
from strandline.views.view import FoldColumns, FoldContext

PAYLOAD = b"x" * 100
BATCH = 100
JOBS = 30_000
SINGLES = 3_000
ROUNDS = 5
WAITING = (10_000, 100_000, 1_000_000, 10_000_000)
MESSAGES = 5_000_000
GOAL_JOBS_S = 100_000
GOAL_BYTES = 64
_SPACE = 16


class Peer(Protocol):
    """A queue: jobs in, out under a lease or a list of their own, and gone."""

    name: str

    def put(self, payloads: list[bytes]) -> None: ...

    def work(self, count: int) -> int:
        """Claim and ack so many; how many it were."""
        ...


def run(folder: Path, *, scale: float) -> list[Figure]:
    figures = _beside_others(folder, scale)
    for waiting in WAITING:
        if waiting <= max(WAITING[0], WAITING[-1] * scale):
            figures.append(_with_many_waiting(folder, waiting))
    figures += _memory(scaled(MESSAGES, scale))
    return figures


def _beside_others(folder: Path, scale: float) -> list[Figure]:
    """The same work by all of them in turn, so that all meet the same machine."""
    figures = []
    with _peers(folder) as peers:
        ours = peers[0]
        for size, jobs in ((BATCH, scaled(JOBS, scale)), (1, scaled(SINGLES, scale))):
            count = max(size, jobs // size * size)
            rates: dict[str, float] = {peer.name: 0.0 for peer in peers}
            for _ in range(ROUNDS):
                for peer in peers:
                    rates[peer.name] = max(rates[peer.name], _rate(peer, count, size))
            own = rates[ours.name]
            how = f"batches of {size}" if size > 1 else "one by one"
            figures += [
                Figure(
                    name=f"queue: put + claim + ack, {how}",
                    value=own,
                    unit="jobs/s",
                    peer=name,
                    ratio=own / rate,
                    goal=f">= {GOAL_JOBS_S:,}" if size > 1 else "",
                    met=own >= GOAL_JOBS_S if size > 1 else None,
                )
                for name, rate in rates.items()
                if name != ours.name
            ]
    if not _has_redis():
        figures[-1].note = "Redis is not installed: redis-server, and redis for Python"
    return figures


def _rate(peer: Peer, count: int, size: int) -> float:
    payloads = [PAYLOAD] * size
    start = time.perf_counter()
    for _ in range(count // size):
        peer.put(payloads)
        assert peer.work(size) == size
    return count / (time.perf_counter() - start)


class Ours:
    """A queue of a store on disk, class disk."""

    name = "Strandline"

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def put(self, payloads: list[bytes]) -> None:
        self._queue.put_many(payloads)

    def work(self, count: int) -> int:
        jobs = self._queue.claim(count, worker="w")
        return self._queue.ack_many(jobs).done


class Sqlite:
    """A table: a claim marks rows and gives them a deadline, an ack deletes them."""

    name = "SQLite"

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("pragma journal_mode=wal")
        self.connection.execute("pragma synchronous=normal")
        self.connection.execute(
            "create table jobs (id integer primary key, until real not null default 0, data blob)"
        )
        self.connection.execute("create index ready on jobs (until, id)")

    def put(self, payloads: list[bytes]) -> None:
        execute = self.connection.execute
        execute("begin immediate")
        self.connection.executemany(
            "insert into jobs (data) values (?)", [(payload,) for payload in payloads]
        )
        execute("commit")

    def work(self, count: int) -> int:
        execute, now = self.connection.execute, time.time()
        claimed = execute(
            "update jobs set until = ? where id in "
            "(select id from jobs where until < ? order by until, id limit ?) returning id, data",
            (now + 30, now, count),
        ).fetchall()
        execute("begin immediate")
        self.connection.executemany("delete from jobs where id = ?", [(row[0],) for row in claimed])
        execute("commit")
        return len(claimed)


class Redis:
    """Lists: a claim moves jobs to the worker's list, an ack removes them there. No leases."""

    name = "Redis lists"

    def __init__(self, socket: Path) -> None:
        import redis  # noqa: PLC0415 - an optional peer

        self._client = redis.Redis(unix_socket_path=str(socket))
        self._client.ping()

    def put(self, payloads: list[bytes]) -> None:
        self._client.rpush("jobs", *payloads)

    def work(self, count: int) -> int:
        pipeline = self._client.pipeline(transaction=False)
        for _ in range(count):
            pipeline.lmove("jobs", "held", "LEFT", "RIGHT")
        claimed = pipeline.execute()
        for payload in claimed:
            pipeline.lrem("held", 1, payload)
        return sum(pipeline.execute())


@contextmanager
def _peers(folder: Path) -> Iterator[list[Peer]]:
    with strandline.open(str(folder / "queues")) as store:
        peers: list[Peer] = [Ours(store.queue("jobs")), Sqlite(folder / "queue.db")]
        if not _has_redis():
            yield peers
            return
        with _redis_server(folder / "redis") as socket:
            yield [*peers, Redis(socket)]


def _has_redis() -> bool:
    return bool(shutil.which("redis-server") and importlib.util.find_spec("redis"))


@contextmanager
def _redis_server(folder: Path) -> Iterator[Path]:
    """A server of our own, which writes its log as we do: to the page cache, synced in a second."""
    folder.mkdir()
    socket = folder / "socket"
    options = ["--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", "everysec"]
    server = subprocess.Popen(
        ["redis-server", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 10
        while not socket.exists():
            assert time.monotonic() < deadline, "redis-server does not start"
            time.sleep(0.01)
        yield socket
    finally:
        server.terminate()
        server.wait(10)


def _with_many_waiting(folder: Path, waiting: int) -> Figure:
    """What a job costs while others wait: no more than when there are few."""
    place = folder / f"waiting-{waiting}"
    with strandline.open(str(place)) as store:
        queue = store.queue("jobs")
        for _ in range(waiting // 10_000):
            queue.put_many([b"waiting!"] * 10_000)
        peer = Ours(queue)
        rate = max(_rate(peer, 5_000, BATCH) for _ in range(3))
    shutil.rmtree(place)
    return Figure(
        name=f"queue: batches of {BATCH}, {waiting:,} waiting", value=1e6 / rate, unit="us/job"
    )


def _memory(count: int) -> list[Figure]:
    """Memory of waiting jobs, and how long it takes to fold and to load them."""
    with Reservoir(SimObjects()) as reservoir, reservoir.session() as session:
        fold = _fold(MemoryShare(1 << 40))
        fold.load(session, _SPACE, b"")
        start = time.perf_counter()
        _fill(fold, count, plain=True)
        filled = time.perf_counter() - start
        state = fold.save(session)
        session.commit()
        reservoir.checkpoint()
        again = _fold(MemoryShare(1 << 40))
        start = time.perf_counter()
        again.load(session, _SPACE, state)
        loaded = time.perf_counter() - start
        assert len(again.jobs.table.select(10)) == 10
    return [
        _taken(count, plain=True),
        _taken(count // 5, plain=False),
        Figure(name=f"queue: fold {count:,} records of jobs", value=count / filled, unit="rec/s"),
        Figure(name=f"queue: load {count:,} waiting jobs", value=loaded, unit="s"),
    ]


def _taken(count: int, *, plain: bool) -> Figure:
    """Bytes that a waiting job takes, every allocation counted; and what the budget believes."""
    share = MemoryShare(1 << 40)
    gc.collect()
    tracemalloc.start()
    fold = _fold(share)
    _fill(fold, count, plain=plain)
    gc.collect()
    taken, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Figure(
        name=f"queue: memory of {count:,} " + ("jobs" if plain else "with key, delay and ttl"),
        value=taken / count,
        unit="B/job",
        goal=f"<= {GOAL_BYTES}",
        met=taken / count <= GOAL_BYTES,
        note=f"at its peak {peak / count:.1f}, counted in the budget {share.used / count:.1f}",
    )


def _fold(share: MemoryShare) -> QueueFold:
    return QueueFold(QueueConfig(), FoldContext(SystemClock(), share, lambda _, __: [], None, 0))


def _fill(fold: QueueFold, count: int, *, plain: bool) -> None:
    step = 10_000
    said = encode_job(
        StoredJobOptions(priority=3, not_before=1 << 60, expires=1 << 61, unique=True)
    )
    nothing = (None,) * step
    for first in range(1, count + 1, step):
        seqs = range(first, first + step)
        keys = nothing if plain else [b"%d" % seq for seq in seqs]
        metas = nothing if plain else (said,) * step
        fold.apply(0, FoldColumns(seqs, nothing, keys, nothing, metas, nothing))
