"""Promise: a question is asked only when every name and literal in it can mean something."""

from __future__ import annotations

import msgspec
import pytest

from strandline.query.language.ast import Name, Query
from strandline.query.language.binding import bind
from strandline.query.language.bound_ast import BoundAggregate, BoundQuery, BoundStep, Column
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.query.language.periods import Calendar
from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, In, Not, Or, Truth, encode

DAY_US = 86_400_000_000
SCHEMAS = {
    "pay": Schema(
        1,
        {
            "amount": "f64",
            "n": "u64 | null",
            "i": "i64",
            "cur": '["EUR","USD"]',
            "note": "string | null",
            "at": "datetime | null",
            "day": "date",
            "ok": "bool",
            "user": "i64",
        },
    ),
    "view": Schema(
        3, {"page": "string", "user": "u64", "at": "datetime", "ok": "bool", "cur": "string"}
    ),
    "visit": Schema(1, {"user": "string", "timestamp": "datetime"}),
    "a": Schema(1, {"x": "f64"}),
    "a2": Schema(1, {"x": "f64", "y": "f64"}),
}


def bound(text: str, **options) -> BoundQuery:
    command = parse(text)
    return bind(command, SCHEMAS.get, text, events=SCHEMAS, **options)


def where(condition: str, event: str = "pay"):
    return bound(f"QUERY {event} WHERE {condition}").events[0].where


def mistake(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        bound(text)
    return caught.value


def test_events_of_a_sequence_that_differ_by_capitals_alone_are_refused():
    schemas = {"pay": SCHEMAS["a"], "Pay": SCHEMAS["a"]}
    text = "QUERY pay FOLLOWED BY Pay"

    with pytest.raises(QueryError, match="differ only in case") as caught:
        bind(parse(text), schemas.get, text, events=schemas)

    assert caught.value.at == 22
    assert len(bound("QUERY a FOLLOWED BY a").events) == 2


def test_without_return_all_columns_are_shown_those_of_every_table_first():
    found = bound("QUERY view")

    assert found.names == ("seq", "ts", "context", "page", "user", "at", "ok", "cur")
    assert found.columns[3] == Column(0, "page", "page")
    assert bound("QUERY view RETURN []") == found
    assert (found.kind, found.link, found.steps, found.time) == ("query", None, (), ("ts",))


def test_return_shows_what_was_named_in_that_order():
    assert bound("QUERY pay RETURN [note, seq, pay.amount]").columns == (
        Column(0, "note", "note"),
        Column(0, "seq", "seq"),
        Column(0, "amount", "amount"),
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("amount = 5", Compare("amount", "=", 5.0)),
        ("amount < -0.5", Compare("amount", "<", -0.5)),
        ("n = 5", Compare("n", "=", 5)),
        ("n = 5.0", Compare("n", "=", 5)),
        ("n > 1.5", Compare("n", ">=", 2)),
        ("n >= 1.5", Compare("n", ">=", 2)),
        ("n < 1.5", Compare("n", "<=", 1)),
        ("n <= 1.5", Compare("n", "<=", 1)),
        ("i > -1.5", Compare("i", ">=", -1)),
        ("i < -1.5", Compare("i", "<=", -2)),
        ("n > -0.5", Compare("n", ">=", 0)),
        ("n = 18446744073709551615", Compare("n", "=", 2**64 - 1)),
        ("i = -9223372036854775808", Compare("i", "=", -(2**63))),
        ("n = null", Compare("n", "=", None)),
        ("amount != null", Compare("amount", "!=", None)),
        ("cur = EUR", Compare("cur", "=", "EUR")),
        ('note > "5"', Compare("note", ">", "5")),
        ("ok = false", Compare("ok", "=", False)),
        ("ok", Truth("ok")),
        ("NOT ok", Not(Truth("ok"))),
        ("at >= 1970-01-02", Compare("at", ">=", DAY_US)),
        ("at >= 1", Compare("at", ">=", 1_000_000)),
        ('day = "1970-01-02T23:00:00Z"', Compare("day", "=", 1)),
        ("day IN (1970-01-02, 0)", In("day", (1, 0))),
        ("seq > 10", Compare("seq", ">", 10)),
        ("ts < 1", Compare("ts", "<", 1_000_000)),
        ("timestamp < 1", Compare("ts", "<", 1_000_000)),
        ("context = x", Compare("context", "=", "x")),
        ("pay.n IN (1, 2.0)", In("n", (1, 2))),
        ("n IN (1, null)", Or((In("n", (1,)), Compare("n", "=", None)))),
        ("n IN (null)", Compare("n", "=", None)),
    ],
)
def test_a_literal_becomes_a_value_of_its_field(condition, expected):
    found = where(condition)

    assert found == expected
    assert encode(found) == encode(expected)  # 5 is not 5.0 there


