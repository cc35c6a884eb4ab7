"""A store whose views have seen a little of everything, and what becomes of it later."""

from __future__ import annotations

import random
from collections.abc import Callable

import strandline
from strandline.config.settings import LakeSettings, SegmentSettings, Settings, ViewSettings
from strandline.store import Store

KINDS = ("kv", "queue", "series", "metrics")


def open_lively(path: str, **views: object) -> Store:
    """Records move into the lake soon."""
    return strandline.open(
        path,
        settings=Settings(
            segment=SegmentSettings(seal_records=200, own_bytes_min=1),
            lake=LakeSettings(hot_segments=1, file_bytes=1),
            views=ViewSettings(**views),
        ),
        start_jobs=False,
    )


def live(store: Store, kind: str, seed: int = 1) -> None:
    """Some hundred steps in the life of the view of this kind and name."""
    _LIVES[kind](store, random.Random(seed))


def host(store: Store, kind: str):
    store.views.open(kind, kind, {})
    return store.views.registry.host(kind, store.existing_topic(kind))


def _kv(store: Store, rng: random.Random) -> None:
    new = {} if "kv" in store.topics() else {"history": 3, "grace_ms": 0}
    kv = store.kv("kv", **new)
    for step in range(600):
        key, chance = b"key-%d" % rng.randrange(150), rng.random()
        if chance < 0.15:
            kv.delete(key)
        elif chance < 0.25:
            kv.put(key, b"for a while", ttl=1e6)
        elif chance < 0.27:
            kv.put(key, bytes(rng.choice((9_000, 70_000))))
        else:
            kv.put(key, b"%d" % step)
        if step % 150 == 99:
            store.checkpoint()
    store.topic("kv").append_many([b"plain", b"nobody's"], keys=[b"key-x", None])


def _queue(store: Store, rng: random.Random) -> None:
    queue = store.queue("queue", deliveries_max=2)
    for step in range(200):
        queue.put(b"job %d" % step, priority=step % 4, group="g" if step % 9 == 0 else None)
        if step % 10 == 0:
            jobs = queue.claim(8, worker=f"w{step % 3}", lease=3600.0)
            queue.ack_many(jobs[: len(jobs) // 2])
            queue.nack_many(jobs[len(jobs) // 2 :][:2])
        if step % 90 == 60:
            store.checkpoint()
    store.topic("queue").append(b"a plain job")
    if rng.random() < 0.5:
        queue.pause()


def _series(store: Store, rng: random.Random) -> None:
    series = store.series("series", jitter=5, inline_bytes=64)
    begin = store.topic("series").head_seq
    for step in range(400):
        at = 1_000 + begin + step - rng.choice((0, 0, 3, 40))
        series.append(b"source-%d" % rng.randrange(20), at, bytes(rng.choice((3, 80))))
        if step % 150 == 99:
            store.checkpoint()
    series.run_retention(1_000 + begin + 50)


def _metrics(store: Store, rng: random.Random) -> None:
    metrics = store.metrics("metrics")
    begin = store.topic("metrics").head_seq
    metrics.downsample("load", into="load_10s", window="10s", aggregates=["avg", "max"])
    for step in range(200):
        at = (begin + step) * 10**9
        host = f"h{rng.randrange(4)}"
        metrics.write("load", {"host": host}, {"one": rng.random(), "n": step}, at=at)
        if step % 20 == 0:
            store.topic("metrics").append(f"room,floor={step % 3} warm={step} {at}".encode())
        if step % 80 == 60:
            store.checkpoint()


_LIVES: dict[str, Callable[[Store, random.Random], None]] = {
    "kv": _kv,
    "queue": _queue,
    "series": _series,
    "metrics": _metrics,
}
