"""Promise: SHOW says what the query would say if it were asked afresh, whatever happened before."""

from __future__ import annotations

import math
from random import Random

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyroaring import BitMap64

from strandline.errors import Conflict, Invalid, NotFound
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.language.ast import Query, Remember
from strandline.query.language.parser import parse
from strandline.query.language.periods import Calendar
from strandline.query.materialized.incremental_plan import incremental_plan_of
from strandline.query.materialized.partial_aggregates import StateMerger, add_scaled_totals
from tests.unit.query.materialized.world import Machine, World, alike
from tests.unit.store.world import SMALL_WAL

QUERIES = {
    "everything": "QUERY pay",
    "some columns": "QUERY pay RETURN [n, cur]",
    "a condition": 'QUERY pay RETURN [n] WHERE amount > 2 AND cur = "USD"',
    "a context": "QUERY pay FOR c1 RETURN [n]",
    "an order": "QUERY pay RETURN [n, user] ORDER BY user DESC",
    "the first by an order": "QUERY pay RETURN [n] ORDER BY amount DESC LIMIT 5",
    "a page": "QUERY pay RETURN [n] ORDER BY user LIMIT 4 OFFSET 3",
    "an order by seq": "QUERY pay RETURN [n] ORDER BY seq DESC LIMIT 4",
    "a limit": "QUERY pay RETURN [n] LIMIT 7",
    "no rows": "QUERY pay LIMIT 0",
    "nothing": "QUERY pay WHERE n < 0",
    "a count": "QUERY pay COUNT",
    "figures": "QUERY pay COUNT, COUNT amount, TOTAL n, TOTAL amount, AVG n, MIN user, MAX amount",
    "figures of nothing": "QUERY pay COUNT, TOTAL n, AVG n, MIN n, COUNT UNIQUE n WHERE n < 0",
    "groups": "QUERY pay COUNT, AVG amount, MAX n BY cur",
    "groups with missing values": "QUERY pay COUNT, TOTAL amount BY user",
    "periods": "QUERY pay COUNT, TOTAL n PER HOUR",
    "periods and groups": "QUERY pay AVG n, COUNT UNIQUE user PER DAY BY cur, context",
    "different values": "QUERY pay COUNT UNIQUE user, COUNT UNIQUE n BY cur",
    "different values of all": "QUERY pay COUNT UNIQUE user",
    "different values of a group": "QUERY pay COUNT UNIQUE user, COUNT BY user",
    "ordered groups": "QUERY pay TOTAL n BY user, cur ORDER BY total_n DESC LIMIT 3 OFFSET 1",
    "a sequence": "QUERY pay FOLLOWED BY view RETURN [pay.n, view.n]",
    "figures of a sequence": "QUERY pay FOLLOWED BY view COUNT, TOTAL pay.n",
}


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_show_is_what_the_query_would_say(machine: Machine, text: str):
    machine.pay(*range(1, 20))
    machine.remember("a", text)
    answers = [(machine.show("a"), machine.fresh(text))]

    for first in range(20, 40, 5):
        machine.pay(*range(first, first + 5))
        machine.table("view").store("c1", {"page": "/", "n": first})
        machine.world.clock.advance(1000.0)
        answers.append((machine.show("a"), machine.fresh(text)))

    assert all(alike(shown, asked) for shown, asked in answers)


GROUPED: dict[str, tuple[object, list[object]]] = {
    "i64 | null": ("i64 | null", [5, 0, -1, None]),
    "enum": (["a", "b"], ["a", "b"]),
    "f64": ("f64", [0.5, -1.0]),
    "date": ("date", ["2024-01-01", "1960-02-01"]),
    "string": ("string", ["", "x"]),
}


@pytest.mark.parametrize("kind", GROUPED)
@pytest.mark.parametrize("clause", ["BY {}, cur", "PER DAY BY {}"])
@pytest.mark.parametrize("name", ["count", "Count", "s0"])
def test_a_group_may_have_the_name_of_a_hidden_column(kind: str, clause: str, name: str):
    machine = Machine(calendar=Calendar("Europe/Amsterdam"))
    type_, values = GROUPED[kind]
    odd = machine.table("odd")
    odd.define({name: type_, "cur": ["EUR", "USD"], "n": "i64"})
    text = f"QUERY odd TOTAL n {clause.format(name)}"
    machine.remember("a", text)

    for value in values:
        odd.store("c", {name: value, "cur": "EUR", "n": 3})
        assert alike(machine.show("a"), machine.fresh(text))
    assert len(machine.show("a")) == len(values)


DIGESTS = {
    "everything": "a33598cffaa62db17da25e24cb73b17c",
    "figures": "e65ab3fa3b86ad22ff845733cc5c7888",
    "periods and groups": "a44f14b8be4260066885dbed02fc405f",
}


@pytest.mark.parametrize("query", DIGESTS)
def test_stored_states_of_earlier_versions_stay_of_use(machine: Machine, query: str):
    """Another digest would discard them, and rows of the past may be gone from the table."""
    assert incremental_plan_of(machine.bound(QUERIES[query])).digest == DIGESTS[query]