@pytest.mark.parametrize(
    ("condition", "message", "hint"),
    [
        ('amount = "x"', "amount is f64, not text: 'x'", ""),
        ('amount = "5"', "amount is f64, not text: '5'", "without quotes"),
        ("amount = true", "amount is f64, not a bool: true", ""),
        ("amount = 1" + "0" * 350, "out of its range", ""),
        ("n = EUR", "n is u64 | null, not text", ""),
        ("n = 1.5", "cannot be 1.5", "whole numbers"),
        ("n != 1.5", "cannot be 1.5", "whole numbers"),
        ("n IN (1, 1.5)", "cannot be 1.5", ""),
        ("n = -1", "cannot be -1", "from 0 to 18446744073709551615"),
        ("n < -0.5", "cannot be -1", ""),
        ("i = 9223372036854775808", "cannot be", "from -9223372036854775808"),
        ("note = 5", "not a number: 5", 'write "5"'),
        ("note = true", "not a bool: true", 'write "true"'),
        ("cur = eur", "'eur' is not a value of cur", "did you mean 'EUR'? it is EUR or USD"),
        ("cur != JPY", "'JPY' is not a value of cur", "it is EUR or USD"),
        ("cur IN (EUR, JPY)", "'JPY' is not a value of cur", ""),
        ("cur < EUR", "which has no order", "use =, != or IN"),
        ("ok < true", "which has no order", ""),
        ("ok = 1", "ok is bool, not a number: 1", "write true or false"),
        ("at > soon", "'soon' is not a time", ""),
        ("at > true", "not a bool", ""),
        ("day = 2026-13-01", "is not a time", ""),
        ("amount", "amount is f64, not bool", "compare it"),
        ("amuont = 5", "pay has no field 'amuont'", "did you mean 'amount'?"),
        ("Amount = 5", "pay has no field 'Amount'", "did you mean 'amount'?"),
        ("zzz = 5", "pay has no field 'zzz'", "its fields are: seq, ts, context, amount"),
        ("pay.zzz = 5", "pay has no field 'zzz'", ""),
        ("view.page = x", "'view' is not an event of this query", "its events are: pay"),
    ],
)
def test_a_condition_that_cannot_be_is_a_mistake_at_its_place(condition, message, hint):
    error = mistake(f"QUERY pay WHERE ok AND NOT {condition}")

    assert message in error.message
    assert hint in error.hint
    assert error.at == len("QUERY pay WHERE ok AND NOT ")


