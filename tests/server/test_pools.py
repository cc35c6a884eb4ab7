"""Promise: a slow lake does not delay work on records that are on this machine.

The object store is held by an event until every thread for the lake waits in it and more requests
are queued. Then every route that reads a topic or a view is used on topics that are local, and each
must answer. Routes come from the table of routes: a new one must be added to ``HOT``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from urllib.parse import parse_qsl

import msgspec
import pytest

from strandline.config.settings import (
    LakeSettings,
    ObjectSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
)
from strandline.errors import Unavailable
from strandline.platform.objectstore.retrying import RetryingObjects
from strandline.platform.remote_wait import remote_wait
from strandline.server.route_table import ROUTES
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import LAKE, QUERY, ThreadPools
from strandline.server.worker_pool import PoolTask, RemoteSubjects, WorkerPool
from strandline.store import Store
from strandline.testing.sim_objects import READS, SimObjects
from strandline.views.kv.key_state import INLINE_BYTES_MAX
from tests.server.asking import Asking
from tests.server.running import DEADLINE_S, Running, running

Begin = Callable[[str, object], Future[None]]
COLD = "cold"
COLD_KV = "coldkv"
LAKE_THREADS = 16
RECORDS = 40
_BIG = b"x" * (INLINE_BYTES_MAX + 1)

_POINTS = {"start": 0, "end": 100}
_KEY = {"key": "k1"}
_MEASURED = {"measurement": "cpu"}
HOT: dict[str, dict[str, object] | None] = {
    "GET /v0/topics/hot": None,
    "POST /v0/topics/hot/diff": {"from_seq": RECORDS - 1},
    "POST /v0/topics/sealed/diff": {"from_seq": 0},
    "POST /v0/topics/hot/delete": {"match": "t3"},
    "POST /v0/topics/sealed/delete": {"match": "t3"},
    "POST /v0/topics/cold/diff": {"from_seq": 2 * RECORDS - 1},
    "POST /v0/topics/cold/pick": {"seqs": [2 * RECORDS]},
    "POST /v0/topics/cold/delete": {"before_seq": 2},
    "GET /v0/topics/hot/seek?ts=1": None,
    "POST /v0/topics/hot/pick": {"seqs": [1, 2]},
    "GET /v0/topics/hot/producers": None,
    "GET /v0/topics/hot/producers/p": None,
    "POST /v0/kv/map/get": _KEY,
    "POST /v0/kv/map/mget": {"keys": [_KEY]},
    "POST /v0/kv/map/history": _KEY,
    "POST /v0/kv/map/scan": {},
    "POST /v0/kv/map/json_get": {**_KEY, "path": "$"},
    "GET /v0/kv/map": None,
    "GET /v0/kv/map/value?key=k1": None,
    "POST /v0/kv/map/wait": {**_KEY, "after": 0, "wait_ms": 1},
    "POST /v0/kv/map/changes": {"after": 0, "wait_ms": 0},
    "POST /v0/kv/map/delete": {"key": "k2"},
    "POST /v0/kv/map/compact": None,
    "POST /v0/series/rain/range": {"sources": [{"source": "a"}], **_POINTS},
    "POST /v0/series/rain/window": {"sources": [{"source": "a"}], "start": 0, "window": 10},
    "POST /v0/series/rain/visit": _POINTS,
    "POST /v0/series/rain/latest": {},
    "POST /v0/series/rain/earliest": {"sources": [{"source": "a"}], "start": 0},
    "GET /v0/series/rain": None,
    "POST /v0/measurements/load/query": {"query": "cpu | sum"},
    "POST /v0/measurements/load/read": _MEASURED,
    "POST /v0/measurements/load/aggregate": {**_MEASURED, "aggregate": "sum"},
    "GET /v0/measurements/load/names": None,
    "GET /v0/measurements/load/fields?measurement=cpu": None,
    "POST /v0/measurements/load/series": {"measurement": "cpu"},
    "GET /v0/measurements/load/cardinality": None,
    "GET /v0/measurements/load/rules": None,
    "GET /v0/measurements/load": None,
    "POST /v0/topics/jobs/claim": {"node": "n"},
    "GET /v0/queues/jobs/peek": None,
    "GET /v0/queues/jobs": None,
    "GET /v0/queues/jobs/dead": None,
    "GET /v0/groups/hot": None,
    "GET /v0/groups/hot/readers": None,
    "GET /v0/groups/hot/readers/lag": None,
    "GET /v0/groups/hot/readers/pending": None,
    "GET /v0/groups/hot/readers/gaps": None,
    "GET /v0/groups/hot/readers/statistics": None,
    "GET /v0/tables/events/schema": None,
    "GET /v0/tables/events": None,
    "POST /v0/tables/events/check": {"event": {"n": 1}},
    "POST /v0/tables/events/rows": {},
    "POST /v0/tables/events/delete": {"all": True},
    "GET /v0/views/map/kv": None,
    "GET /v0/views/map/kv/digest": None,
}
"""Requests that need nothing of the lake, and their bodies."""
WAITS = {
    "GET /v0/kv/{topic}/watch": "a stream that ends with its client",
}


class SlowLake:
    """An object store whose reads wait for an event."""

    def __init__(self) -> None:
        self.sim = SimObjects()
        self.sim.on_call = self._on_call
        self.objects = RetryingObjects(self.sim, ObjectSettings())
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Semaphore(0)

    def hold(self, store: Store) -> None:
        """Let every read wait from now on; what was read before is not kept."""
        with store._lake._lock:
            store._lake._zones.clear()
            store._lake._size = 0
        self.waiting = threading.Semaphore(0)
        self.open.clear()

    def _on_call(self, operation: str, _: str) -> None:
        if operation not in READS or self.open.is_set():
            return
        self.waiting.release()
        assert self.open.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def lake() -> SlowLake:
    return SlowLake()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, lake: SlowLake) -> Iterator[Running]:
    store = Settings(
        segment=SegmentSettings(seal_bytes=1, block_records=10, own_bytes_min=1),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
        lake=LakeSettings(
            hot_segments=1,
            zone_rows=10,
            file_bytes=1,
            cache_bytes=1,
            read_threads=1,
            interval_s=3600,
        ),
    )
    settings = ServerSettings(store=store)
    with running(
        tmp_path_factory.mktemp("pools"), settings=settings, objects=lake.objects
    ) as started:
        fill(started.store)
        yield started


def fill(store: Store) -> None:
    """A topic and a map with a cold beginning, then a topic in a local segment, then the rest."""
    for turn in range(2):
        store.topic(COLD).append_many([b"1"] * RECORDS, tags=[f"t{n}" for n in range(RECORDS)])
        for number in range(4):
            store.kv(COLD_KV).put(f"k{number}-{turn}", _BIG)
        store.checkpoint()
    store.topic("sealed").append_many([b"1"] * 5, tags=[f"t{n}" for n in range(5)])
    store.checkpoint()
    store.relocate()
    store.topic("hot").append_many([b"1"] * RECORDS, tags=[f"t{n}" for n in range(RECORDS)])
    store.kv("map").put_many({"k1": b"1", "k2": b"2"})
    store.series("rain").append("a", 1, b"1")
    store.metrics("load").write("cpu", {"host": "a"}, {"v": 1.0}, 1)
    store.queue("jobs").put(b"1")
    store.group("hot", "readers").join("m")
    store.table("events").define({"n": "int"})
    assert not store.topic(COLD).is_local()
    assert store.topic("hot").is_local()
    assert store.topic("sealed").is_local()
    assert not store.topic("sealed").is_in_tail(0)


def send(client: Asking, request: str, body: object = None) -> None:
    method, url = request.split(" ", 1)
    path, _, query = url.partition("?")
    content = b"" if body is None else msgspec.json.encode(body)
    headers = {} if body is None else {"content-type": "application/json"}
    client.raw(method, path, content, headers, **dict(parse_qsl(query)))


@pytest.fixture
def clients(server: Running, lake: SlowLake) -> Iterator[Callable[[str, object], Future[None]]]:
    """Sends requests that do not answer yet."""
    with ThreadPoolExecutor(64) as pool, Asking(server) as client:
        try:
            yield lambda request, body: pool.submit(send, client, request, body)
        finally:
            lake.open.set()


def hold_all(server: Running, lake: SlowLake, begin: Begin) -> list[Future[None]]:
    """Block every thread for the lake, and queue as many requests again."""
    lake.hold(server.store)
    held = [begin(f"POST /v0/topics/{COLD}/diff", {"from_seq": 0}) for _ in range(2 * LAKE_THREADS)]
    for _ in range(LAKE_THREADS):
        assert lake.waiting.acquire(timeout=DEADLINE_S)
    return held


def test_local_work_is_done_while_every_thread_of_the_lake_waits(server, lake, clients):
    held = hold_all(server, lake, clients)

    with Asking(server) as client:
        for request, body in HOT.items():
            send(client, request, body)

    assert not any(each.done() for each in held)
    lake.open.set()
    assert not wait(held, DEADLINE_S).not_done


def test_every_route_that_reads_a_topic_is_swept():
    swept = {_shape(request) for request in HOT}
    reading = {
        f"{route.method} {route.path}"
        for route in ROUTES
        if "{topic}" in route.path and {need.action for need in route.needs} <= {"read"}
    }

    assert {each for each in reading if _filled(each) not in swept} == set(WAITS)


COLD_READS: dict[str, dict[str, object]] = {
    "POST /v0/topics/cold/diff": {"from_seq": 0},
    "POST /v0/topics/cold/pick": {"seqs": [2 * RECORDS, 20]},
    "POST /v0/topics/cold/delete": {"match": "t3"},
    "POST /v0/sql": {"sql": "SELECT count(*) FROM cold"},
}


@pytest.mark.parametrize("request_line", COLD_READS, ids=["diff", "pick", "delete", "sql"])
def test_what_is_known_to_be_cold_is_read_by_threads_of_the_lake(
    server, lake, clients, request_line
):
    lake.hold(server.store)
    answer = clients(request_line, COLD_READS[request_line])
    assert lake.waiting.acquire(timeout=DEADLINE_S)

    assert _threads(server) == {QUERY if request_line.endswith("sql") else LAKE}
    lake.open.set()
    answer.result(DEADLINE_S)


FOUND_COLD = ("get", "mget", "scan", "history")


@pytest.mark.parametrize("verb", FOUND_COLD)
def test_a_view_that_turns_out_to_be_cold_does_not_hold_the_local_threads(
    server, lake, clients, verb
):
    """More cold reads than local threads; each key is of another record, so each asks the lake."""
    body = {"mget": {"keys": [{"key": "k1-0"}]}, "scan": {}}.get(verb, {"key": "k1-0"})
    lake.hold(server.store)
    held = [clients(f"POST /v0/kv/{COLD_KV}/{verb}", body) for _ in range(2 * LAKE_THREADS)]
    assert lake.waiting.acquire(timeout=DEADLINE_S)

    with Asking(server) as client:
        for request, sent in HOT.items():
            send(client, request, sent)

    assert not any(each.done() for each in held)
    lake.open.set()
    for each in held:
        each.result(DEADLINE_S)


def _threads(server: Running) -> set[str]:
    """Names of the pools whose threads run a task now."""
    bridge: ThreadPools = server.parts.bridge
    pools = (bridge._quick, bridge._slow, bridge._lake, bridge._queries)
    return {pool.name for pool in pools if len(pool._threads) > pool._idle}


def _shape(request: str) -> str:
    return request.partition("?")[0]


def _filled(route: str) -> str:
    """A route with the names that ``fill`` has made."""
    name = {
        "topics": "jobs" if route.endswith("claim") else "hot",
        "kv": "map",
        "series": "rain",
        "measurements": "load",
        "queues": "jobs",
        "groups": "hot",
        "tables": "events",
        "views": "map",
    }[route.split("/")[2]]
    filled = route.replace("{topic}", name).replace("{kind}", "kv").replace("{group}", "readers")
    return filled.replace("{producer}", "p")


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError(f"can't start new thread {thread.name}")


def make_pool(threads: int, spares: int) -> WorkerPool:
    return WorkerPool("tested", threads, spares=spares, subjects=RemoteSubjects())


def test_a_thread_that_waits_for_the_object_store_is_replaced():
    pool, gate = make_pool(threads=1, spares=1), threading.Event()

    def cold() -> None:
        with remote_wait():
            assert gate.wait(DEADLINE_S)

    first, second = PoolTask(cold), PoolTask(lambda: "done")
    pool.submit(first)
    pool.submit(second)

    assert second.future.result(DEADLINE_S) == "done"
    assert not first.future.done()
    gate.set()
    first.future.result(DEADLINE_S)
    pool.close()


def test_a_task_that_gets_no_thread_is_refused_and_a_later_one_is_done(monkeypatch):
    pool = make_pool(threads=1, spares=0)
    with monkeypatch.context() as refusing:
        refusing.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Unavailable, match="ulimit -u"):
            pool.submit(PoolTask(lambda: "never"))

    task = PoolTask(lambda: "done")
    pool.submit(task)

    assert task.future.result(DEADLINE_S) == "done"
    pool.close()


def test_a_pool_has_no_more_threads_than_its_own_and_its_spares():
    pool, gate = make_pool(threads=2, spares=3), threading.Event()
    began = threading.Semaphore(0)

    def cold() -> None:
        with remote_wait():
            began.release()
            assert gate.wait(DEADLINE_S)

    tasks = [PoolTask(cold) for _ in range(20)]
    for task in tasks:
        pool.submit(task)
    for _ in range(5):
        assert began.acquire(timeout=DEADLINE_S)

    assert len(pool._threads) == 5
    gate.set()
    for task in tasks:
        task.future.result(DEADLINE_S)
    pool.close()


@pytest.mark.parametrize("cold_share", [0, 2, 3, 7])
def test_never_more_tasks_work_at_a_time_than_there_are_threads(cold_share: int):
    """Those that come back from a wait are beside them: each has begun in its own turn."""
    pool, lock = make_pool(threads=3, spares=4), threading.Lock()
    working, most, returned = 0, 0, 0

    def work(number: int) -> int:
        nonlocal working, most, returned
        if cold_share and number % cold_share == 0:
            with remote_wait():
                pass
            return number
        with lock:
            working += 1
            most = max(most, working)
        with lock:
            working -= 1
        return number

    tasks = [PoolTask(lambda number=number: work(number)) for number in range(300)]
    for task in tasks:
        pool.submit(task)

    assert [task.future.result(DEADLINE_S) for task in tasks] == list(range(300))
    pool.close()
    assert most <= 3 + 4
    assert not pool._threads
    assert pool._waiting == pool._idle == 0


def test_queued_tasks_are_cancelled_when_a_pool_closes():
    pool, gate, began = make_pool(threads=1, spares=0), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert gate.wait(DEADLINE_S)

    running_task, queued = PoolTask(work), PoolTask(lambda: None)
    pool.submit(running_task)
    pool.submit(queued)
    assert began.wait(DEADLINE_S)
    closing = threading.Thread(target=pool.close)
    closing.start()
    while not pool._closed:
        pass
    gate.set()
    closing.join(DEADLINE_S)

    assert queued.future.cancelled()
    assert running_task.future.done()
    with pytest.raises(RuntimeError):
        pool.submit(PoolTask(lambda: None))


def test_operations_on_a_topic_that_waits_for_the_lake_start_in_the_pool_of_the_lake():
    subjects = RemoteSubjects()
    moved: list[PoolTask] = []

    def redirect(task: PoolTask) -> bool:
        if task.subject in subjects:
            moved.append(task)
            return True
        return False

    pool = WorkerPool("tested", 2, spares=1, subjects=subjects, redirect=redirect)
    gate, began = threading.Event(), threading.Event()

    def cold() -> None:
        with remote_wait():
            began.set()
            assert gate.wait(DEADLINE_S)

    first = PoolTask(cold, "a")
    pool.submit(first)
    assert began.wait(DEADLINE_S)
    same, other = PoolTask(lambda: None, "a"), PoolTask(lambda: None, "b")
    pool.submit(same)
    pool.submit(other)
    other.future.result(DEADLINE_S)

    assert moved == [same]
    gate.set()
    first.future.result(DEADLINE_S)
    again = PoolTask(lambda: None, "a")
    pool.submit(again)
    again.future.result(DEADLINE_S)
    pool.close()
