"""The live tail chapter: one thread appends, another follows, and the latency is measured."""

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
        received: list[tuple[Record, int]] = []
        with stage.bar("following", scene.live_records) as update:
            for record in topic.follow(timeout_s=_SILENCE_S_MAX):
                received.append((record, time.perf_counter_ns()))
                update(len(received))
                if len(received) == scene.live_records:
                    break
        writer.join()
    for record, _ in received[:_SHOWN]:
        stage.print_line(f"seq {record.seq}  {record.data.decode()}")
    seqs = [record.seq for record, _ in received]
    stage.check(
        seqs == list(range(1, scene.live_records + 1)),
        f"the follower read {len(seqs):,} of {scene.live_records:,} records, each once, in order",
    )
    latencies_ns = sorted(at - int(record.data.split()[-1]) for record, at in received)
    if latencies_ns:
        median, p99 = (
            latencies_ns[len(latencies_ns) // 2],
            latencies_ns[len(latencies_ns) * 99 // 100],
        )
        stage.print_line(
            f"from append to follower: p50 {median / 1000:.0f} µs, p99 {p99 / 1000:.0f} µs"
        )


def _write(topic: Topic, count: int) -> None:
    for number in range(count):
        topic.append(f"headline {number} at {time.perf_counter_ns()}".encode())
        time.sleep(_PAUSE_S)
