"""The chapter of the live tail: one thread appends, another follows, and the wait is measured."""

from __future__ import annotations

import threading
import time

from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.store import Store

_PAUSE_S = 0.001
_SHOWN = 3
_SILENCE_S_MAX = 30.0


def show(stage: Stage, scene: Scene) -> None:
    stage.title("One thread appends, another follows")
    with Store(scene.store) as store:
        topic = store.topic("news")
        writer = threading.Thread(target=_write, args=(topic, scene.live_records))
        writer.start()
        seen: list[tuple[Record, int]] = []
        with stage.bar("following", scene.live_records) as update:
            for record in topic.follow(timeout_s=_SILENCE_S_MAX):
                seen.append((record, time.perf_counter_ns()))
                update(len(seen))
                if len(seen) == scene.live_records:
                    break
        writer.join()
    for record, _ in seen[:_SHOWN]:
        stage.say(f"seq {record.seq}  {record.data.decode()}")
    seqs = [record.seq for record, _ in seen]
    stage.check(
        seqs == list(range(1, scene.live_records + 1)),
        f"the follower saw {len(seqs):,} of {scene.live_records:,} records, each once, in order",
    )
    waits = sorted(at - int(record.data.split()[-1]) for record, at in seen)
    if waits:
        half, most = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        stage.say(f"from append to follower: p50 {half / 1000:.0f} µs, p99 {most / 1000:.0f} µs")


def _write(topic: Topic, count: int) -> None:
    for place in range(count):
        topic.append(f"headline {place} at {time.perf_counter_ns()}".encode())
        time.sleep(_PAUSE_S)