def test_a_stored_state_without_scaled_sums_gets_them_from_the_plain_ones(machine: Machine):
    shape = incremental_plan_of(machine.bound("QUERY pay TOTAL amount, AVG amount, TOTAL n BY cur"))
    states = StateMerger(DuckDbEngine(threads=1))
    state = pa.table({"k0": ["EUR"], "s0": [1e308], "s1": [2], "s2": [5], "s3": [2]})

    complete = add_scaled_totals(shape, state)
    twice = states.merge(shape.parts[0], [complete, complete])

    assert complete.column_names == shape.parts[0].columns.names
    assert states.finish(shape, [twice]).to_pylist() == [
        {"cur": "EUR", "total_amount": math.inf, "avg_amount": math.inf, "total_n": 10}
    ]
    assert states.finish(shape, [complete]).to_pylist() == [
        {"cur": "EUR", "total_amount": 1e308, "avg_amount": 1e308 / 2, "total_n": 5}
    ]


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_rows_that_were_deleted_are_not_shown_any_more(machine: Machine, text: str):
    machine.pay(*range(1, 40))
    machine.remember("a", text)

    machine.delete("DELETE pay WHERE n > 10 AND n < 30")
    machine.pay(50, 51)

    assert alike(machine.show("a"), machine.fresh(text))
    assert alike(machine.show("a"), machine.fresh(text))


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_a_new_version_of_the_schema_is_followed(machine: Machine, text: str):
    machine.pay(*range(1, 20))
    machine.remember("a", text)

    fields = dict(machine.table("pay").schema.fields) | {"n": "f64", "more": "string | null"}
    machine.table("pay").define(fields)
    machine.pay(30, more="news")

    assert alike(machine.show("a"), machine.fresh(text))


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_what_is_remembered_survives_a_restart(machine: Machine, text: str):
    machine.pay(*range(1, 40))
    machine.remember("a", text)
    machine.world.reopen()
    machine.pay(*range(40, 45))

    shown = machine.show("a")

    assert alike(shown, machine.fresh(text))
    assert machine.remembered.describe("a").query == text


def test_a_table_that_was_made_anew_is_another_one(machine: Machine):
    machine.pay(*range(1, 10))
    machine.remember("a", "QUERY pay RETURN [n]")
    machine.store.delete_topic("pay")
    machine.table("pay").define({"n": "i64"})
    for n in range(100, 120):
        machine.table("pay").store("c", {"n": n})

    shown = machine.show("a")

    assert [row["n"] for row in shown] == list(range(100, 120))


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_a_power_loss_took_from_the_table_are_not_shown_any_more(seed: int):
    machine = Machine(World(wal=replace(SMALL_WAL, shards=8)))
    machine.pay(1)
    aliases = [f"a{number}" for number in range(8)]  # most are on another shard than the table
    for alias in aliases:
        machine.remember(alias, "QUERY pay RETURN [n]")
    machine.store.sync()
    machine.pay(*range(2, 30))
    for alias in aliases:
        machine.show(alias)
        if seed % 2:
            machine.store.topic(f"remembered:{alias}").sync()
    machine.world.disk.power_off()
    machine.world.disk = machine.world.disk.crash(Random(seed))
    machine.store.close()
    machine.world.store = machine.world.open()
    machine.pay(*range(100, 100 + 300 * (seed % 3)))

    shown = [machine.show(alias) for alias in aliases]

    assert all(alike(each, machine.fresh("QUERY pay RETURN [n]")) for each in shown)


def test_frames_that_are_lost_are_made_again():
    machine = Machine(frame_bytes=2500)
    machine.pay(*range(1, 120))
    machine.remember("a", "QUERY pay")
    topic = machine.store.topic("remembered:a")
    topic.trim(BitMap64([topic.head_seq - 1]))

    shown = machine.show("a")

    assert alike(shown, machine.fresh("QUERY pay"))
    assert machine.remembered.describe("a").counters.recomputed == 2


def test_show_reads_only_what_is_new(machine: Machine):
    machine.pay(*range(1, 40))
    machine.remember("a", "QUERY pay TOTAL n")
    machine.pay(100)

    look = machine.remembered.begin_refresh("a")

    (news,) = look.new_rows().values()
    assert news.rows == 1
    assert not look.is_full


def test_many_small_news_stay_few_runs(machine: Machine):
    machine.remember("a", "QUERY pay RETURN [n]")

    for n in range(100):
        machine.pay(n)
        machine.show("a")

    described = machine.remembered.describe("a")
    assert described.rows == 100
    assert described.runs < 20
    assert machine.store.topic("remembered:a").statistics().count < 30
    assert [row["n"] for row in machine.show("a")] == list(range(100))


def test_show_without_news_writes_nothing(machine: Machine):
    machine.pay(1, 2)
    machine.remember("a", "QUERY pay")
    head = machine.store.topic("remembered:a").head_seq

    machine.show("a")

    assert machine.store.topic("remembered:a").head_seq == head


