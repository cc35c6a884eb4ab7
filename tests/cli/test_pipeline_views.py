"""Promise: pipelines over views run from the command line and tell what they found."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command
from tests.unit.pipelines.lives import host, live, open_lively


@pytest.fixture
def lively(command: Command, data_dir: str) -> Command:
    with open_lively(data_dir) as store:
        live(store, "kv")
        live(store, "metrics")
    return command


def test_a_rebuild_compares_and_says_so(lively: Command):
    found = lively("pipeline", "run", "rebuild", "kv", "kv", "--compare", "--output", "json").json

    assert (found["same"], found["replaced"], found["differences"]) == (True, False, [])
    assert found["parts"] > 50


def test_a_view_that_differs_is_exit_code_three_and_can_be_replaced(lively: Command, data_dir: str):
    with open_lively(data_dir) as store:
        fold = host(store, "kv").fold
        gone = next(fold.visible_items()).name
        fold._live.delete(gone)
        store.topic("kv").append(b"so that there is something to save")
        store.views.registry.save()

    told = lively("pipeline", "run", "rebuild", "kv", "kv")

    assert told.code == 3
    assert gone.decode() in told.out
    assert "--replace" in told.err
    assert lively("pipeline", "run", "rebuild", "kv", "kv", "--replace").code == 0
    assert lively("pipeline", "run", "rebuild", "kv", "kv").code == 0


def test_rules_are_applied_and_summed_up(lively: Command):
    done = lively("pipeline", "run", "rollup", "metrics", "--output", "json").json

    assert done["views"] == 1
    assert lively("pipeline", "run", "rollup").code == 0
    assert lively("pipeline", "run", "rollup", "nothing").code == 1


def test_key_value_topics_are_compacted_by_key(lively: Command):
    done = lively("pipeline", "run", "compact", "--keyed", "kv", "--output", "json")

    assert done.json["released_records"] >= 0
    assert lively("pipeline", "run", "compact", "--keyed", "--dry-run").code == 2
    assert lively("pipeline", "run", "rebuild", "kv", "kv", "--compare", "--replace").code == 2
