"""Promise: a rollup makes what the rules of a view ask for, each window once, of all its points."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

import strandline
from strandline.errors import NotFound
from strandline.pipelines import Embedded, rebuild, rollup
from strandline.views.metrics import rule_runner
from tests.unit.pipelines.lives import host, open_lively
from tests.unit.pipelines.owners import owner

S = 10**9
POINTS = 600


@pytest.fixture(autouse=True)
def few_windows_at_once(monkeypatch):
    """So that there are several tasks."""
    monkeypatch.setattr(rule_runner, "WINDOWS_AT_ONCE", 5)


def make(path: str, name: str = "metrics") -> None:
    """Points of ten minutes long ago, rules for them, and nobody who has applied these."""
    with open_lively(path) as store:
        metrics = store.metrics(name)
        for second in range(POINTS):
            tags = {"host": f"h{second % 3}"}
            metrics.write("load", tags, {"one": second / 7, "n": second}, at=second * S)
        metrics.downsample("load", into="load_20s", window="20s", aggregates=["avg", "max", "sum"])
        metrics.downsample("load_20s", into="load_2m", window="2m", aggregates=["max"], by=[])
        metrics.downsample("other", into="other_1m", window="1m")
        store.views.registry.save()


def made(path: str, name: str = "metrics") -> dict[str, object]:
    """What the rules have made, and how far they are."""
    with strandline.open(path, readonly=True) as store:
        store.metrics(name)
        with store.views.registry.host("metrics", store.existing_topic(name)).reading() as fold:
            found: dict[str, object] = {
                seen.name.decode(errors="replace"): seen.content for seen in fold.visible_items()
            }
        return found


def by_itself(path: str) -> dict[str, object]:
    """The same, made by the store alone."""
    copy = f"{path}-copy"
    shutil.copytree(path, copy)
    with open_lively(copy) as store:
        store.metrics("metrics").maintain()
    try:
        return made(copy)
    finally:
        shutil.rmtree(copy)


def progresses(path: str) -> list[bytes]:
    """Records that say how far a rule is."""
    with strandline.open(path, readonly=True) as store:
        records = store.topic("metrics").read(0, 100_000).records
    return [record.meta for record in records if (record.meta or b"").startswith(b"\0mxd")]


@pytest.mark.parametrize("is_open", [False, True])
def test_tasks_make_what_the_store_would_make(data_dir, is_open):
    make(data_dir)
    expected = by_itself(data_dir)

    if is_open:
        with owner(data_dir):
            done = rollup(data_dir)
    else:
        done = rollup(data_dir)

    assert made(data_dir) == expected
    rules = {rule.into: (rule.steps, rule.points) for rule in done.rules}
    assert rules["load_20s"] == (6, 30 * 3 * 2 * 3)
    assert rules["load_2m"][0] == 1
    assert "other_1m" not in rules
    assert len(progresses(data_dir)) == 7
    assert rebuild(data_dir, "metrics", "metrics").same


def test_a_second_rollup_finds_nothing_to_do(data_dir):
    make(data_dir)
    rollup(data_dir)
    before = made(data_dir)

    again = rollup(data_dir)

    assert (again.rules, again.records_before) == ([], again.records_after)
    assert made(data_dir) == before


class Meanwhile(Embedded):
    """Something is done when the tasks of the first rule have ended."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._act = act
        self._done = False

    def run(self, work, tasks):
        yield from super().run(work, tasks)
        if not self._done:
            self._done = True
            self._act()


def test_a_point_that_comes_while_its_window_is_made_is_in_it(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        metrics = store.metrics("metrics")

        def late() -> None:
            metrics.write("load", {"host": "h0"}, {"one": 1000.0, "n": 5}, at=250 * S + 1)

        # No job takes what is handed over here: it stays until the store is closed.
        with pytest.raises(strandline.errors.Unavailable):
            rollup(data_dir, engine=Meanwhile(late), wait_s_max=0.0)
        store.ingest_pending()
        standing = host(store, "metrics").fold.standings.find("downsample", "load_20s")
        assert standing.until == 200 * S, "made up to the windows of which one had changed"

    rollup(data_dir)

    with strandline.open(data_dir, readonly=True) as store:
        highest = store.metrics("metrics").read("load_20s", "one_max").values
    assert 1000.0 in list(highest)
    with strandline.open(data_dir) as store:
        expected = store.views.digest("metrics", "metrics")
        store.rebuild("metrics", "metrics")
        assert store.views.digest("metrics", "metrics") == expected


def test_windows_that_somebody_else_has_made_are_not_made_again(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        metrics = store.metrics("metrics")
        with pytest.raises(strandline.errors.Unavailable):
            rollup(data_dir, engine=Meanwhile(metrics.maintain), wait_s_max=0.0)
        count = store.topic("metrics").head_seq

        store.ingest_pending()

        assert store.topic("metrics").head_seq == count


def test_what_is_too_old_goes_when_its_windows_are_made(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        store.metrics("metrics").keep("load", "1h")
        series = store.series("series", retention=100)
        for at in range(500):
            series.append("s", at, b"x")

    done = rollup(data_dir)

    with strandline.open(data_dir, readonly=True) as store:
        assert len(store.metrics("metrics").read("load", "one").values) == 0
        assert len(store.metrics("metrics").read("load_20s", "one_avg").values) == 90
        assert next(point.at for point in store.series("series").range("s", 0, 10**6)) >= 390
    assert done.views == 2
    assert done.records_after < done.records_before - POINTS // 2


def test_a_view_that_is_not_there_is_told(data_dir):
    make(data_dir)

    with pytest.raises(NotFound, match="'nothing'"):
        rollup(data_dir, ["nothing"])
