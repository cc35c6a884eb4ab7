"""Promise: commands and SQL get the same answers from a server as from an open store."""

from __future__ import annotations

from datetime import UTC, date, datetime

import msgspec
import pyarrow as pa
import pytest

from strandline import Forbidden, Invalid, StrandlineError, UnknownTopic
from strandline.query.execute.result import Result


@pytest.fixture
def pay(store, name):
    store.run(f'DEFINE {name} FIELDS {{ "amount": "i64", "at": "datetime", "who": "string" }}')
    table = store.table(name)
    table.store_many(
        ["a", "b", "a"],
        [
            {"amount": 2**53 + 1, "at": "2026-01-02T03:04:05.678901Z", "who": "ada"},
            {"amount": 2, "at": "2026-01-02", "who": "bob"},
            {"amount": 3, "at": 1_700_000_000, "who": "ä"},
        ],
    )
    return name


def test_a_command_is_answered_in_every_shape(store, pay):
    result = store.run(f"QUERY {pay} WHERE amount > 2 ORDER BY amount RETURN [who, amount, at]")

    assert isinstance(result, Result)
    assert [row["who"] for row in result] == ["ä", "ada"]
    assert result.rows()[1]["amount"] == 2**53 + 1
    assert result.rows()[1]["at"] == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert isinstance(result.arrow(), pa.Table)
    assert len(result) == 2
    assert result.message == "2 rows"
    assert set(result.columns) >= {"who", "amount", "at"}
    assert [row["who"] for row in result.df().to_dict("records")] == ["ä", "ada"]
    assert result.pl()["amount"].to_list() == [3, 2**53 + 1]
    assert result.tuples()[0][result.columns.index("who")] == "ä"
    assert result.schema == result.arrow().schema


def test_nothing_found_is_an_answer(store, pay):
    result = store.run(f"QUERY {pay} WHERE amount > 99999999999999999")

    assert result.rows() == []
    assert result.message == "No matching events found"
    assert "amount" in result.columns


def test_what_a_command_did_is_told(store, name):
    done = store.run(f'DEFINE {name} FIELDS {{ "a": "int" }}')

    assert done.message == f"{name} is defined in version 1"
    assert done.rows() == []
    assert store.run(f'STORE {name} FOR c PAYLOAD {{"a": 1}}').rows()[0]["event"] == name
    assert store.run("PING").message == "PONG"


def test_a_wrong_command_says_where(store, pay):
    with pytest.raises(Invalid) as wrong:
        store.run(f"QUERY {pay} WHERE amuont > 5")

    assert "did you mean 'amount'" in str(wrong.value)
    assert "line 1" in str(wrong.value)


def test_totals_are_whole_numbers_of_any_size(store, pay):
    result = store.run(f"QUERY {pay} TOTAL amount")

    assert list(result.rows()[0].values()) == [2**53 + 1 + 2 + 3]


def test_sql_is_answered(store, pay):
    result = store.sql(
        f"select who, amount from {pay} where amount < $most order by amount",
        params={"most": 100},
    )

    assert [tuple(row) for row in result.tuples()] == [("bob", 2), ("ä", 3)]


