"""A key-value view rebuilt by tasks and loaded into a live store, against the store's replay."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import strandline
from bench.measure import Figure, scaled
from strandline.pipelines import Embedded, Engine, rebuild

KEYS = 10_000_000
AT_ONCE = 10_000
VALUE = bytes(32)
WAIT_S_MAX = 600.0


def run(folder: Path, *, scale: float, spark: bool = True) -> list[Figure]:
    """A store of so many keys; replayed by itself, then rebuilt while it is open."""
    path, keys = str(folder / "rebuild"), scaled(KEYS, scale, least=AT_ONCE)
    _fill(path, keys)
    try:
        replay_s = _replayed(path)
        figures = [_rebuilt(path, keys, "embedded", Embedded(), replay_s)]
        if spark:
            figures.append(_on_spark(path, keys, replay_s))
    finally:
        shutil.rmtree(path)
    return figures


def _fill(path: str, keys: int) -> None:
    with strandline.open(path) as store:
        store.kv("profiles", history=1)
        topic = store.topic("profiles")
        for first in range(0, keys, AT_ONCE):
            names = [b"user-%012d" % (n * 7_919 % keys) for n in range(first, first + AT_ONCE)]
            topic.append_many([VALUE] * len(names), keys=names)


def _replayed(path: str) -> float:
    """Seconds that a store without a saved view takes until the view answers."""
    shutil.rmtree(f"{path}/views", ignore_errors=True)
    with strandline.open(path) as store:
        begun_s = time.monotonic()
        store.kv("profiles").get("user-000000000001")
        store.views.registry.save()
        return time.monotonic() - begun_s


def _on_spark(path: str, keys: int, replay_s: float) -> Figure:
    import strandline.spark  # noqa: PLC0415 - heavy, and not always wanted

    session = strandline.spark.session("local[2]", **{"spark.driver.memory": "3g"})
    try:
        engine = strandline.spark.SparkEngine(session)
        return _rebuilt(path, keys, "spark", engine, replay_s)
    finally:
        session.stop()


def _rebuilt(path: str, keys: int, name: str, engine: Engine, replay_s: float) -> Figure:
    """Rebuilt and loaded into a store that is open and answers meanwhile."""
    with strandline.open(path) as store:
        kv = store.kv("profiles")
        kv.get("user-000000000001")
        done = rebuild(path, "kv", "profiles", replace=True, engine=engine, wait_s_max=WAIT_S_MAX)
        assert kv.get("user-000000000001") == VALUE
    return Figure(
        name=f"rebuild {keys} keys: {name}",
        value=keys / done.seconds,
        unit="keys/s",
        peer="the store's own replay",
        ratio=replay_s / done.seconds,
        note=f"{done.seconds:.1f} s, {done.load_seconds:.1f} s of it loading into the live store, "
        f"against {replay_s:.1f} s; {done.pages} pages",
    )
