"""Promise: a compaction that is killed at any instant loses no row, and the next one goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest

from strandline.lake import external_reader
from strandline.pipelines import compact, scrub
from tests.crash.real.compact_workers import GROUPS
from tests.crash.real.nursery import Nursery
from tests.unit.lake.small_lake import fill, open_small

KILLS = 6
KILLS_LONG = 150
LIFE_S_MAX = 0.5
WORK = "tests.crash.real.compact_workers:compact_in_groups"


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> str:
    """A store with two topics of forty small files, some rows of which are gone."""
    path = str(tmp_path_factory.mktemp("filled") / "data")
    with open_small(path) as store:
        for name in ("orders", "users"):
            topic = fill(store, name, batches=40)
            topic.delete(match="odd")
            topic.delete(before=251)
        store.relocate()
    return path


def _rows(store: str) -> dict[str, pa.Table]:
    return {
        name: external_reader.dataset(f"{store}/lake", name).to_table()
        for name in ("orders", "users")
    }


def _files(store: str) -> int:
    return sum(len(topic.files) for topic in external_reader.topics(f"{store}/lake"))


def _killed_again_and_again(nursery: Nursery, filled: str, folder: Path, kills: int) -> None:
    rng = random.Random(kills)
    expected, before = _rows(filled), _files(filled)
    store = str(folder / "data")
    shutil.copytree(filled, store)
    for kill in range(kills):
        if kill % KILLS == 0:
            shutil.rmtree(store)
            shutil.copytree(filled, store)
        pid = nursery.start(WORK, lake=f"{store}/lake")
        time.sleep(rng.random() * LIFE_S_MAX)  # the instant of death is what is drawn
        os.kill(pid, signal.SIGKILL)
        assert nursery.wait(pid) in (-signal.SIGKILL, 0), nursery.errors()

        assert _rows(store) == expected, kill

    summary = compact(store, settings=GROUPS)
    assert not summary.skipped
    assert _rows(store) == expected
    assert _files(store) < before // 4
    assert scrub(store, store=store).ok
    with open_small(store) as opened:
        for name, rows in expected.items():
            seqs = [record.seq for record in opened.topic(name).read(0, limit=10_000).records]
            assert seqs[: len(rows)] == rows.sort_by("seq")["seq"].to_pylist()


def test_a_killed_compaction_loses_no_row_and_the_next_goes_on(
    nursery: Nursery, filled: str, tmp_path: Path
):
    _killed_again_and_again(nursery, filled, tmp_path, KILLS)


@pytest.mark.crash
def test_a_compaction_killed_many_times_loses_no_row(nursery: Nursery, filled: str, tmp_path: Path):
    _killed_again_and_again(nursery, filled, tmp_path, KILLS_LONG)
