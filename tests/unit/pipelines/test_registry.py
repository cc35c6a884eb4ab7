"""Promise: a declared pipeline with nothing to do yet is done, and one with a problem tells it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import strandline
from strandline.log.progress import silent
from strandline.pipelines.engine import Embedded
from strandline.pipelines.schedule.registry import PIPELINES, RunContext, RunResult, arguments_of
from tests.unit.pipelines.owners import owner


def run(name: str, store: str, **arguments: object) -> RunResult:
    pipeline = PIPELINES[name]
    work = RunContext(store, "", "", "20261117T033000Z", Embedded(), silent)
    return pipeline.run(arguments_of(pipeline, arguments), work)


def test_a_store_that_has_no_lake_yet_has_nothing_to_compact_and_its_own_files_to_check(
    data_dir: str,
):
    with strandline.open(data_dir) as store:
        store.topic("orders").append(b"tea")
        store.checkpoint()

    assert run("compact", data_dir) == run("scrub", data_dir) == RunResult()
    root = sorted(Path(data_dir, "meta").iterdir())[-1]
    root.write_bytes(b"damaged")
    assert "problems, the first in" in run("scrub", data_dir).failure


def test_when_it_was_due_stands_in_the_place_of_an_export(data_dir: str, tmp_path: Path):
    with strandline.open(data_dir) as store:
        store.topic("orders").append(b"tea")

    done = run("export", data_dir, topic="orders", to=f"{tmp_path}/copies/{{due}}")

    assert done == RunResult(rows=1)
    assert (tmp_path / "copies" / "20261117T033000Z" / "_SUCCESS").exists()


@pytest.mark.parametrize("open_elsewhere", [False, True])
def test_a_compaction_by_key_can_be_declared(data_dir: str, open_elsewhere: bool):
    with strandline.open(data_dir) as store:
        for n in range(50):
            store.kv("profiles", history=2).put("ada", b"%d" % n)
    with contextlib.ExitStack() as stack:
        if open_elsewhere:
            stack.enter_context(owner(data_dir))

        done = run("compact", data_dir, topics=["profiles"], keyed=True)

    assert done.failure == ""
    with strandline.open(data_dir, readonly=True) as store:
        assert store.topic("profiles").statistics().count == 2
        assert store.kv("profiles").get("ada") == b"49"
