"""Promise: states that Spark has computed and those of the embedded engine are put together, in any
order of turns; the remembered query is what the query itself says, after each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import strandline
from strandline.errors import StrandlineError
from strandline.pipelines import Embedded, by_size, materialize
from strandline.spark import SparkEngine
from strandline.spark.isolated_sessions import isolated_session
from strandline.spark.tables.event_rows import frame_of_scan
from strandline.store import Store
from tests.unit.query.materialized.world import alike

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

FIELDS = {
    "u": "u64",
    "i": "i64 | null",
    "f": "f64 | null",
    "s": "string | null",
    "e": ["EUR", "USD"],
    "b": "bool",
    "at": "datetime",
    "day": "date | null",
}
EVERY = (
    "COUNT, COUNT i, COUNT UNIQUE s, COUNT UNIQUE u, TOTAL u, TOTAL i, TOTAL f, AVG u, AVG i, "
    "AVG f, MIN u, MIN i, MIN f, MIN s, MIN at, MIN day, MAX u, MAX i, MAX f, MAX s, MAX at, "
    "MAX day"
)
QUERIES = {
    "alone": f"QUERY pay {EVERY}",
    "by": f"QUERY pay {EVERY} BY e, b ORDER BY total_i DESC LIMIT 3",
    "per": "QUERY pay WHERE u > 2 COUNT, TOTAL u, COUNT UNIQUE e PER DAY BY s USING at",
    "rows": "QUERY pay WHERE NOT b RETURN [u, s, at, day]",
    "first": "QUERY pay RETURN [u] ORDER BY f DESC LIMIT 5",
    "sequence": "QUERY pay FOLLOWED BY pay LINKED BY s RETURN [pay.u, pay2.u]",
}


@pytest.fixture
def engine(spark) -> Iterator[SparkEngine]:
    isolated_session(spark).conf.set(
        "spark.sql.codegen.wholeStage", "false"
    )  # compiling takes longer
    yield SparkEngine(spark)
    isolated_session(spark).conf.unset("spark.sql.codegen.wholeStage")


def pay(store: Store, first: int, count: int) -> None:
    table = store.table("pay")
    for n in range(first, first + count):
        event = {
            "u": 2**64 - 1 - n % 9 if n % 4 else n,
            "i": None if n % 7 == 0 else -(2**63) + n if n % 2 else 2**63 - n,
            "f": None if n % 5 == 0 else (n * 37 % 101) / 8,
            "s": None if n % 6 == 0 else ["", "é", "z", 'it\'s "so"'][n % 4],
            "e": "EUR" if n % 3 else "USD",
            "b": n % 2 == 0,
            "at": 1_767_225_600 + 7200 * n,
            "day": None if n % 8 == 0 else f"2026-01-{1 + n % 28:02d}",
        }
        table.store(f"c{n % 3}", event)


def check(store: Store) -> None:
    for alias, text in QUERIES.items():
        shown, asked = store.run(f"SHOW {alias}"), store.run(text)
        assert alike(shown, asked), (alias, shown.rows(), asked.rows())


def test_turns_of_spark_and_of_show_make_the_answer_of_a_fresh_query(engine, data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        store.table("pay", flush_rows=32, zone_rows=256).define(FIELDS)
        pay(store, 0, 40)
        for alias, text in QUERIES.items():
            store.run(f"REMEMBER {text} AS {alias}")
        for turn in range(2):
            pay(store, 40 + 30 * turn, 30)
            if turn % 2:
                store.table("pay").flush()

            summary = materialize(store, engine=engine)

            assert not summary.failed, summary.failed
            assert {each.engine for each in summary.refreshed} == {"spark"}
            assert all(not each.behind for each in store.queries.remembered.list())
            check(store)
            pay(store, 300 + turn, 1)
            check(store)


def test_spark_the_embedded_engine_and_both_in_turns_remember_the_same(engine, data_dir):
    """Each query is remembered three times; one of the three is whatever the size decides."""
    asked = {name: QUERIES[name] for name in ("alone", "per")}
    small, large = by_size(lambda: engine), by_size(lambda: engine, threshold=1)
    with strandline.open(data_dir, start_jobs=False) as store:
        store.table("pay", zone_rows=256).define(FIELDS)
        for alias, text in asked.items():
            for name in ("here", "there", "auto"):
                store.run(f"REMEMBER {text} AS {alias}-{name}")
        for turn, (chooser, chosen) in enumerate([(small, "embedded"), (large, "spark")]):
            pay(store, 50 * turn, 50)
            store.table("pay").flush()

            here = materialize(store, ["*-here"], engine=Embedded())
            there = materialize(store, ["*-there"], engine=engine)
            auto = materialize(store, ["*-auto"], engine=chooser)

            found = [{each.engine for each in done.refreshed} for done in (here, there, auto)]
            assert found == [{"embedded"}, {"spark"}, {chosen}]
            for alias, text in asked.items():
                right = store.run(text)
                for name in ("here", "there", "auto"):
                    assert not store.queries.remembered.describe(f"{alias}-{name}").behind
                    assert alike(store.run(f"SHOW {alias}-{name}"), right), (alias, name, turn)


def test_spark_hears_of_no_file_without_news(spark, data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        table = store.table("pay", zone_rows=256)
        table.define(FIELDS)
        pay(store, 0, 20)
        table.flush()
        store.run(f"REMEMBER {QUERIES['by']} AS by")
        pay(store, 20, 10)
        table.flush()

        news = store.queries.remembered.begin_refresh("by").new_rows()["pay"]
        made = frame_of_scan(
            isolated_session(spark), "pay", table.schema.types(), news.read(["u"]).external_scan()
        )

        assert table.statistics().files == 2
        assert len(made.inputFiles()) == 1
        assert made.count() == 10


def test_all_of_it_is_computed_again_by_spark_beside_the_writer(engine, data_dir):
    with strandline.open(data_dir) as store:
        store.table("pay", flush_rows=32, zone_rows=256).define(FIELDS)
        pay(store, 0, 70)
        text = QUERIES["by"]
        store.run(f"REMEMBER {text} AS by")
        store.run("DELETE pay WHERE u < 30")

        summary = materialize(data_dir, ["by"], full=True, engine=engine)

        assert [(each.full, each.engine) for each in summary.refreshed] == [(True, "spark")]
        stored = store.queries.remembered.describe("by")
        assert (stored.behind, stored.counters.recomputed) == (0, 2)
        assert alike(store.run("SHOW by"), store.run(text))


def test_a_session_that_is_over_is_told_and_nothing_is_changed(spark, engine, data_dir):
    class Stopped(SparkEngine):
        def answering(self, progress):
            def answer(bound, snapshots):
                raise StrandlineError("the machines are gone")

            return answer

    with strandline.open(data_dir) as store:
        store.table("pay").define(FIELDS)
        store.run(f"REMEMBER {QUERIES['by']} AS by")
        pay(store, 0, 5)

        summary = materialize(store, engine=Stopped(spark))

        assert [each.reason for each in summary.failed] == ["the machines are gone"]
        assert store.queries.remembered.describe("by").behind == 5
