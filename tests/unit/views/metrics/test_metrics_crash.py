"""Promise: after a crash a metrics view is what its log folds into, rules and floors included.

Random work with the power cut or the process killed before random calls of the disk, as for the
other views (tests/crash/sim/test_views_crash.py); here with rules that make points and let records
of the log go.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from strandline.errors import Invalid
from strandline.testing.sim_clock import SimClock
from strandline.views.metrics.metrics import Metrics
from tests.crash.sim.views import Life, Sort
from tests.unit.views.metrics.metrics_world import METRICS, SECOND


def _step(view: Metrics, chance: random.Random, clock: SimClock) -> None:
    now = clock.now_us() * 1000
    drawn = chance.random()
    if drawn < 0.04:
        view.keep(chance.choice(("cpu", "cpu_1m")), chance.choice(("20s", "3m")))
    elif drawn < 0.08:
        width = chance.choice(("5s", "20s"))
        view.downsample("cpu", into="cpu_1m", window=width, aggregates=["max", "count"])
    elif drawn < 0.10:
        view.stop_downsampling("cpu_1m")
    elif drawn < 0.2:
        clock.advance(chance.choice((1, 10)))
        view.run_once()
    elif drawn < 0.3:
        view.maintain()
    else:
        lines = []
        for _ in range(chance.choice((1, 3, 40))):
            host, load, jobs = chance.randrange(4), chance.randrange(9), chance.randrange(9)
            at = now - chance.choice((0, 0, 1, 5, 40)) * SECOND
            lines.append(f"cpu,host=h{host} load={load},jobs={jobs}i {at}")
        with contextlib.suppress(Invalid):  # too old: refused
            view.write_lines("\n".join(lines))


LIFE = Sort(METRICS, {"block_points": 16}, _step, share=0.15)


@pytest.mark.parametrize("seed", range(4))
def test_a_metrics_view_is_what_its_log_folds_into_after_any_crash(seed):
    durability = "disk" if seed % 2 else "fsync"
    life = Life(LIFE, seed, durability=durability, shards=1 + seed % 3)

    life.live(steps=60)
    heads = [life.check(disk) for disk in life.left]

    life.end()
    assert len(heads) >= 5
    assert max(heads) > 20
