"""Promise: rebuilds and rollups on a cluster whose machines die leave views as their logs say.

A worker dies when a task has left what it made and told nobody; the driver dies at an instant that
is drawn. The next run goes on with what was done, and comes to the same.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import strandline
from tests.cluster import gates
from tests.cluster.kills import drawn, kill_who_waits, long_only
from tests.cluster.standalone import Cluster, until
from tests.unit.pipelines.lives import KINDS, host, live, open_lively
from tests.unit.pipelines.test_rollup import by_itself, made, progresses
from tests.unit.pipelines.test_rollup import make as make_rules

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def under_kills(cluster: Cluster, job: str, store: str, gate: Path, kills: int) -> object:
    """Kill a worker at the gate, then the driver again and again; at last let it end."""
    rng = drawn()
    for life in range(kills):
        driver = cluster.start(job, store=store, gate=str(gate))
        if not life:
            kill_who_waits(cluster, gate, driver)
        deadline = time.monotonic() + rng.random() * 6
        while time.monotonic() < deadline and not driver.process.has_ended():
            time.sleep(0.05)
        driver.process.kill()
    return cluster.run(job, store=store, gate=str(gate))


def rebuilt(cluster: Cluster, store: str, gate: Path, kills: int) -> None:
    with open_lively(store) as opened:
        for kind in KINDS:
            live(opened, kind)
        opened.relocate()
        expected = {kind: opened.views.digest(kind, kind) for kind in KINDS}
    shutil.rmtree(f"{store}/views")

    same = under_kills(cluster, "rebuild", store, gate, kills)

    assert same == dict.fromkeys(KINDS, True)
    with strandline.open(store) as opened:
        assert {kind: opened.views.digest(kind, kind) for kind in KINDS} == expected
        assert all(host(opened, kind).saved.state for kind in KINDS)


def test_views_are_what_their_logs_say_though_a_worker_and_the_driver_die(
    cluster: Cluster, data_dir, gate
):
    rebuilt(cluster, data_dir, gate, kills=1)


@pytest.mark.crash
def test_a_rebuild_whose_driver_died_goes_on_where_it_was(cluster: Cluster, data_dir, gate):
    with open_lively(data_dir) as opened:
        live(opened, "kv")
        opened.relocate()
        expected = opened.views.digest("kv", "kv")
    shutil.rmtree(f"{data_dir}/views")
    driver = cluster.start("rebuild_one", store=data_dir, gate=str(gate))
    lake = Path(data_dir, "lake", "incoming")
    until(lambda: any(lake.glob("rebuilt-kv-*")), "a task that is done", driver.process)
    driver.process.kill()  # others wait at the gate: it cannot be done
    gates.open_gate(gate)

    done = cluster.run("rebuild_one", store=data_dir, gate=str(gate))

    assert done.taken_over
    assert done.replaced
    assert not list(lake.glob("rebuilt-*"))
    with strandline.open(data_dir) as opened:
        assert opened.views.digest("kv", "kv") == expected


@pytest.mark.slow
def test_every_window_is_made_once_though_a_worker_and_the_driver_die(
    cluster: Cluster, data_dir, gate
):
    make_rules(data_dir)
    expected = by_itself(data_dir)

    under_kills(cluster, "rollup", data_dir, gate, kills=1)

    assert made(data_dir) == expected
    assert len(progresses(data_dir)) == len(set(progresses(data_dir)))


@long_only
@pytest.mark.parametrize("part", range(3))
def test_views_are_what_their_logs_say_however_often_drivers_die(
    cluster: Cluster, data_dir, gate, part
):
    rebuilt(cluster, data_dir, gate, kills=8)