@pytest.mark.parametrize(
    ("text", "at", "message", "hint"),
    [
        ("QUERY pya", 6, "unknown event 'pya'", "did you mean 'pay'?"),
        ("QUERY pay FOLLOWED BY veiw", 22, "unknown event 'veiw'", "'view'"),
        ("DELETE pya", 7, "unknown event", ""),
        ("REPLAY pya FOR x", 7, "unknown event", ""),
        ("QUERY pay RETURN [amount, zzz]", 26, "no field 'zzz'", ""),
        ("QUERY pay ORDER BY zzz", 19, "no field 'zzz'", ""),
        ("QUERY pay COUNT BY zzz", 19, "no field 'zzz'", ""),
        ("QUERY pay COUNT UNIQUE zzz", 23, "no field 'zzz'", ""),
        ("QUERY pay USING zzz", 16, "no field 'zzz'", ""),
        ("QUERY pay FOLLOWED BY view LINKED BY n", 37, "view has no field 'n'", ""),
        ("QUERY pay FOLLOWED BY view LINKED BY pay.ok", 37, "that every event has", ""),
        ("QUERY view FOLLOWED BY visit LINKED BY user", 39, "cannot link events", ""),
        ("QUERY pay LINKED BY n", 20, "LINKED BY requires a sequence", "FOLLOWED BY"),
        ("QUERY pay TOTAL note", 16, "TOTAL requires a number, but note is string", ""),
        ("QUERY pay AVG ok", 14, "AVG requires a number", ""),
        ("QUERY pay AVG ts", 14, "AVG requires a number", ""),
        ("QUERY pay MAX cur", 14, "MAX requires an order", ""),
        ("QUERY pay MIN ok", 14, "MIN requires an order", ""),
        ("QUERY pay USING note", 16, "not a time", "time fields of pay are ts, at and day"),
        ("QUERY pay COUNT PER DAY USING amount", 30, "not a time", ""),
        ("QUERY pay FOLLOWED BY view USING pay.at", 33, "USING applies to every event", ""),
        ("QUERY pay FOLLOWED BY view USING day", 33, "view has no field 'day'", ""),
        ("QUERY pay OFFSET 5", 10, "OFFSET requires LIMIT", "add LIMIT"),
        ("QUERY pay SINCE soon", 16, "'soon' is not a time", ""),
        ("QUERY pay SINCE 2026-01-02T03:04:05", 16, "is not a time", ""),
        ("REPLAY pay FOR x SINCE soon", 23, "'soon' is not a time", ""),
        ("QUERY pay COUNT RETURN [amount]", 24, "RETURN is not allowed with aggregates", ""),
        ("QUERY pay COUNT RETURN []", 6, "RETURN is not allowed with aggregates", ""),
        ("QUERY pay BY cur", 13, "BY requires an aggregate", "add COUNT"),
        ("QUERY pay PER DAY", 6, "PER requires an aggregate", ""),
        ("QUERY pay COUNT ORDER BY amount", 25, "no column of the result", "'count'"),
        ("QUERY pay COUNT BY cur ORDER BY note", 32, "no column", "cur and count"),
        ("QUERY pay COUNT, COUNT", 6, "two columns of the result have the name 'count'", ""),
        ("QUERY pay RETURN [n, n]", 21, "two columns of the result have the name 'n'", ""),
        ("QUERY pay COUNT BY cur, cur", 24, "two columns", ""),
        ("QUERY pay FOLLOWED BY view WHERE ok", 33, "several events", "pay.ok or view.ok"),
        ("QUERY pay FOLLOWED BY view WHERE ts > 5", 33, "several events", ""),
        ("QUERY pay FOLLOWED BY view RETURN [at]", 35, "several events", ""),
        ("QUERY pay FOLLOWED BY view ORDER BY seq", 36, "several events", ""),
        ("QUERY pay FOLLOWED BY view MAX at", 31, "several events", ""),
        ("QUERY pay FOLLOWED BY view COUNT BY cur", 36, "several events", ""),
        ("QUERY a FOLLOWED BY a WHERE x > 1", 28, "several events", "a.x or a2.x"),
        ("QUERY pay FOLLOWED BY view WHERE pge = x", 33, "have no field", "'view.page'"),
        ("REPLAY FOR x RETURN [zzz]", 21, "no event has a field 'zzz'", ""),
        ("REPLAY FOR x USING amount", 19, "no event has a time field 'amount'", ""),
    ],
)
def test_what_cannot_be_asked_is_a_mistake_at_its_place(text, at, message, hint):
    error = mistake(text)

    assert message in error.message
    assert hint in error.hint
    assert error.at == at


def test_a_command_that_was_not_parsed_is_checked_too():
    for wrong in (Query(event=Name("pay"), limit=-1), Query(event=Name("pay"), limit=1, offset=-1)):
        with pytest.raises(QueryError, match="whole number >= 0"):
            bind(wrong, SCHEMAS.get)
    with pytest.raises(QueryError, match="unknown event 'zzz'"):
        bind(Query(event=Name("zzz")), SCHEMAS.get)


def test_for_since_and_where_hold_together():
    found = bound("QUERY pay WHERE ok FOR acct-9 SINCE 5")

    assert found.events[0].where == And(
        (Compare("context", "=", "acct-9"), Compare("ts", ">=", 5_000_000), Truth("ok"))
    )


def test_since_goes_by_the_time_that_using_names():
    found = bound("QUERY pay SINCE 1970-01-03 USING at")
    by_day = bound("QUERY pay SINCE 1970-01-03T12:00:00Z USING day")

    assert found.time == ("at",)
    assert found.events[0].where == Compare("at", ">=", 2 * DAY_US)
    assert by_day.events[0].where == Compare("day", ">=", 2)


