"""Promise: a refresh of a remembered query that is killed at any instant has happened or has not.

Each run is a process of its own that is killed after a random while, beside a process that has the
store open and SHOWs, or with nobody there. What is stored reaches to where a refresh began, old or
new, and SHOW is the query asked afresh, after each of them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

import strandline
from strandline.pipelines import materialize
from strandline.store import Store
from tests.unit.query.materialized.world import alike

KILLS = 5
KILLS_LONG = 80
LIFE_S_MAX = 0.6
MORE = 40
QUERY = "QUERY pay COUNT, TOTAL n, COUNT UNIQUE n BY cur"
# What takes time to load is loaded before the clock starts.
PROGRAM = "import sys, strandline.query.query_service; "
PROGRAM += "from strandline.pipelines import materialize as run; "
PROGRAM += "print(flush=True); run(sys.argv[1])"


def kill_one(choices: random.Random, path: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it has begun
    time.sleep(choices.random() * LIFE_S_MAX)  # the instant of death is what is drawn
    process.kill()
    process.wait()
    process.stdout.close()


def pay(store: Store, first: int) -> None:
    events = [{"n": n, "cur": "USD" if n % 3 else "EUR"} for n in range(first, first + MORE)]
    store.table("pay").store_many("c", events)


def mark(store: Store) -> int:
    """How far into the table the stored state reaches."""
    return store.queries.remembered.describe("figures").marks["pay"].position


def refreshed_whole(path: str, seed: int, kills: int) -> None:
    choices = random.Random(seed)
    with strandline.open(path) as store:
        store.table("pay").define({"n": "u64", "cur": ["EUR", "USD"]})
        pay(store, 0)
        store.run(f"REMEMBER {QUERY} AS figures")
    for life in range(1, kills + 1):
        with strandline.open(path) as store:
            old = mark(store)
            pay(store, MORE * life)
            new = store.topic("pay").head_seq
            if choices.random() < 0.5:
                kill_one(choices, path)
        if choices.random() < 0.7:
            kill_one(choices, path)
        with strandline.open(path) as store:
            store.ingest_pending()
            assert mark(store) in (old, new), f"seed {seed}"
            shown = store.run("SHOW figures") if choices.random() < 0.5 else None
            assert shown is None or alike(shown, store.run(QUERY)), f"seed {seed}"

    materialize(path)

    with strandline.open(path, readonly=True) as store:
        assert store.queries.remembered.describe("figures").behind == 0
        assert alike(store.run("SHOW figures"), store.run(QUERY)), f"seed {seed}"


def test_a_refresh_survives_sigkill_at_any_instant(data_dir):
    refreshed_whole(data_dir, random.randrange(1 << 32), KILLS)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(2))
def test_refreshes_survive_many_kills(data_dir, part):
    refreshed_whole(data_dir, random.randrange(1 << 32), KILLS_LONG)