def test_rows_that_can_never_be_shown_are_not_kept(machine: Machine):
    machine.pay(*range(1, 40))
    machine.remember("first", "QUERY pay LIMIT 3")
    machine.remember("best", "QUERY pay ORDER BY n DESC LIMIT 3")

    for n in range(40, 80):
        machine.pay(n)
        machine.show("first")
        machine.show("best")

    assert machine.remembered.describe("first").rows == 3
    assert machine.remembered.describe("best").rows <= 3 * 8


@pytest.mark.parametrize("order", ["n DESC", "amount", "amount DESC", "user DESC", "user"])
def test_the_first_rows_are_found_among_those_that_were_kept(machine: Machine, order: str):
    """Enough small news that runs are merged, and rows without a chance left out."""
    text = f"QUERY pay RETURN [n] ORDER BY {order} LIMIT 3"
    machine.remember("a", text)

    for n in range(40):
        machine.pay(n * 11 % 40)
        machine.show("a")

    assert alike(machine.show("a"), machine.fresh(text))


def test_news_that_the_query_does_not_ask_for_are_no_state(machine: Machine):
    machine.pay(*range(1, 10))
    machine.remember("a", "QUERY pay COUNT, TOTAL n WHERE n < 10")

    for n in range(10, 13):
        machine.pay(n)
        machine.show("a")

    described = machine.remembered.describe("a")
    assert (described.rows, described.runs, described.behind) == (1, 1, 0)


def test_an_alias_is_taken_once(machine: Machine):
    machine.remember("a", "QUERY pay")

    with pytest.raises(Conflict, match="a remembered query 'a' exists already"):
        machine.remember("a", "QUERY view")

    assert machine.remembered.describe("a").query == "QUERY pay"


def test_an_unknown_alias_is_told_with_what_was_meant(machine: Machine):
    machine.remember("large-ones", "QUERY pay")

    with pytest.raises(NotFound, match="did you mean 'large-ones'"):
        machine.show("large-one")


def test_what_was_forgotten_is_unknown_and_its_alias_free(machine: Machine):
    machine.remember("a", "QUERY pay")

    machine.remembered.forget("a")

    with pytest.raises(NotFound):
        machine.show("a")
    with pytest.raises(NotFound):
        machine.remembered.forget("a")
    assert machine.remembered.list() == []
    assert machine.remember("a", "QUERY view").query == "QUERY view"


def test_a_query_that_is_refused_leaves_nothing_behind(machine: Machine):
    with pytest.raises(Invalid):
        machine.remember("a", "QUERY pay WHERE nothing = 1")

    assert machine.store.topics("remembered:") == []


def test_an_alias_is_a_word(machine: Machine):
    with pytest.raises(Invalid, match="is not an alias"):
        machine.remembered.show("a:b")


def test_a_reader_sees_what_is_stored_and_what_is_new(machine: Machine):
    machine.pay(1, 2)
    machine.remember("a", "QUERY pay RETURN [n]")
    machine.pay(3)
    machine.store.sync()
    writer, machine.world.store = machine.store, machine.world.open(readonly=True)

    shown = [row["n"] for row in machine.show("a")]

    assert shown == [1, 2, 3]
    machine.world.store.close()
    machine.world.store = writer


def test_a_description_tells_what_is_stored_and_how_far_it_has_come(machine: Machine):
    machine.pay(1, 2, 3)
    machine.remember("a", "QUERY pay RETURN [n] WHERE n > 1")
    machine.pay(4)

    (told,) = machine.remembered.list()

    assert (told.alias, told.kind, told.rows, told.behind) == ("a", "rows", 2, 1)
    assert told.bytes > 0
    assert told.marks["pay"].position == 4
    assert told.marks["pay"].ts == machine.store.topic("pay").get_many([4]).records[0].ts
    assert told.counters.recomputed == 1


def test_a_refresh_stores_news_and_can_begin_anew(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay COUNT")
    machine.pay(2, 3)

    refreshed = machine.remembered.refresh("a")
    anew = machine.remembered.refresh("a", full=True)

    assert (refreshed.behind, refreshed.counters.recomputed) == (0, 1)
    assert anew.counters.recomputed == 2
    assert machine.show("a").tuples() == [(3,)]


def test_an_answer_in_many_frames_is_put_together():
    machine = Machine(frame_bytes=2500)
    machine.pay(*range(1, 200))

    machine.remember("a", "QUERY pay")

    assert machine.store.topic("remembered:a").statistics().count > 3
    assert alike(machine.show("a"), machine.fresh("QUERY pay"))


def test_progress_is_told_while_a_query_is_remembered(machine: Machine):
    machine.pay(*range(1, 50))
    query = parse("QUERY pay")
    assert isinstance(query, Query)
    told: list[tuple[str, int, int]] = []

    machine.remembered.remember(
        Remember(query=query, alias="a", text="QUERY pay"),
        progress=lambda what, done, total: told.append((what, done, total)),
    )

    assert told[-1][0] == "reading pay"
    assert told[-1][1] == told[-1][2] > 0
