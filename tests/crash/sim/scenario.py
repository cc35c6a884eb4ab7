"""One scenario that uses every feature of a store, step by step, with what each step promises.

A step that returns has acknowledged something: its check must hold from then on, whatever fails
later, also after the process was killed and the store opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import strandline
from strandline.errors import StrandlineError
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.views import PATH, SETTINGS

Act = Callable[[Store], object]
BACKUP = "/backup"


class Step(NamedTuple):
    """What is done, and what holds once it was done."""

    name: str
    act: Act
    check: Callable[[Store], bool] = lambda store: True


def _data(store: Store, name: str) -> list[bytes]:
    return store.existing_topic(name).read(0, 10_000).data


def _append(number: int) -> Step:
    batch = [b"order %d.%d" % (number, place) + bytes(200) for place in range(20)]
    return Step(
        f"append {number}",
        lambda store: store.topic("orders", durability="fsync").append_many(
            batch, tags=["eu"] * 20
        ),
        lambda store: set(batch) <= set(_data(store, "orders")),
    )


def _table(store: Store) -> None:
    store.table("pay", durability="fsync")
    store.run('DEFINE pay FIELDS { "n": "i64" }')
    store.run('STORE pay FOR c PAYLOAD { "n": 7 }')


def _stored(store: Store) -> bool:
    return b'"n"' in b"".join(_data(store, "pay"))


def _metrics(store: Store) -> None:
    metrics = store.metrics("load", durability="fsync")
    metrics.write("cpu", tags={"host": "a"}, fields={"v": 1.0})


def _route(store: Store) -> None:
    if "copies" not in store.topics():
        store.routers.put("r", source="orders", dest="copies", create_dest=True, start="earliest")
    store.routers.run_once()


def _claim(store: Store) -> None:
    for job in store.queue("jobs").claim(1):
        job.ack()


def _join(store: Store) -> None:
    store.group("orders", "readers").join("member")


STEPS = (
    _append(1),
    Step(
        "kv",
        lambda store: store.kv("map", durability="fsync").put("key", b"value" * 50),
        lambda store: store.kv("map").get("key") == b"value" * 50,
    ),
    Step(
        "queue",
        lambda store: store.queue("jobs", durability="fsync").put(b"job"),
        lambda store: store.existing_topic("jobs").head_seq > 0,
    ),
    Step("claim", _claim),
    Step("group", _join),
    Step(
        "series",
        lambda store: store.series("points", durability="fsync").append("s", 5, b"point"),
        lambda store: b"point" in b"".join(_data(store, "points")),
    ),
    Step("metrics", _metrics, lambda store: store.existing_topic("load").head_seq > 0),
    Step("table", _table, _stored),
    Step("remember", lambda store: store.run("REMEMBER QUERY pay RETURN [n] AS big")),
    Step("route", _route),
    Step("checkpoint", lambda store: store.checkpoint()),
    _append(2),
    Step("delete", lambda store: store.topic("orders").delete(match="us")),
    Step("second checkpoint", lambda store: store.checkpoint()),
    Step("relocate", lambda store: store.relocate()),
    Step("read all", lambda store: _data(store, "orders")),
    Step("backup", lambda store: store.backup(BACKUP)),
    Step("rebuild", lambda store: store.rebuild("kv", "map")),
    _append(3),
    Step("third checkpoint", lambda store: store.checkpoint()),
    Step("sweep", lambda store: store.sweep()),
)


class World:
    """A store on a simulated disk with its lake in a simulated object store. Single-threaded."""

    def __init__(self) -> None:
        self.disk = SimDisk(seed=3)
        self.clock = SimClock()
        self.objects = SimObjects(clock=self.clock)
        self.store = self.opened()
        self.promises: list[Step] = []

    def opened(self) -> Store:
        return strandline.open(
            PATH,
            disk=self.disk,
            clock=self.clock,
            objects=self.objects,
            settings=SETTINGS,
            start_jobs=False,
        )

    def live(self) -> list[BaseException]:
        """Do every step that can be done; what was raised. A red store is the end."""
        raised: list[BaseException] = []
        for step in STEPS:
            self.clock.advance(0.01)
            try:
                step.act(self.store)
            except Exception as error:  # noqa: BLE001 - judged by the test
                raised.append(error)
            else:
                self.promises.append(step)
            if self.store.health().status == "red":
                break
        return raised

    def work_on(self) -> None:
        """What jobs do, on a system that works again; nothing may be raised."""
        store = self.store
        store.sync()
        store.checkpoint()
        store.relocate()
        store.routers.run_once()
        store.ingest_pending()
        store.views.registry.run_once()
        store.checkpoint()

    def broken(self) -> list[str]:
        """Steps whose promise does not hold."""
        broken = []
        for step in self.promises:
            try:
                held = step.check(self.store)
            except StrandlineError as error:
                broken.append(f"{step.name}: {error}")
                continue
            if not held:
                broken.append(step.name)
        return broken