def test_rows_without_the_time_that_using_names_are_left_out():
    assert bound("QUERY pay USING at").events[0].where == Compare("at", "!=", None)
    assert bound("QUERY view USING at").events[0].where is None


def test_an_own_field_called_timestamp_goes_before_the_alias():
    found = bound("QUERY visit WHERE timestamp > 1 RETURN [timestamp]")

    assert found.columns == (Column(0, "timestamp", "timestamp"),)
    assert found.events[0].where == Compare("timestamp", ">", 1_000_000)
    assert bound("QUERY pay RETURN [timestamp]").columns == (Column(0, "ts", "timestamp"),)


def test_aggregates_are_the_result():
    found = bound("QUERY pay COUNT, COUNT note, TOTAL amount, MAX at PER DAY BY cur, ok USING day")

    assert found.names == (
        *("bucket", "cur", "ok", "count", "count_note", "total_amount", "max_at"),
    )
    assert found.columns == ()
    assert found.per == "DAY"
    assert found.by == (Column(0, "cur", "cur"), Column(0, "ok", "ok"))
    assert found.aggregates[0] == BoundAggregate(function="count", column=None, name="count")
    assert found.aggregates[2].column == Column(0, "amount", "amount")


@pytest.mark.parametrize("name", ["count", "COUNT", "cur", "bucket", "total_amount"])
def test_aggregates_are_ordered_by_a_column_of_the_result(name):
    text = f"QUERY pay COUNT, TOTAL amount BY cur PER DAY ORDER BY {name} DESC LIMIT 3 OFFSET 1"

    found = bound(text)

    assert found.order_by == Column(-1, "", name.lower())
    assert (found.descending, found.limit, found.offset) == (True, 3, 1)


def test_rows_are_ordered_by_any_column():
    assert bound("QUERY pay RETURN [n] ORDER BY note").order_by == Column(0, "note", "note")
    assert bound("QUERY pay").order_by is None


def test_a_sequence_shows_each_column_with_its_event():
    found = bound("QUERY view FOLLOWED BY a WITHIN 5m PRECEDED BY a2")

    assert found.link == "context"
    assert found.steps == (
        BoundStep(direction="followed", within_us=300_000_000),
        BoundStep(direction="preceded"),
    )
    assert found.names[:4] == ("view.seq", "view.ts", "view.context", "view.page")
    assert found.names[-5:] == ("a2.seq", "a2.ts", "a2.context", "a2.x", "a2.y")


def test_where_of_a_sequence_goes_to_the_event_it_is_about():
    found = bound(
        'QUERY view FOLLOWED BY pay WHERE page = "/" AND NOT (view.ok OR pay.ok)'
        " AND (amount > 1 OR n = 2) AND (page = x OR amount > 5)"
    )

    view, pay = found.events
    assert view.where == And((Compare("page", "=", "/"), Not(Truth("ok"))))
    assert pay.where == And(
        (
            Not(Truth("ok")),
            Or((Compare("amount", ">", 1.0), Compare("n", "=", 2))),
        )
    )
    assert found.cross == Or(
        (Compare("page", "=", "x", "view"), Compare("amount", ">", 5.0, "pay"))
    )


def test_double_negation_and_not_of_an_and_keep_their_meaning():
    found = bound("QUERY view FOLLOWED BY pay WHERE NOT NOT view.ok AND NOT (view.ok AND pay.ok)")

    assert found.events[0].where == Truth("ok")
    assert found.cross == Not(And((Truth("ok", "view"), Truth("ok", "pay"))))


def test_for_and_since_hold_for_every_event_of_a_sequence():
    found = bound("QUERY view FOLLOWED BY pay FOR x SINCE 5 USING at")

    expected = And((Compare("context", "=", "x"), Compare("at", ">=", 5_000_000)))
    assert [event.where for event in found.events] == [expected, expected]
    assert found.time == ("at", "at")


def test_the_link_needs_no_event_and_holds_for_all():
    found = bound(
        "QUERY view FOLLOWED BY pay LINKED BY user WHERE user = 7 AND (user = 8 OR amount > 1)"
        " AND (user = 9 OR amount > 1 OR page = x) RETURN [user]"
    )

    view, pay = found.events
    assert view.where == Compare("user", "=", 7)
    assert pay.where == And(
        (Compare("user", "=", 7), Or((Compare("user", "=", 8), Compare("amount", ">", 1.0))))
    )
    assert found.cross.of[0] == Compare("user", "=", 9, "view")
    assert found.columns == (Column(0, "user", "view.user"),)
    assert found.link == "user"