def test_sql_takes_parameters_of_many_kinds(store, pay):
    result = store.sql(
        f"select count(*) as n, any_value(?) as b, any_value(?) as t from {pay}",
        params=[b"\0\xff", datetime(2026, 1, 1, tzinfo=UTC)],
    )

    (row,) = result.rows()
    assert (row["n"], row["b"]) == (3, b"\0\xff")
    assert row["t"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_sql_of_the_log_and_of_maps(store, name):
    store.topic(f"{name}-log").append(b"\0\xff", key="k")
    store.kv(f"{name}-kv").put("ada", b"1")

    log = store.sql(f'select seq, key, data from log."{name}-log"').rows()
    entries = store.sql(f'select key, value from kv."{name}-kv"').rows()

    assert log == [{"seq": 1, "key": log[0]["key"], "data": b"\0\xff"}]
    assert len(entries) == 1


def test_the_past_can_be_asked(store, name):
    topic = store.topic(name)
    topic.append(b"1")
    ts = topic.read().records[0].ts
    topic.append(b"2")

    by_seq = store.sql(f"select count(*) as n from log.{name}", as_of={name: 1})
    by_time = store.sql(
        f"select count(*) as n from log.{name}", as_of=datetime.fromtimestamp(ts / 1e6, UTC)
    )
    by_text = store.sql(f"select count(*) as n from log.{name}", as_of="2020-01-01")

    assert by_seq.rows() == [{"n": 1}]
    assert by_time.rows()[0]["n"] in (0, 1)
    assert by_text.rows() == [{"n": 0}]


REFUSED = {
    "no SELECT": (Invalid, lambda store: store.sql("drop table x")),
    "no SQL": (Invalid, lambda store: store.sql("selekt 1")),
    "params of text": (Invalid, lambda store: store.sql("select 1", params="x")),
    "as_of of a date": (Invalid, lambda store: store.sql("select 1", as_of=date(2020, 1, 1))),
    "as_of of nothing": (Invalid, lambda store: store.sql("select 1", as_of=object())),
    "no command": (Invalid, lambda store: store.run("FLY")),
    "empty": (Invalid, lambda store: store.run("")),
    "unknown event": (Invalid, lambda store: store.run("QUERY nothing_here")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(store, what):
    kind, verb = REFUSED[what]

    with pytest.raises(StrandlineError) as refused:
        verb(store)

    assert isinstance(refused.value, kind)
    assert refused.value.code == kind.code


def test_an_unknown_relation_is_refused(store):
    with pytest.raises((Invalid, UnknownTopic, Forbidden)):
        store.sql("select * from log.nothing_here")


def test_a_query_is_remembered(store, pay):
    alias = f"r{pay}"

    told = store.run(f"REMEMBER QUERY {pay} WHERE amount < 3 AS {alias}")

    assert told.rows()[0]["alias"] == alias
    assert [row["who"] for row in store.run(f"SHOW {alias}")] == ["bob"]


ALONE = (
    "QUERY {} ORDER BY amount",
    "QUERY {} RETURN [who]",
    "QUERY {} WHERE amount > 99999999999999999",
    "QUERY {} TOTAL amount BY who",
    "REPLAY {} FOR a",
    "PLOT TOTAL(amount) OF {} OVER day(at)",
    "SHOW r{}",
    "DELETE {} WHERE amount = 5",
    "FLUSH",
    "PING",
)


def test_every_command_of_a_batch_has_the_result_that_it_has_alone(store, pay):
    store.run(f"REMEMBER QUERY {pay} AS r{pay}")
    texts = [text.format(pay) for text in ALONE]

    batch = store.run(f"BATCH [{'; '.join(texts)}]")

    assert batch.message == f"{len(texts)} commands done"
    assert [row["command"] for row in batch] == texts
    assert batch.columns == ["command", "message"]
    assert len(batch.results) == len(texts)
    for text, row, one in zip(texts, batch, batch.results, strict=True):
        alone = store.run(text)
        assert one.arrow().equals(alone.arrow()), text
        assert one.schema.equals(alone.schema), text
        assert one.message == alone.message == row["message"], text
        assert _drawn(one) == _drawn(alone), text
        assert one.results == alone.results == (), text


def _drawn(result):
    chart = getattr(result, "chart", None)
    return getattr(chart, "vega", chart)


def test_what_a_batch_did_before_it_failed_is_in_its_error(store, pay):
    query = f"QUERY {pay} WHERE amount < 4 ORDER BY amount RETURN [amount, at]"
    alone = store.run(query)

    with pytest.raises(Invalid, match="nothing_here") as refused:
        store.run(f"BATCH [{query}; PING; QUERY nothing_here; PING]")

    query_result, pong = refused.value.results
    assert query_result.arrow().equals(alone.arrow())
    assert pong.message == "PONG"
    assert "2 commands" in refused.value.__notes__[0]


def test_an_error_outside_of_a_batch_has_no_results(store):
    with pytest.raises(Invalid) as refused:
        store.run("QUERY nothing_here")

    assert refused.value.results == ()


def test_values_that_do_not_fit_their_column_are_told_with_the_answer(store, name):
    topic = store.topic(name, schema={"price": "f64", "n": "u64", "at": "datetime"})
    values = [1.5, "2,50", None, True, [1], 2, "x" * 100]
    for place, price in enumerate(values):
        at = "never" if place > 4 else place
        topic.append(msgspec.json.encode({"price": price, "n": place - 1, "at": at}))
    topic.append(b"no json")

    found = store.sql(f"select sum(price) s, count(n) c from {name}")
    fits = store.sql(f"select count(*) c from {name} where seq < 2")
    other = store.sql(f"select count(n) from {name} where seq > 2")

    assert found.rows() == [{"s": 3.5, "c": 6}]
    assert found.notes == (
        f'4 values of {name}.price are not f64 and are null here, the first is "2,50" of seq 2',
        f"1 value of {name}.n is not u64 and is null here: -1 of seq 1",
    )
    assert (fits.notes, other.notes) == ((), ())
    long = store.sql(f"select price from {name} where seq = 7").notes[0]
    assert long.endswith("x… of seq 7")
    assert store.run("PING").notes == ()
