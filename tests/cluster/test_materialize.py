"""Promise: a refresh on a cluster whose machines die is whole or not there, beside a living store.

A worker dies in the middle of a task, the driver at an instant that is drawn. What is stored of the
remembered query then reaches to where it was before or to where the refresh began; the next one
goes on, and SHOW is the query asked afresh.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import strandline
from strandline.store import Store
from tests.cluster.kills import drawn, kill_after, kill_who_waits, long_only
from tests.cluster.standalone import Cluster
from tests.unit.query.materialized.world import alike

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
QUERY = "QUERY pay COUNT, TOTAL n, COUNT UNIQUE user, MAX amount BY cur"
MORE = 200
LIFE_S_MAX = 6.0


def pay(store: Store, first: int) -> None:
    table = store.table("pay")
    events = [
        {"n": n, "amount": n / 4, "cur": "USD" if n % 3 else "EUR", "user": f"user {n % 17}"}
        for n in range(first, first + MORE)
    ]
    table.store_many([f"c{event['n'] % 5}" for event in events], events)
    table.flush()


def make(store: Store) -> None:
    fields = {"n": "i64", "amount": "f64", "cur": ["EUR", "USD"], "user": "string"}
    store.table("pay").define(fields)
    store.run(f"REMEMBER {QUERY} AS figures")


def mark(store: Store) -> int:
    return store.queries.remembered.describe("figures").marks["pay"].position


def refresh_under_kills(
    cluster: Cluster, store: Store, gate: Path, kills: int, rng: random.Random
) -> None:
    """Kill a worker at the gate, then the driver, again and again; at last let it end."""
    for life in range(kills):
        old = mark(store)
        pay(store, MORE * life)
        new = store.topic("pay").head_seq
        driver = cluster.start("materialize", store=store.path, gate=str(gate))
        if not life:
            kill_who_waits(cluster, gate, driver)
        kill_after(driver, lambda: True, rng.random() * LIFE_S_MAX)
        store.ingest_pending()
        assert mark(store) in (old, new)
        assert life % 2 or alike(store.run("SHOW figures"), store.run(QUERY))
    pay(store, MORE * kills)
    summary = cluster.run("materialize", store=store.path, gate=str(gate))
    assert [(each.alias, each.engine) for each in summary.refreshed] == [("figures", "spark")]
    assert summary.failed == []


def beside_an_owner(cluster: Cluster, path: str, gate: Path, kills: int) -> None:
    rng = drawn()
    with strandline.open(path) as store:
        make(store)

        refresh_under_kills(cluster, store, gate, kills, rng)

        assert store.queries.remembered.describe("figures").behind == 0
        assert alike(store.run("SHOW figures"), store.run(QUERY))


@pytest.mark.slow
def test_a_refresh_is_whole_or_not_there_though_a_worker_and_the_driver_die(
    cluster: Cluster, data_dir, gate
):
    beside_an_owner(cluster, data_dir, gate, kills=1)


@long_only
@pytest.mark.parametrize("part", range(3))
def test_a_refresh_is_whole_or_not_there_however_often_its_driver_dies(
    cluster: Cluster, data_dir, gate, part
):
    beside_an_owner(cluster, data_dir, gate, kills=12)
