"""Promise: a compaction on a cluster whose machines die loses no row, beside a store that lives.

Another process has the store open, appends and relocates. A worker dies when a task has written its
file and told nobody; the driver dies at an instant that is drawn. The next compaction goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.lake import external_reader
from strandline.pipelines import scrub
from tests.cluster.kills import drawn, kill_after, kill_who_waits, long_only
from tests.cluster.standalone import Cluster, until
from tests.spark.stores import records
from tests.unit.lake.small_lake import BATCH, fill, open_small

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
BATCHES = 100


def make(path: str) -> None:
    """A topic of many small files, some rows of which are gone."""
    with open_small(path) as store:
        topic = fill(store, batches=BATCHES)
        topic.delete(match="odd")
        topic.delete(before=151)
        store.relocate()


def files(path: str) -> list[external_reader.FileFacts]:
    return external_reader.files(f"{path}/lake", "orders").files


def compact_under_kills(cluster: Cluster, store: str, gate: Path, kills: int) -> None:
    """Kill a worker at the gate, then the driver again and again; at last let it end."""
    rng = drawn()
    for life in range(kills):
        driver = cluster.start("compact", store=store, gate=str(gate))
        if not life:
            kill_who_waits(cluster, gate, driver)
        kill_after(driver, _goes_on(store), rng.random())
    assert not cluster.run("compact", store=store, gate=str(gate)).damaged


def merged(path: str) -> set[str]:
    """The files that a compaction made: no other is of more than one batch."""
    return {file.url for file in files(path) if file.last_seq - file.first_seq >= BATCH}


def _goes_on(path: str) -> Callable[[], bool]:
    so_far = merged(path)
    return lambda: merged(path) != so_far


def beside_an_owner(cluster: Cluster, store: str, folder: Path, gate: Path, kills: int) -> None:
    make(store)
    before, many = records(store, "orders"), len(files(store))
    ready, stop = folder / "ready", folder / "stop"

    owner = cluster.start("own", store=store, ready=str(ready), stop=str(stop))
    until(ready.exists, "owner", owner.process)
    compact_under_kills(cluster, store, gate, kills)
    stop.touch()
    held = owner.result()

    assert held[: len(before)] == before
    later = range(before[-1][0] + 1, held[-1][0] + 1)
    assert [(seq, data) for seq, *_, data in held[len(before) :]] == [
        (seq, b"%d" % seq) for seq in later
    ]
    assert len(later) > 0
    assert records(store, "orders") == held
    assert len([file for file in files(store) if file.last_seq <= before[-1][0]]) < many // 2
    assert scrub(store).ok


def test_a_compaction_keeps_every_row_though_a_worker_and_the_driver_die(
    cluster: Cluster, data_dir, tmp_path, gate
):
    beside_an_owner(cluster, data_dir, tmp_path, gate, kills=1)


@long_only
@pytest.mark.parametrize("part", range(5))
def test_a_compaction_keeps_every_row_however_often_its_driver_dies(
    cluster: Cluster, data_dir, tmp_path, gate, part
):
    beside_an_owner(cluster, data_dir, tmp_path, gate, kills=12)
