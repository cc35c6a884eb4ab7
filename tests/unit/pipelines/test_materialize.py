"""Promise: a remembered query that was materialized is what the query itself would say, whoever has
the store; who is overtaken begins again, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from pyroaring import BitMap64

import strandline
from strandline.errors import Conflict, NotFound, Unavailable
from strandline.pipelines import Embedded, materialize
from strandline.store import Store
from tests.unit.pipelines.owners import delivered_in, owner, staged_in
from tests.unit.query.materialized.world import alike

FIGURES = "QUERY pay COUNT, TOTAL n, AVG n, COUNT UNIQUE user, MIN user, MAX n BY cur"
ROWS = "QUERY pay WHERE n > 3 RETURN [n, user]"
FIELDS = {"n": "i64", "cur": ["EUR", "USD"], "user": "string | null"}


def pay(store: Store, *numbers: int) -> None:
    for n in numbers:
        user = None if n % 5 == 0 else f"user {n % 4}"
        event = {"n": n, "cur": "USD" if n % 3 else "EUR", "user": user}
        store.table("pay").store(f"c{n % 3}", event)


def made(path: str, **queries: str) -> None:
    with strandline.open(path) as store:
        store.table("pay", flush_rows=16, zone_rows=256).define(FIELDS)
        pay(store, *range(20))
        for alias, text in (queries or {"figures": FIGURES, "rows": ROWS}).items():
            store.run(f"REMEMBER {text} AS {alias}")
        pay(store, *range(20, 30))


def shows_what_it_should(store: Store, **queries: str) -> bool:
    asked = queries or {"figures": FIGURES, "rows": ROWS}
    return all(alike(store.run(f"SHOW {alias}"), store.run(asked[alias])) for alias in asked)


def behind(store: Store) -> list[int]:
    return [each.behind for each in store.queries.remembered.list()]


def nothing_is_left(path: str) -> bool:
    return not staged_in(path) and not delivered_in(path) and not delivered_in(path, "refused")


def test_an_open_store_is_committed_to(data_dir):
    made(data_dir)
    with strandline.open(data_dir) as store:
        summary = materialize(store)

        assert [(each.alias, each.engine, each.behind) for each in summary.refreshed] == [
            ("figures", "embedded", 10),
            ("rows", "embedded", 10),
        ]
        assert behind(store) == [0, 0]
        assert shows_what_it_should(store)


def test_a_store_that_nobody_has_open_is_brought_up_to_date(data_dir):
    made(data_dir)

    summary = materialize(data_dir)

    assert (summary.changed, summary.failed) == (2, [])
    assert nothing_is_left(data_dir)
    with strandline.open(data_dir) as store:
        assert behind(store) == [0, 0]
        assert shows_what_it_should(store)


def test_whoever_has_the_store_open_takes_the_commit(data_dir):
    made(data_dir)
    with owner(data_dir):
        summary = materialize(data_dir)

        assert (summary.changed, summary.failed) == (2, [])
        assert nothing_is_left(data_dir)
        with strandline.open(data_dir, readonly=True) as looking:
            assert behind(looking) == [0, 0]
            assert shows_what_it_should(looking)


def test_without_news_nothing_is_done(data_dir):
    made(data_dir)
    materialize(data_dir)

    summary = materialize(data_dir)

    assert summary.changed == 0
    assert [each.engine for each in summary.refreshed] == ["", ""]


def test_show_and_deliveries_take_turns_and_leave_no_frames_behind(data_dir):
    made(data_dir)
    with strandline.open(data_dir) as store:
        for turn in range(12):
            pay(store, *range(turn, turn + 4))
            if turn % 3 == 2:
                assert shows_what_it_should(store)
            else:
                assert materialize(data_dir).changed == 2
            assert shows_what_it_should(store)
        pay(store, 1)
        store.run("SHOW figures")

        records = store.topic("remembered:figures").read(0, 1000).records
        frames = sum(run.last - run.first + 1 for run in _manifest(store).runs)
        assert _manifest(store).leaving == ()
        assert len(records) == frames + 1


def _manifest(store: Store) -> Any:
    return store.queries.remembered.begin_refresh("figures").base.manifest


def test_everything_is_computed_again_on_request(data_dir):
    made(data_dir)

    summary = materialize(data_dir, ["figures"], full=True)

    assert [(each.alias, each.full) for each in summary.refreshed] == [("figures", True)]
    with strandline.open(data_dir) as store:
        assert shows_what_it_should(store)


def test_aliases_may_be_patterns_and_an_unknown_one_is_told(data_dir):
    made(data_dir)

    assert [each.alias for each in materialize(data_dir, ["fig*"]).refreshed] == ["figures"]
    with pytest.raises(NotFound, match="did you mean 'figures'"):
        materialize(data_dir, ["figurs"])


def test_a_query_that_cannot_be_refreshed_does_not_keep_the_others(data_dir):
    made(data_dir)
    with strandline.open(data_dir) as store:
        store.run('DEFINE gone FIELDS {n: "i64"}')
        store.run("REMEMBER QUERY gone COUNT AS a_lost_one")
        store.delete_topic("gone")

        summary = materialize(store)

        assert [each.alias for each in summary.failed] == ["a_lost_one"]
        assert summary.changed == 2


class Overtaken(Embedded):
    """An engine that lets somebody else do something before it answers."""

    def __init__(self, meanwhile: Callable[[], None], times: int = 1) -> None:
        super().__init__()
        self._meanwhile = meanwhile
        self._times = times

    def answering(self, progress: object) -> Any:
        del progress
        from strandline.query.execute.executor import run

        def answer(bound: Any, snapshots: Any) -> Any:
            if self._times:
                self._times -= 1
                self._meanwhile()
            return run(bound, snapshots)

        return answer


@pytest.mark.parametrize("is_open", [True, False])
def test_who_is_overtaken_begins_again(data_dir, is_open):
    made(data_dir, figures=FIGURES)
    with strandline.open(data_dir) as store:

        def meanwhile() -> None:
            pay(store, 7)
            store.run("SHOW figures")
            pay(store, 8)

        target = store if is_open else data_dir
        summary = materialize(target, engine=Overtaken(meanwhile))

        assert [each.tries for each in summary.refreshed] == [2]
        assert behind(store) == [0]
        assert shows_what_it_should(store, figures=FIGURES)
        assert store.health().status == "green"
    assert nothing_is_left(data_dir)


def test_two_pipelines_at_once_count_every_row_once(data_dir):
    made(data_dir, figures=FIGURES)

    summary = materialize(data_dir, engine=Overtaken(lambda: _other(data_dir)))

    assert [(each.tries, each.engine) for each in summary.refreshed] == [(2, "")]
    with strandline.open(data_dir) as store:
        assert shows_what_it_should(store, figures=FIGURES)


def _other(path: str) -> None:
    assert materialize(path).changed == 1


def test_of_two_deliveries_from_one_head_the_second_begins_again(data_dir):
    made(data_dir, figures=FIGURES)
    with owner(data_dir, jobs=False):
        assert materialize(data_dir, wait_s_max=0).failed  # it lies there, and waits
    with strandline.open(data_dir, start_jobs=False) as store:
        pay(store, 7)

    summary = materialize(data_dir)

    assert [(each.tries, each.engine) for each in summary.refreshed] == [(2, "embedded")]
    with strandline.open(data_dir) as store:
        assert behind(store) == [0]
        assert shows_what_it_should(store, figures=FIGURES)


def test_who_is_overtaken_again_and_again_says_so(data_dir, monkeypatch):
    made(data_dir, figures=FIGURES)
    monkeypatch.setattr(import_module("strandline.pipelines.materialize"), "TRIES_MAX", 3)
    with strandline.open(data_dir) as store:

        def meanwhile() -> None:
            pay(store, 7)
            store.run("SHOW figures")
            pay(store, 8)

        summary = materialize(store, engine=Overtaken(meanwhile, times=99))

        assert [each.error for each in summary.failed] == [Conflict.code]
        assert shows_what_it_should(store, figures=FIGURES)


def test_an_owner_that_takes_nothing_is_told_and_the_commit_is_safe(data_dir):
    made(data_dir, figures=FIGURES)
    with owner(data_dir, jobs=False):
        summary = materialize(data_dir, wait_s_max=0.1)

        assert [each.error for each in summary.failed] == [Unavailable.code]
        assert "open the store for writing" in summary.failed[0].reason
    with strandline.open(data_dir) as store:
        store.ingest_pending()

        assert behind(store) == [0]
        assert shows_what_it_should(store, figures=FIGURES)


def test_progress_is_told(data_dir):
    made(data_dir)
    told: list[tuple[str, int, int]] = []

    materialize(data_dir, progress=lambda *step: told.append(step))

    assert ("materialized queries", 2, 2) in told
    assert any(what == "reading pay" for what, _, _ in told)


def test_frames_that_were_lost_are_computed_again(data_dir):
    made(data_dir, figures=FIGURES)
    with strandline.open(data_dir) as store:
        for run in _manifest(store).runs:
            store.topic("remembered:figures").trim(BitMap64(range(run.first, run.last + 1)))
        for _ in range(8):  # until runs are to be merged
            pay(store, 1)
            assert not materialize(store).failed

        assert shows_what_it_should(store, figures=FIGURES)
