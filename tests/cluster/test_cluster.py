"""Promise: on a cluster whose machines die, each record is read and written exactly once.

A real master and two workers. Workers are killed in the middle of a task, drivers at instants that
are drawn. What comes out is compared, as a multiset, with what the store itself gives.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import strandline
from tests.cluster import gates
from tests.cluster.kills import drawn, kill_after, kill_who_waits, long_only
from tests.cluster.standalone import Cluster, until
from tests.spark.stores import records, settings
from tests.spark.writing import counted_data, empty_store
from tests.unit.pipelines.owners import contents, delivered_in

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


def sunk(path: str) -> Counter[tuple[bytes, str, bytes]]:
    """What is in the topic to which ``jobs.follow`` writes."""
    return Counter((data, tag, key) for _, _, key, tag, _, _, data in records(path, "people"))


def is_delivered(path: str) -> bool:
    """Whether nothing is on its way. What a dead task staged is left; nobody will name it."""
    return not delivered_in(path) and not delivered_in(path, "refused")


def committed(checkpoint: Path) -> int:
    """How many batches a stream has done."""
    commits = checkpoint / "commits"
    return sum(entry.name.isdecimal() for entry in commits.iterdir()) if commits.exists() else 0


def test_a_batch_read_gives_the_records_also_when_a_worker_dies(cluster: Cluster, data_dir, gate):
    fill(data_dir, 2000, large=40)
    expected = Counter(records(data_dir))

    driver = cluster.start("read", store=data_dir, gate=str(gate))
    kill_who_waits(cluster, gate, driver)
    found = {name: Counter(rows) for name, rows in driver.result().items()}

    assert found["table"] == expected
    assert found["source"] == expected
    assert found["gated"] == expected


def test_a_batch_write_of_which_a_task_runs_twice_at_once_is_written_once(
    cluster: Cluster, data_dir, gate
):
    empty_store(data_dir)

    driver = cluster.start("write", store=data_dir, count=600, gate=str(gate))
    until(lambda: len(gates.waiting(gate)) == 2, "second try of the task", driver.process)
    gates.open_gate(gate)
    driver.result()

    assert sorted(contents(data_dir)) == counted_data(600)
    assert is_delivered(data_dir)


def follow_under_kills(
    cluster: Cluster, store: str, checkpoint: Path, gate: Path, kills: int
) -> None:
    """Kill a worker at the gate, then the driver again and again; at last let it end."""
    rng = drawn()
    given = {"store": store, "checkpoint": str(checkpoint), "per_batch": PER_BATCH}
    for life in range(kills):
        driver = cluster.start("follow", **given, gate=str(gate))
        if not life:
            kill_who_waits(cluster, gate, driver)
        wanted = committed(checkpoint) + rng.randrange(1, 3)
        kill_after(driver, _has_done(checkpoint, wanted), rng.random())
    cluster.run("follow", **given, gate=str(gate))


def _has_done(checkpoint: Path, wanted: int) -> Callable[[], bool]:
    return lambda: committed(checkpoint) >= wanted


def test_a_stream_writes_each_record_once_though_a_worker_and_the_driver_die(
    cluster: Cluster, data_dir, tmp_path, gate
):
    fill(data_dir, 1000)
    empty_store(data_dir, "people")

    follow_under_kills(cluster, data_dir, tmp_path / "checkpoint", gate, kills=1)

    assert sunk(data_dir) == persons(data_dir)
    assert is_delivered(data_dir)


@long_only
@pytest.mark.parametrize("part", range(5))
def test_a_stream_writes_each_record_once_however_often_its_driver_dies(
    cluster: Cluster, data_dir, tmp_path, gate, part
):
    fill(data_dir, 6000)
    empty_store(data_dir, "people")

    follow_under_kills(cluster, data_dir, tmp_path / "checkpoint", gate, kills=12)

    assert sunk(data_dir) == persons(data_dir)
    assert is_delivered(data_dir)
