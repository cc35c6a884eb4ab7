"""Promise: on a cluster whose machines die, each record comes out of Spark exactly once.

A real master and two workers. Workers are killed in the middle of a task, drivers at instants that
are drawn. What comes out is compared, as a multiset, with what the store itself gives.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import strandline
from tests.cluster import gates
from tests.cluster.standalone import Cluster, Driver, until
from tests.spark.stores import records, settings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PER_BATCH = 200


def fill(path: str, count: int, large: int = 0) -> None:
    """Numbered people, most of them in the lake; then large records that are not."""
    with strandline.open(path, settings=settings(), start_jobs=False) as store:
        topic = store.topic("t")
        for first in range(0, count, 200):
            numbers = range(first, first + 200)
            topic.append_many(
                [json.dumps({"number": n, "name": f"person {n}"}).encode() for n in numbers],
                tags=[f"t{n % 11}" for n in numbers],
                keys=[b"%d" % (n % 97) for n in numbers],
            )
            store.checkpoint()
            if first < count - 400:
                store.relocate()
        for number in range(large):
            topic.append(bytes([number % 256]) * 250_000)


def kill_who_waits(cluster: Cluster, gate: Path, driver: Driver) -> None:
    """Kill the worker at the gate, open it for the next, and put another worker in its place."""
    until(lambda: bool(gates.waiting(gate)), "task at the gate", driver.process)
    work = gates.waiting(gate)[0]
    name = Path(work).relative_to(cluster.folder).parts[0]
    cluster.kill_worker(name)
    gates.open_gate(gate)
    cluster.start_worker(f"{name}-again")


def persons(path: str) -> Counter[tuple[bytes, str, bytes]]:
    """What ``jobs.follow`` must have made of a topic."""
    made: Counter[tuple[bytes, str, bytes]] = Counter()
    for row in records(path):
        _, _, key, tag, _, _, data = row
        person = json.loads(data)
        if person["number"] % 3:
            told = {"number": person["number"], "name": person["name"].upper()}
            made[json.dumps(told, separators=(",", ":")).encode(), tag.upper(), key] += 1
    return made


def sunk(folder: Path) -> Counter[tuple[bytes, str, bytes]]:
    """What the file sink counts as written."""
    names: set[str] = set()
    for log in (folder / "sink" / "_spark_metadata").glob("[0-9]*"):
        entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
        names |= {entry["path"].rpartition("/")[2] for entry in entries}
    columns = [pq.read_table(folder / "sink" / name).to_pydict() for name in names]
    return Counter(row for each in columns for row in zip(*each.values(), strict=True))


def committed(folder: Path) -> int:
    """How many batches a stream has done."""
    commits = folder / "checkpoint" / "commits"
    return sum(entry.name.isdecimal() for entry in commits.iterdir()) if commits.exists() else 0


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    folder = tmp_path / "gate"
    folder.mkdir()
    return folder


def test_a_batch_read_gives_the_records_also_when_a_worker_dies(cluster: Cluster, data_dir, gate):
    fill(data_dir, 2000, large=40)
    expected = Counter(records(data_dir))

    driver = cluster.start("read", store=data_dir, gate=str(gate))
    kill_who_waits(cluster, gate, driver)
    found = {name: Counter(rows) for name, rows in driver.result().items()}

    assert found["table"] == expected
    assert found["source"] == expected
    assert found["gated"] == expected


def follow_under_kills(
    cluster: Cluster, store: str, folder: Path, gate: Path, kills: int, seed: int
) -> None:
    """Kill a worker at the gate, then the driver again and again; at last let it end."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    options = {"store": store, "folder": str(folder), "per_batch": PER_BATCH, "gate": str(gate)}
    for life in range(kills):
        driver = cluster.start("follow", **options)
        if not life:
            kill_who_waits(cluster, gate, driver)
        wanted = committed(folder) + rng.randrange(1, 4)
        until(_has_come(folder, wanted, driver), f"batch {wanted}", driver.process)
        time.sleep(rng.random())  # the instant of death is what is drawn
        driver.process.kill()
    cluster.run("follow", **options)


def _has_come(folder: Path, wanted: int, driver: Driver) -> Callable[[], bool]:
    return lambda: committed(folder) >= wanted or driver.process.has_ended()


def test_a_stream_writes_each_record_once_though_a_worker_and_the_driver_die(
    cluster: Cluster, data_dir, tmp_path, gate
):
    fill(data_dir, 1200)

    seed = random.randrange(1 << 32)
    follow_under_kills(cluster, data_dir, tmp_path, gate, kills=1, seed=seed)

    assert sunk(tmp_path) == persons(data_dir)


@pytest.mark.crash
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("STRANDLINE_CRASH") != "long", reason="STRANDLINE_CRASH=long")
@pytest.mark.parametrize("part", range(5))
def test_a_stream_writes_each_record_once_however_often_its_driver_dies(
    cluster: Cluster, data_dir, tmp_path, gate, part
):
    fill(data_dir, 6000)

    seed = random.randrange(1 << 32)
    follow_under_kills(cluster, data_dir, tmp_path, gate, kills=12, seed=seed)

    assert sunk(tmp_path) == persons(data_dir)
