"""The views chapter: one topic as stream, map and queue; a series; a rebuild of all views."""

from __future__ import annotations

from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.errors import Conflict, Invalid
from strandline.store import Store


def show(stage: Stage, scene: Scene) -> None:
    stage.title("One log, every view of it")
    count = max(100, scene.orders // 10)
    with Store(scene.store) as store:
        _one_topic(stage, store, count)
        _map(stage, store)
        _queue(stage, store, count)
        _series(stage, store, count)
        digests = _digests(store)
        store.checkpoint()
    with Store(scene.store) as store:
        restored = _digests(store)
        for kind, name in restored:
            store.rebuild(kind, name)
        stage.check(
            digests == restored == _digests(store),
            f"{len(restored)} views are the same after a restart, and after a rebuild from the log",
        )


def _one_topic(stage: Stage, store: Store, count: int) -> None:
    topic = store.topic("visits")
    topic.append_many(
        [f"page {number}".encode() for number in range(count)],
        keys=[f"user-{number % 10}" for number in range(count)],
    )
    newest = store.kv("visits").get("user-3")
    first = store.queue("visits").peek()[0].data
    stage.check(
        topic.head_seq == count and newest == f"page {count - 7}".encode() and first == b"page 0",
        f"{count:,} records of one topic: the newest of each key as a map, each one as a job",
    )


def _map(stage: Stage, store: Store) -> None:
    prices = store.kv("prices", history=3)
    version = prices.put("tea", b"3.00")
    prices.put("tea", b"3.20", version=version)
    try:
        prices.put("tea", b"2.80", version=version)
        rejected = False
    except Conflict:
        rejected = True
    stage.check(
        rejected and [found.value for found in prices.history("tea")] == [b"3.20", b"3.00"],
        "a put with a version that is not the newest is rejected; older versions can be read",
    )


def _queue(stage: Stage, store: Store, count: int) -> None:
    jobs = store.queue("mails", deliveries_max=2)
    jobs.put_many([f"mail {number}".encode() for number in range(count)])
    jobs.put(b"urgent", priority=1)
    first = jobs.claim(1, worker="a")[0]
    rest = jobs.claim(count, worker="a")
    jobs.ack_many([first, *rest[1:]])
    jobs.nack(rest[0])
    again = jobs.claim(10, worker="b")
    stage.check(
        first.data == b"urgent" and [job.seq for job in again] == [rest[0].seq],
        f"{count:,} jobs claimed and acked, the urgent one first; the nacked one is claimed again",
    )


def _series(stage: Stage, store: Store, count: int) -> None:
    places = store.series("places", jitter=5)
    places.append_many([(number % 4, 1000 + number, b"here") for number in range(count)])
    late = places.append(1, 900, b"late")
    places.run_retention(500)
    try:
        places.append(1, 400, b"too late")
        rejected = False
    except Invalid:
        rejected = True
    points = places.range(1, 0, 1010)
    stage.check(
        rejected and late.last_seq == count + 1 and points[0].payload == b"late",
        "a late point is found at its time; one below the floor is rejected, not lost silently",
    )


def _digests(store: Store) -> dict[tuple[str, str], str]:
    return {(kind, name): store.views.digest(kind, name) for kind, name in store.views.names()}
