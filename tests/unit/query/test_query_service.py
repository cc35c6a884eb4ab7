"""Promise: a command of the language does what it says to a store, or is refused whole.

What each clause means is tested where it is written; here is the whole way, from text to rows and
back from the disk.
"""

from __future__ import annotations

import random

import pytest

from strandline.config.settings import LimitSettings
from strandline.errors import Conflict, Forbidden, Invalid, NotFound
from strandline.query.language.errors import QueryError
from strandline.testing.crash_choices import Oldest
from tests.unit.store.world import World

DEFINE = (
    'DEFINE pay FIELDS {amount: "float", cur: ["EUR","USD"], at: "datetime", note: "string | null"}'
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def run(world):
    world.store.run(DEFINE)
    return world.store.run


def store_some(run, first: int, last: int) -> None:
    for n in range(first, last + 1):
        currency = "EUR" if n % 2 else "USD"
        run(
            f'STORE pay FOR acct-{n % 3} PAYLOAD {{"amount": {n}, "cur": "{currency}", '
            f'"at": "2026-01-{n:02}"}}'
        )


def amounts(result) -> list[float]:
    return [row["amount"] for row in result]


@pytest.mark.parametrize("state", ["memory", "files", "mixed", "restarted"])
def test_a_query_has_the_same_answer_wherever_rows_are(world, run, state):
    store_some(run, 1, 10)
    if state != "memory":
        run("FLUSH")
    if state == "mixed":
        store_some(run, 11, 12)
    if state == "restarted":
        world.kill()
    last = 12 if state == "mixed" else 10

    result = world.store.run('QUERY pay WHERE cur = "EUR" AND NOT amount < 3 ORDER BY amount DESC')

    assert amounts(result) == [float(n) for n in range(last, 2, -1) if n % 2]


def test_limit_goes_over_memory_and_files(run):
    store_some(run, 1, 5)
    run("FLUSH")
    store_some(run, 6, 9)

    result = run("QUERY pay ORDER BY amount LIMIT 3 OFFSET 4")

    assert amounts(result) == [5.0, 6.0, 7.0]


def test_nothing_found_says_so(run):
    result = run("QUERY pay WHERE amount > 99")

    assert len(result) == 0
    assert result.message == "No matching events found"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ('STORE pay FOR a PAYLOAD {"amount": 1, "cur": "EUR"}', "at"),
        ('STORE pay FOR a PAYLOAD {"amount": 1, "cur": "eur", "at": 5}', "cur"),
        ('STORE pay FOR a PAYLOAD {"amount": "1", "cur": "EUR", "at": 5}', "amount"),
        ('STORE pay FOR a PAYLOAD {"amount": 1, "cur": "EUR", "at": 5, "x": 1}', "x"),
        ('STORE pay FOR a PAYLOAD {"amount": 1, "cur": "EUR", "at": "soon"}', "at"),
        ('STORE buy FOR a PAYLOAD {"amount": 1}', "buy"),
        ("QUERY pay WHERE amout = 1", "amout"),
        ('QUERY pay WHERE amount = "much"', "amount"),
        ('QUERY pay WHERE cur = "eur"', "cur"),
        ("QUERY pay SINCE soon", "soon"),
        ("QUERY pay OFFSET 2", "OFFSET"),
        ("QUERY pay RETURN [amount, nothing]", "nothing"),
        ("QUERY buy", "buy"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_name_and_stores_nothing(run, command, named):
    with pytest.raises(Invalid, match=named):
        run(command)

    assert run("QUERY pay COUNT").rows() == [{"count": 0}]


def test_a_mistake_shows_its_place(run):
    with pytest.raises(QueryError) as caught:
        run("QUERY pay\nWHERE amout = 1")

    lines = str(caught.value).splitlines()
    assert "line 2" in lines[0]
    assert lines[2].index("^") == lines[1].index("amout")


def test_a_definition_may_grow_and_not_shrink(run):
    store_some(run, 1, 2)

    grown = run(DEFINE.replace('"USD"]', '"USD","CHF"]'))
    with pytest.raises(Invalid, match="cur"):
        run(DEFINE)

    assert "version 2" in grown.message
    assert amounts(run("QUERY pay ORDER BY amount")) == [1.0, 2.0]


def test_deleted_events_are_gone_at_once_and_later_ones_stay(run):
    store_some(run, 1, 6)
    run("FLUSH")

    deleted = run("DELETE pay WHERE amount <= 4").rows()
    store_some(run, 2, 2)

    assert deleted == [{"deleted": 4}]
    assert amounts(run("QUERY pay ORDER BY amount")) == [2.0, 5.0, 6.0]


def test_delete_without_condition_takes_all(run):
    store_some(run, 1, 3)

    run("DELETE pay")

    assert run("QUERY pay COUNT").rows() == [{"count": 0}]


def test_a_replay_goes_over_all_events_of_a_context_in_order(world, run):
    run('DEFINE view FIELDS {page: "string"}')
    run('STORE view FOR acct-1 PAYLOAD {"page": "/a"}')
    world.clock.advance(1)
    store_some(run, 1, 4)
    world.clock.advance(1)
    run('STORE view FOR acct-1 PAYLOAD {"page": "/b"}')

    result = run("REPLAY FOR acct-1")

    assert [row["event"] for row in result] == ["view", "pay", "pay", "view"]


def test_a_remembered_query_is_brought_up_to_date(world, run):
    store_some(run, 1, 4)
    run("REMEMBER QUERY pay WHERE amount > 2 AS big")
    store_some(run, 5, 6)
    first = amounts(run("SHOW big"))

    world.kill()

    assert sorted(first) == [3.0, 4.0, 5.0, 6.0]
    assert sorted(amounts(world.store.run("SHOW big"))) == sorted(first)


def test_a_remembered_query_forgets_what_was_deleted(run):
    store_some(run, 1, 4)
    run("REMEMBER QUERY pay COUNT BY cur AS sums")

    run('DELETE pay WHERE cur = "EUR"')

    assert run("SHOW sums").tuples() == [("USD", 2)]


def test_aliases_are_given_once_and_known(run):
    run("REMEMBER QUERY pay AS all")

    with pytest.raises((Invalid, Conflict), match="all"):
        run("REMEMBER QUERY pay AS all")
    with pytest.raises((Invalid, NotFound), match="nothing"):
        run("SHOW nothing")


def test_a_batch_ends_with_the_first_command_that_is_refused(run):
    good = '{"amount": 1, "cur": "EUR", "at": 5}'

    with pytest.raises(Invalid):
        run(f"BATCH [STORE pay FOR a PAYLOAD {good}; STORE pay FOR a PAYLOAD {{}}; PING]")

    assert run("QUERY pay COUNT").rows() == [{"count": 1}]


def test_explain_tells_zones_and_time(run):
    store_some(run, 1, 9)
    run("FLUSH")

    text = run("EXPLAIN QUERY pay WHERE amount > 100").message

    assert "zones" in text
    assert "amount" in text


def test_a_plot_is_a_chart_with_its_data(run):
    store_some(run, 1, 9)

    result = run("PLOT COUNT OF pay BREAKDOWN BY cur")

    assert {row["group"]: row["value"] for row in result} == {"EUR": 5, "USD": 4}
    assert result.chart.vega["data"]["values"]


def test_users_may_do_what_was_granted(world, run):
    run('DEFINE secret FIELDS {x: "int"}')
    run("CREATE USER bob")
    ask = world.store.queries.run

    with pytest.raises(Forbidden):
        ask("QUERY pay", user="bob")
    run("GRANT READ ON pay TO bob")

    assert len(ask("QUERY pay", user="bob")) == 0
    with pytest.raises(Forbidden):
        ask("QUERY secret", user="bob")
    with pytest.raises(Forbidden):
        ask('STORE pay FOR a PAYLOAD {"amount": 1, "cur": "EUR", "at": 5}', user="bob")


def test_sql_joins_tables_with_other_views(world, run):
    store_some(run, 1, 6)
    world.store.kv("people").put("acct-1", b"Ada")

    result = world.store.sql(
        "select count(*) as n from pay p join people k on k.key = p.context where p.amount > 1"
    )

    assert result.rows() == [{"n": 1}]


def test_sql_sees_remembered_queries(world, run):
    store_some(run, 1, 6)
    run("REMEMBER QUERY pay WHERE amount > 2 AS big")

    result = world.store.sql("select max(amount) as most from remembered.big")

    assert result.rows() == [{"most": 6.0}]


def test_a_read_only_store_is_asked_and_not_changed(world, run):
    store_some(run, 1, 4)
    world.store.sync()

    with world.open(readonly=True) as reader:
        found = amounts(reader.run("QUERY pay ORDER BY amount"))
        with pytest.raises(Invalid, match="read-only"):
            store_some(reader.run, 5, 5)

    assert found == [1.0, 2.0, 3.0, 4.0]


def test_what_is_remembered_fits_into_the_records_of_a_store_with_small_ones():
    world = World(limits=LimitSettings(record_bytes_max=4096))
    run = world.store.run
    run('DEFINE note FIELDS {text: "string"}')
    chance = random.Random(1)
    for _ in range(40):
        run(f'STORE note FOR ada PAYLOAD {{"text": "{chance.randbytes(250).hex()}"}}')

    run("REMEMBER QUERY note AS notes")

    assert len(run("SHOW notes")) == 40
    records = world.store.topic("remembered:notes").read(0, 100).records
    assert max(len(record.data) for record in records) <= 4096


def test_a_revoked_key_stays_so_through_a_power_loss(world, run):
    key = run("CREATE USER ann").rows()[0]["key"]
    world.store.sync()
    run("REVOKE KEY ann")

    world.disk.power_off()
    world.disk = world.disk.crash(Oldest())
    world.store.close()
    world.store = world.open()

    with pytest.raises(Forbidden):
        world.store.queries.users.authenticate("ann", key)
