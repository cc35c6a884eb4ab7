"""Promise: Spark answers commands and SQL as the store itself does, of one position, and is given
no file that cannot matter; beside the process that writes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import strandline
from strandline.errors import Invalid
from strandline.query.execute.executor import QueryExecutor
from strandline.query.language.binding import bind
from strandline.query.language.parser import parse
from strandline.spark import frame, run, sql
from strandline.spark.isolated_sessions import isolated_session
from strandline.spark.sql.query import execute
from strandline.spark.tables import event_rows
from strandline.spark.tables.parquet import RANGES_MAX
from strandline.store import Store

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

OLD = {"n": "u64", "at": "date", "cur": ["EUR", "USD"], "user": "string | null"}
NEW = {"n": "f64", "at": "datetime", "cur": ["EUR", "USD", "GBP"], "user": "string | null"}
NEW |= {"more": "string | null"}
COMMANDS = [
    "QUERY pay",
    'QUERY pay WHERE at >= "2026-01-02" AND user = "user 1" COUNT, TOTAL n, MAX more BY cur',
    "QUERY pay COUNT PER DAY USING at",
    "QUERY pay FOLLOWED BY pay LINKED BY user RETURN [pay.seq, pay2.seq] LIMIT 20",
    "QUERY pay LIMIT 0",
    "QUERY pay WHERE n < 0 COUNT, AVG n",
    "REPLAY FOR c1",
    "REPLAY pay FOR c2",
    "SHOW figures",
]
STATEMENTS = [
    "select cur, count(*) as c, sum(n) as s from pay group by cur order by cur desc",
    "select p.text, count(*) as c from pay join kv.people p on p.key = pay.context "
    "group by 1 order by 1",
    "select * from kv.people order by key limit 3",
    "with pay as (select 7 as seven) select * from pay",
    "from remembered.figures order by cur",
    "select tag, count(*) as c from log.notes group by tag order by tag",
    "select kv.people.key as k from kv.people order by k",
    "select seq, version from (select seq, 1 as version from pay) where seq < 9 order by seq",
]


@pytest.fixture(scope="module", autouse=True)
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Compiling takes longer than these questions do."""
    isolated_session(spark).conf.set("spark.sql.codegen.wholeStage", "false")
    yield
    isolated_session(spark).conf.unset("spark.sql.codegen.wholeStage")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A table in files of two versions and in memory, rows deleted in all of them."""
    path = str(tmp_path_factory.mktemp("questions") / "data")
    with strandline.open(path) as store:
        table = store.table("pay", flush_rows=32, zone_rows=256)
        table.define(OLD)
        for n in range(100):
            table.store(f"c{n % 7}", _event(n) | {"at": f"2026-01-0{1 + n % 9}"})
        table.flush()
        store.run("REMEMBER QUERY pay COUNT, TOTAL n, COUNT UNIQUE user BY cur AS figures")
        table.define(NEW)
        for n in range(100, 160):
            table.store(f"c{n % 7}", _event(n) | {"at": 1_767_225_600 + 3600 * n, "more": f"é {n}"})
        table.flush()
        for n in range(160, 170):
            table.store(f"c{n % 7}", _event(n) | {"at": 1_767_225_600 + 3600 * n})
        store.run('DELETE pay WHERE n IN (3, 120, 165) OR cur = "USD" AND n < 6')
        store.table("view").define({"page": "string"})
        store.table("view").store("c1", {"page": "/"})
        people = store.kv("people")
        for place in range(7):
            people.put(f"c{place}", f"person {place}".encode())
        store.topic("notes").append_many([b"a", b"b", b"\xff"], tags=["x", "x", None])
        yield store


def _event(n: int) -> dict[str, object]:
    return {
        "n": n,
        "cur": "USD" if n % 3 else "EUR",
        "user": None if n % 5 == 0 else f"user {n % 4}",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_answer_that_the_store_itself_gives(spark, store, command):
    found = run(spark, store, command)

    wanted = store.run(command)
    assert found.schema == wanted.schema
    assert found.tuples() == wanted.tuples()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_has_the_answer_that_the_store_itself_gives(spark, store, statement):
    found = sql(spark, store, statement)

    wanted = store.sql(statement)
    assert found.columns == wanted.columns
    assert found.tuples() == wanted.tuples()


def test_values_of_a_statement_take_the_place_of_parameters(spark, store):
    text = "select count(*) as c from pay where cur = {} and n > {}"

    named = sql(spark, store, text.format("$cur", "$n"), params={"cur": "EUR", "n": 50})
    placed = sql(spark, store, text.format("?", "?"), params=["EUR", 50])

    wanted = store.sql(text.format("'EUR'", "50")).tuples()
    assert named.tuples() == placed.tuples() == wanted


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1e308, 1e308], math.inf),
        ([1e308, 1e308, -1e308, -1e308], 0.0),
        ([-1e308] * 3 + [1e308] * 2, -1e308),
    ],
)
def test_large_totals_are_those_of_the_store(spark, data_dir, values, total):
    with strandline.open(data_dir) as large:
        large.run('DEFINE large FIELDS {x: "f64"}')
        for value in values:
            large.table("large").store("c", {"x": value})
        large.run("REMEMBER QUERY large TOTAL x AS kept")
        command = "QUERY large TOTAL x"

        found = run(spark, large, command).rows()
        framed = frame(spark, large, command).collect()

        assert found == large.run(command).rows() == large.run("SHOW kept").rows()
        assert found == [{"total_x": total}] == [row.asDict() for row in framed]


def test_a_statement_about_the_past_sees_nothing_newer(spark, store):
    text = "select count(*) as c, max(seq) as m from pay"

    found = sql(spark, store, text, as_of={"pay": 40})

    assert found.tuples() == store.sql(text, as_of={"pay": 40}).tuples()


def test_what_spark_cannot_do_is_told_in_one_line(spark, store, capfd):
    for statement in ("select nothing from pay", "describe pay", "select 1 // 0 from pay"):
        with pytest.raises(Invalid) as caught:
            sql(spark, store, statement)
        assert len(str(caught.value)) < 400
    assert "SQLQueryContextLogger" not in capfd.readouterr().err


def test_the_session_of_the_caller_stays_as_it_is(spark, store):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        before = spark.catalog.listTables()

        found = run(spark, store, "QUERY pay COUNT PER DAY USING at")

        assert found.tuples() == store.run("QUERY pay COUNT PER DAY USING at").tuples()
        assert spark.catalog.listTables() == before
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kathmandu"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_store_is_read_beside_its_writer_by_its_folder(spark, store):
    command = "QUERY pay COUNT, TOTAL n BY cur"

    found = run(spark, store.path, command)

    assert found.tuples() == store.run(command).tuples()
    text = "select count(*) as c from pay"
    assert sql(spark, store.path, text).tuples() == store.sql(text).tuples()


def test_a_frame_has_the_rows_of_the_moment_it_was_made(spark, data_dir):
    with strandline.open(data_dir) as store:
        table = store.table("pay")
        table.define({"n": "i64"})
        table.store_many("c", [{"n": n} for n in range(50)])
        table.flush()
        made = frame(spark, store, "QUERY pay WHERE n < 40")
        table.store_many("c", [{"n": n} for n in range(30)])

        assert made.count() == 40
        with pytest.raises(Invalid, match="only a QUERY"):
            frame(spark, store, "SHOW x")


def test_spark_is_given_no_file_that_the_indexes_rule_out(spark, data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        table = store.table("pay")
        table.define({"n": "i64"})
        for part in range(3):
            table.store_many("c", [{"n": 1000 * part + n} for n in range(50)])
            table.flush()

        few = frame(spark, store, "QUERY pay WHERE n >= 2000")
        told = run(spark, store, "QUERY pay WHERE n >= 2000 COUNT")

        assert len(few.inputFiles()) == 1
        assert (told.profile.sources[0].facts.files, told.profile.sources[0].facts.files_kept) == (
            3,
            1,
        )
        assert told.tuples() == [(50,)]


def test_what_is_small_is_one_task_whatever_it_is_made_of(spark, data_dir, monkeypatch):
    with strandline.open(data_dir, start_jobs=False) as store:
        table = store.table("pay")
        table.define({"n": "i64"})
        table.store_many("c", [{"n": n} for n in range(50)])
        table.flush()
        table.define({"n": "i64", "more": "string | null"})
        table.store_many("c", [{"n": n, "more": "x"} for n in range(50)])
        table.flush()
        table.store_many("c", [{"n": n} for n in range(50)])  # in memory

        apart = table.snapshot().read(["n", "more"]).external_scan()
        kinds = table.schema.types()
        small = event_rows.frame_of_scan(isolated_session(spark), "pay", kinds, apart)
        monkeypatch.setattr(event_rows, "ONE_TASK_BYTES", 0)
        large = event_rows.frame_of_scan(isolated_session(spark), "pay", kinds, apart)

        assert small.rdd.getNumPartitions() == 1
        assert large.rdd.getNumPartitions() > 1
        assert sorted(small.collect(), key=str) == sorted(large.collect(), key=str)
        assert small.count() == 150


def test_rows_that_are_hidden_in_many_places_are_left_out(spark, data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        table = store.table("pay")
        table.define({"n": "i64"})
        table.store_many("c", [{"n": n} for n in range(4 * RANGES_MAX)])
        table.flush()
        odd = ", ".join(str(n) for n in range(1, 4 * RANGES_MAX, 2))
        store.run(f"DELETE pay WHERE n IN ({odd})")

        found = run(spark, store, "QUERY pay COUNT, TOTAL n")

        assert found.tuples() == [(2 * RANGES_MAX, sum(range(0, 4 * RANGES_MAX, 2)))]


def test_a_question_to_an_older_snapshot_sees_nothing_newer(spark, store):
    answering: QueryExecutor = lambda bound, snapshots: execute(spark, bound, snapshots)  # noqa: E731
    snapshot = store.table("pay").snapshot(30)
    text = "QUERY pay RETURN [seq]"
    bound = bind(parse(text), {"pay": snapshot.schema}.get, text)

    found = answering(bound, lambda name: snapshot)

    assert max(row["seq"] for row in found) == 30


def test_a_question_leaves_the_way_to_our_source_open(spark: SparkSession, store: Store, data_dir):
    """Spark looks data sources up in the session that was used last, and that is the question's."""
    with strandline.open(data_dir) as other:
        other.topic("notes")

    run(spark, store, "QUERY pay COUNT")
    rows = spark.createDataFrame([("kept",)], "data string")
    run(spark, store, "QUERY pay COUNT")
    rows.write.format("strandline").mode("append").option("topic", "notes").save(data_dir)

    with strandline.open(data_dir, readonly=True) as other:
        assert other.topic("notes").read().data == [b"kept"]
