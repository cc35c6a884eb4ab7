"""Does an append cost the same with many topics and with many records?"""

from __future__ import annotations

import time
from pathlib import Path

import strandline
from bench.measure import Figure, fixed, rate, scaled
from bench.peers import RECORD
from bench.settings import LAZY


def run(folder: Path, *, scale: float) -> list[Figure]:
    figures = []
    base = 0.0
    for exponent in (2, 3, 4, 5):
        count = 10**exponent
        if exponent > 2 and count > fixed(10**5, scale):
            break
        path = str(folder / f"topics{exponent}")
        with strandline.open(path, settings=LAZY) as store:
            topics = [store.topic(f"t{number}") for number in range(count)]
            for topic in topics:
                topic.append(RECORD)
            speed = rate(
                lambda topics=topics: _round_robin(topics, scaled(100_000, scale, least=1000))
            )
            base = base or speed
        start = time.perf_counter()
        strandline.open(path, settings=LAZY).close()
        seconds = time.perf_counter() - start
        figures.append(
            Figure(
                name=f"append(one) over 10^{exponent} topics",
                value=speed,
                unit="rec/s",
                peer="10^2 topics",
                ratio=speed / base,
                goal="flat within 1.5x",
                met=speed >= base / 1.5,
                note=f"reopened in {seconds:.2f} s",
            )
        )
    return figures


def _round_robin(topics: list[strandline.Topic], count: int) -> int:
    step = max(1, len(topics) // 1000)
    chosen = topics[::step]
    for turn in range(count // len(chosen)):
        del turn
        for topic in chosen:
            topic.append(RECORD)
    return count // len(chosen) * len(chosen)