def test_text_and_enum_link_but_a_literal_must_fit_each():
    found = bound("QUERY view FOLLOWED BY pay LINKED BY cur WHERE cur = EUR")

    assert [event.where for event in found.events] == [Compare("cur", "=", "EUR")] * 2
    assert (
        "'x' is not a value of cur"
        in mistake("QUERY view FOLLOWED BY pay LINKED BY cur WHERE cur = x").message
    )


def test_the_same_event_again_is_called_with_a_number():
    found = bound("QUERY a FOLLOWED BY a FOLLOWED BY a WHERE a.x = 1 AND a2.x = 2 AND a3.x = 3")

    assert [event.called for event in found.events] == ["a", "a2", "a3"]
    assert [event.name for event in found.events] == ["a", "a", "a"]
    assert [event.where.value for event in found.events] == [1.0, 2.0, 3.0]


def test_the_number_is_not_that_of_another_event():
    found = bound("QUERY a FOLLOWED BY a FOLLOWED BY a2 WHERE y = 1 AND a2.x = 2 AND a3.x = 3")

    assert [event.called for event in found.events] == ["a", "a3", "a2"]
    assert found.events[1].where == Compare("x", "=", 3.0)


def test_aggregates_of_a_sequence_are_named_with_their_event():
    found = bound(
        "QUERY view FOLLOWED BY pay COUNT, TOTAL amount BY page PER WEEK ORDER BY total_pay.amount"
    )

    assert found.names == ("bucket", "view.page", "count", "total_pay.amount")
    assert found.order_by.name == "total_pay.amount"
    by_page = bound("QUERY view FOLLOWED BY pay COUNT BY page ORDER BY page")
    assert by_page.order_by.name == "view.page"


def test_a_replay_is_of_one_event_or_of_all():
    one = bound("REPLAY view FOR x RETURN [view.page]")
    every = bound("REPLAY FOR x")

    assert (one.kind, one.names) == ("replay", ("page",))
    assert [event.name for event in every.events] == sorted(SCHEMAS)
    assert {event.where for event in every.events} == {Compare("context", "=", "x")}
    assert every.names[:5] == ("seq", "ts", "context", "x", "y")
    assert len(set(every.names)) == len(every.names)


def test_a_replay_of_all_events_by_a_time_is_of_those_that_have_it():
    found = bound("REPLAY FOR x SINCE 5 USING at RETURN [amount, page]")

    assert [event.name for event in found.events] == ["pay", "view"]
    assert found.time == ("at", "at")
    assert found.columns == (Column(0, "amount", "amount"), Column(1, "page", "page"))


def test_a_replay_where_there_are_no_events_says_so():
    with pytest.raises(QueryError, match="no events are defined yet"):
        bind(parse("REPLAY FOR x"), SCHEMAS.get)


def test_a_delete_is_of_what_for_and_where_say():
    found = bound("DELETE pay FOR x WHERE n = 1.0")

    assert found.kind == "delete"
    assert found.events[0].where == And((Compare("context", "=", "x"), Compare("n", "=", 1)))
    assert bound("DELETE pay").events[0].where is None


def test_a_metric_asks_for_pairs_when_it_names_a_second_event():
    plot = parse("PLOT COUNT OF view THEN pay FILTER page = x")

    found = bind(plot.metrics[0], SCHEMAS.get)

    assert (found.link, found.names) == ("context", ("count",))
    assert found.steps == (BoundStep(direction="followed"),)
    assert found.events[0].where == Compare("page", "=", "x")


def test_a_bound_question_can_be_encoded_with_its_calendar():
    calendar = Calendar("Europe/Berlin", "sunday")
    found = bound(
        "QUERY view FOLLOWED BY pay COUNT, MAX amount PER DAY BY page"
        " WHERE page = x OR amount > 1 ORDER BY count LIMIT 5 OFFSET 2",
        calendar=calendar,
    )

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=BoundQuery)

    assert again == found
    assert again.calendar == calendar


def test_places_of_the_text_do_not_stay():
    found = bound("QUERY view FOLLOWED BY pay WHERE page = x AND (view.ok OR pay.ok)")

    assert b'"at":' not in encode(found.events[0].where) + encode(found.cross)
