"""Promise: text is read as the header of parsing.py says; an error points to its place."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.query.language import parser
from strandline.query.language.ast import (
    Aggregate,
    BatchCommand,
    CreateUser,
    Define,
    DeleteEvents,
    Explain,
    Flush,
    Forget,
    Grant,
    ListUsers,
    Metric,
    Name,
    Ping,
    Plot,
    Query,
    Remember,
    ReplayCommand,
    Revoke,
    RevokeKey,
    Show,
    ShowPermissions,
    Step,
    StoreEvent,
)
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.views.table.condition import And, Compare, In, Not, Or, Truth

MINUTE_US = 60_000_000
DAY_US = 86_400_000_000


def where(condition: str):
    return parse(f"QUERY a WHERE {condition}").where


def mistake(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value


def test_keywords_are_the_same_in_small_and_capital_letters():
    text = "QUERY pay WHERE amount > 5 AND ok ORDER BY amount DESC LIMIT 3"

    assert parse(text) == parse("query pay where amount > 5 and ok order by amount desc limit 3")


def test_find_is_query():
    assert parse("FIND  pay") == Query(event=Name("pay", 6))


def test_clauses_come_in_any_order():
    first = parse("QUERY a LIMIT 5 FOR c WHERE x SINCE 7 ORDER BY x RETURN [x] OFFSET 1 USING t")
    second = parse("QUERY a USING t OFFSET 1 RETURN [x] ORDER BY x SINCE 7 WHERE x FOR c LIMIT 5")

    for query in (first, second):
        assert (query.limit, query.offset, query.context, query.since) == (5, 1, "c", 7)
        assert query.using.text == "t"
        assert [name.text for name in query.returning] == ["x"]
        assert query.order_by.text == "x"
        assert query.where.field == "x"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("QUERY a LIMIT 1 LIMIT 2", 16),
        ("QUERY a WHERE x WHERE y", 16),
        ("QUERY a FOR b FOR c", 14),
        ("QUERY a RETURN [x] RETURN [y]", 19),
        ("QUERY a USING t PER DAY COUNT USING u", 30),
        ("QUERY a FOLLOWED BY b LINKED BY x LINKED BY y", 34),
        ("DELETE a FOR b FOR c", 15),
        ("REPLAY FOR b SINCE 1 SINCE 2", 21),
        ("REMEMBER QUERY a AS b KEEP 1 ROWS KEEP 2 ROWS", 34),
        ("PLOT COUNT OF a OVER day OVER day", 25),
        ("PLOT COUNT OF a FILTER x FILTER y", 25),
        ('CREATE USER a WITH KEY "12345678" WITH KEY "12345678"', 34),
    ],
)
def test_a_clause_given_twice_is_an_error_that_says_so(text, at):
    error = mistake(text)

    assert "given twice" in error.message
    assert error.at == at


def test_the_same_using_may_be_repeated():
    assert parse("QUERY a SINCE 1 USING t COUNT PER DAY USING t").using == Name("t", 22)


def test_aggregates_without_a_comma_are_an_error_that_says_so():
    assert "commas" in mistake("QUERY a COUNT AVG x").message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 5", Compare("x", "=", 5, "", 14)),
        ("x=5", Compare("x", "=", 5, "", 14)),
        ("x != -5", Compare("x", "!=", -5, "", 14)),
        ("x<-5", Compare("x", "<", -5, "", 14)),
        ("x >= 1.5e3", Compare("x", ">=", 1500.0, "", 14)),
        ("x = true", Compare("x", "=", True, "", 14)),
        ("x = FALSE", Compare("x", "=", False, "", 14)),
        ("x = null", Compare("x", "=", None, "", 14)),
        ("x != NULL", Compare("x", "!=", None, "", 14)),
        ("x = EUR", Compare("x", "=", "EUR", "", 14)),
        ("x = user-7", Compare("x", "=", "user-7", "", 14)),
        ("x = 7a", Compare("x", "=", "7a", "", 14)),
        ("x = /buy", Compare("x", "=", "/buy", "", 14)),
        ("x = 2026-01-02T03:04:05Z", Compare("x", "=", "2026-01-02T03:04:05Z", "", 14)),
        ('x = "5"', Compare("x", "=", "5", "", 14)),
        ('x = "true"', Compare("x", "=", "true", "", 14)),
        ('x = "LIMIT"', Compare("x", "=", "LIMIT", "", 14)),
        (r'x = "a\"b\n\u00e9 # no comment"', Compare("x", "=", 'a"b\né # no comment', "", 14)),
        ("v.x = 1", Compare("x", "=", 1, "v", 14)),
        ("shop.view.x = 1", Compare("x", "=", 1, "shop.view", 14)),
        ("`and` = 1", Compare("and", "=", 1, "", 14)),
        ("v.`and` = 1", Compare("and", "=", 1, "v", 14)),
        ("x IN (1, a, null)", In("x", (1, "a", None), "", 14)),
        ("x", Truth("x", "", 14)),
        ("v.x", Truth("x", "v", 14)),
    ],
)
def test_a_comparison_has_its_literal_and_its_place(text, expected):
    found = where(text)

    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, Compare):
        assert type(found.value) is type(expected.value)


def test_and_binds_more_than_or_and_not_most():
    a, b, c, d = (Truth(name, "", 14 + at) for name, at in zip("abcd", (0, 5, 15, 20), strict=True))

    assert where("a OR b AND NOT c OR d") == Or((a, And((b, Not(c))), d))


def test_parentheses_go_first_and_like_conditions_join():
    found = where("(a AND (b AND c)) AND (d OR (e OR f))")

    assert isinstance(found, And)
    assert [type(part) for part in found.of] == [Truth, Truth, Truth, Or]
    assert len(found.of[3].of) == 3


def test_double_negation_is_kept():
    assert where("NOT NOT a") == Not(Not(Truth("a", "", 22)))


def test_a_sequence_has_any_number_of_steps_each_with_a_time():
    query = parse("QUERY a FOLLOWED BY b WITHIN 5 MINUTES PRECEDED BY c FOLLOWED BY d WITHIN 90s")

    assert query.steps == (
        Step(direction="followed", event=Name("b", 20), within_us=5 * MINUTE_US),
        Step(direction="preceded", event=Name("c", 51)),
        Step(direction="followed", event=Name("d", 65), within_us=90_000_000),
    )


@pytest.mark.parametrize("unit", ["MIN", "min", "m", "minutes"])
def test_a_unit_that_is_a_keyword_elsewhere_is_a_unit_here(unit):
    query = parse(f"QUERY a FOLLOWED BY b WITHIN 5 {unit} MIN x")

    assert query.steps[0].within_us == 5 * MINUTE_US
    assert query.aggregates[0].function == "min"


def test_aggregates_are_named_after_their_function_and_field():
    query = parse("QUERY a COUNT, COUNT x, COUNT UNIQUE x, TOTAL x, SUM y, AVG x, MIN x, MAX v.x")

    assert [each.column for each in query.aggregates] == [
        *("count", "count_x", "count_unique_x", "total_x", "total_y", "avg_x", "min_x", "max_x")
    ]
    assert query.aggregates[-1].field.event == "v"


def test_fields_may_be_called_like_keywords_where_only_a_field_can_stand():
    query = parse(
        "QUERY query WHERE limit = 1 ORDER BY order BY by, count COUNT `unique` USING time"
    )

    assert query.event.text == "query"
    assert query.where.field == "limit"
    assert query.order_by.text == "order"
    assert [name.text for name in query.by] == ["by", "count"]
    assert query.aggregates[0].field.text == "unique"
    assert query.using.text == "time"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1767225600", 1767225600),
        ("1767225600.5", 1767225600.5),
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T03:04:05+02:00"),
        ('"2026-01-02"', "2026-01-02"),
        ("soon", "soon"),
        ("null", "null"),
    ],
)
def test_since_keeps_what_was_written(text, expected):
    query = parse(f"QUERY a SINCE {text}")

    assert query.since == expected
    assert query.since_at == 14


@pytest.mark.parametrize(
    "context", ["user-7", "acct_9", "a.b:c", "42", "a@b.org", "FOR", "true", "-x-"]
)
def test_a_context_is_a_bare_word_or_text(context):
    assert parse(f"QUERY a FOR {context}").context == context
    assert parse(f'QUERY a FOR "{context}"').context == context


def test_return_takes_words_and_text_and_may_be_empty():
    assert parse('QUERY a RETURN [x, "y", b.z]').returning == (
        Name("x", 16),
        Name("y", 19),
        Name("z", 24, "b"),
    )
    assert parse("QUERY a RETURN []").returning == ()
    assert parse("QUERY a").returning is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PING", Ping()),
        ("flush ;", Flush()),
        ("SHOW big-1", Show("big-1")),
        ("SHOW permissions", Show("permissions")),
        ("FORGET big", Forget("big")),
        ("LIST USERS", ListUsers()),
        ("REVOKE KEY bob", RevokeKey("bob")),
        ("SHOW PERMISSIONS FOR bob", ShowPermissions("bob")),
        ("CREATE USER bob", CreateUser(user="bob")),
        (
            'CREATE USER "b b" WITH ROLES ["admin", viewer] WITH KEY "k\\"y"',
            CreateUser(user="b b", key='k"y', roles=("admin", "viewer")),
        ),
        (
            "GRANT READ, write ON a, b TO bob",
            Grant(permissions=("READ", "WRITE"), events=(Name("a", 21), Name("b", 24)), user="bob"),
        ),
        (
            "REVOKE READ ON a FROM bob",
            Revoke(permissions=("READ",), events=(Name("a", 15),), user="bob"),
        ),
        ("REVOKE ON a FROM bob", Revoke(permissions=(), events=(Name("a", 10),), user="bob")),
        ("REPLAY FOR x", ReplayCommand(context="x")),
        (
            "REPLAY a SINCE 5 FOR x USING t RETURN [y]",
            ReplayCommand(
                context="x",
                event=Name("a", 7),
                since=5,
                since_at=15,
                using=Name("t", 29),
                returning=(Name("y", 39),),
            ),
        ),
        ("EXPLAIN QUERY a", Explain(Query(event=Name("a", 14)))),
        ("EXPLAIN REPLAY FOR x", Explain(ReplayCommand(context="x"))),
        ("DELETE a", DeleteEvents(event=Name("a", 7))),
        (
            "DELETE a WHERE x FOR y",
            DeleteEvents(event=Name("a", 7), context="y", where=Truth("x", "", 15)),
        ),
    ],
)
def test_every_command_is_a_value(text, expected):
    assert parse(text) == expected


def test_remember_keeps_the_text_of_its_query_and_what_to_keep():
    text = "REMEMBER  QUERY pay  WHERE amount>1 # all\n AS big KEEP 7 DAYS KEEP 100 ROWS;"

    command = parse(text)

    assert isinstance(command, Remember)
    assert command.alias == "big"
    assert command.text == "QUERY pay  WHERE amount>1 # all"
    assert parse(command.text).where.value == command.query.where.value
    assert (command.rows_max, command.age_max_us) == (100, 7 * DAY_US)


def test_a_batch_keeps_its_commands_and_their_texts():
    text = 'BATCH [ PING; STORE a FOR c PAYLOAD {"x": "];"} ; QUERY a ; ]'

    batch = parse(text)

    assert isinstance(batch, BatchCommand)
    assert batch.texts == ("PING", 'STORE a FOR c PAYLOAD {"x": "];"}', "QUERY a")
    assert batch.commands[1].payload == b'{"x": "];"}'
    assert text[batch.commands[2].event.at] == "a"


def test_define_takes_every_way_to_write_a_type():
    text = (
        'DEFINE pay AS 2 FIELDS {amount:"float", cur:["EUR","USD"], "note": string | null,'
        ' kind: ["a"] | null, at : datetime,}'
    )

    assert parse(text) == Define(
        event=Name("pay", 7),
        version=2,
        fields={
            "amount": "float",
            "cur": ["EUR", "USD"],
            "note": "string | null",
            "kind": '["a"] | null',
            "at": "datetime",
        },
    )


def test_a_plot_has_metrics_filters_and_how_to_show_them():
    text = (
        "PLOT COUNT OF view -> pay FILTER x = 1 TOP 5 BY page "
        "VS TOTAL(amount) OF pay FILTER y BREAKDOWN BY page, cur OVER day(at)"
    )

    plot = parse(text)

    assert isinstance(plot, Plot)
    first, second = plot.metrics
    assert first == Metric(
        aggregate=Aggregate(function="count"),
        event=Name("view", 14),
        then=Name("pay", 22),
        where=Compare("x", "=", 1, "", 33),
    )
    assert (second.aggregate.column, second.event.text) == ("total_amount", "pay")
    assert second.where == Truth("y", "", text.index("y BREAK"))
    assert (plot.top, plot.top_by.text, plot.over, plot.over_field.text) == (5, "page", "DAY", "at")
    assert [name.text for name in plot.breakdown] == ["page", "cur"]


def test_an_arrow_needs_no_spaces():
    assert parse("PLOT UNIQUE(x) OF view->pay") == parse("PLOT UNIQUE(x) OF view->pay ;")
    assert parse("PLOT COUNT OF view->pay").metrics[0].then.text == "pay"


STORES = [
    'STORE pay FOR acct-9 PAYLOAD {"amount":4.5,"note":null}',
    'store pay for "acct 9" payload{"a":"}{\\"","b":{"c":[{}]}}  ',
    "\n STORE pay\n FOR acct-9 PAYLOAD\t{ }",
    'STORE shop.pay FOR FOR PAYLOAD {"é": "\\u00e9"}',
    'STORE pay FOR x PAYLOAD {"n": 184467440737095516159999, "f": -1.5e-7, "t": true}',
]


@pytest.mark.parametrize("text", STORES)
def test_the_quick_way_to_read_a_store_gives_what_the_grammar_gives(text):
    quick = parser._plain_store(text)

    assert quick is not None
    assert quick == parser._parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        'STORE a FOR x PAYLOAD {"a": 1} ;',
        'STORE a FOR "x\\ty" PAYLOAD {}',
        "STORE `a` FOR x PAYLOAD {}",
        "STORE a FOR a@b PAYLOAD {}",
    ],
)
def test_what_the_quick_way_does_not_know_is_left_to_the_grammar(text):
    assert parser._plain_store(text) is None
    assert isinstance(parse(text), StoreEvent)


def test_a_payload_is_kept_as_it_was_written():
    text = 'STORE pay FOR "a\\tb" PAYLOAD { "x" : [1, {"y": "}"}] , "x": 2 } ; # the end'

    command = parse(text)

    assert command == StoreEvent(
        event=Name("pay", 6),
        context="a\tb",
        payload=b'{ "x" : [1, {"y": "}"}] , "x": 2 }',
        payload_at=29,
    )


def test_a_comment_begins_behind_a_space_alone():
    assert parse("QUERY a # all\n LIMIT 1 # one").limit == 1
    assert "unexpected character '#'" in mistake("STORE a FOR user#1 PAYLOAD {}").message


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, "expected QUERY, STORE, DEFINE, REPLAY, SHOW, PLOT, REMEMBER, DELETE or 10 more"),
        ("QUERY", 5, "expected an event, not the end"),
        (
            "QUERY a b",
            8,
            "expected WHERE, RETURN, SINCE, FOR, COUNT, BY, ORDER BY, LIMIT or 11 more, not 'b'",
        ),
        ("QUERY a WHERE  ", 13, "expected a field"),
        ("QUERY a WHERE x = ", 17, "expected a value"),
        ("QUERY a WHERE x = LIMIT 5", 18, "expected a value, not LIMIT"),
        ("QUERY a WHERE x = by", 18, "expected a value, not by"),
        ("QUERY a SINCE LIMIT 5", 14, "expected a time, not LIMIT"),
        ("QUERY a WHERE 5 = x", 14, "expected a field, not '5'"),
        ("QUERY a WHERE x > null", 14, "null has no order"),
        ("QUERY a LIMIT x", 14, "expected a number, not 'x'"),
        ("QUERY a LIMIT -5", 14, "LIMIT must be a whole number >= 0, not -5"),
        ("QUERY a LIMIT 1.5", 14, "LIMIT must be a whole number >= 0, not 1.5"),
        ("QUERY a LIMIT 99999999999999999999", 14, "LIMIT must be a whole number"),
        ("QUERY a OFFSET -1", 15, "OFFSET must be a whole number"),
        ("DEFINE a AS 0 FIELDS {x: u64}", 12, "a version must be a whole number >= 1"),
        ("QUERY a WHERE x = 'y'", 18, 'unexpected character "\'"'),
        ('QUERY a WHERE x = "y', 18, "unterminated text"),
        ("QUERY a WHERE `x = 1", 14, "unterminated name"),
        (r'QUERY a WHERE x = "\q"', 18, "an escape that JSON does not have"),
        ("QUERY a WHERE x = 1e999", 18, "larger than any f64"),
        ("QUERY a WHERE x = " + "9" * 5000, 18, "at most 400 digits"),
        ("QUERY a FOLLOWED BY b WITHIN 5", 30, "expected a unit"),
        ("QUERY a FOLLOWED BY b WITHIN 5 parsecs", 31, "expected a unit"),
        ("QUERY a FOLLOWED BY b WITHIN 5x", 29, "is not a duration"),
        ('STORE a FOR "" PAYLOAD {}', 12, "a context cannot be empty"),
        ('STORE a FOR x PAYLOAD {"a": tru}', 28, "expected a JSON value"),
        ('STORE a FOR x PAYLOAD {"a": 1', 29, "expected }"),
        ("STORE a FOR x PAYLOAD [1]", 22, "expected {"),
        ('STORE a FOR x PAYLOAD {"a": 1} {}', 31, "expected the end"),
        ("DEFINE a FIELDS {}", 17, "expected a field"),
        ('DEFINE a FIELDS {x: "strng"}', 17, "has no type 'strng'"),
        ('DEFINE a FIELDS {x: "u64", x: "u64"}', 27, "'x' is given twice"),
        ("REPLAY a", 0, "REPLAY requires a context"),
        ("REMEMBER QUERY a AS b.c", 20, "is not an alias"),
        ("REMEMBER QUERY a AS b KEEP 0 ROWS", 27, "KEEP must be a whole number >= 1"),
        ("BATCH [PING, PING]", 11, "expected ] or ;"),
        ("BATCH [BATCH [PING]]", 7, "expected QUERY, STORE"),
        ("QUERY a; PING", 9, "expected the end"),
        ("GRANT ON a TO b", 6, "expected READ or WRITE"),
        ("PLOT COUNT view", 11, "expected ( or OF"),
        ("QUERY a WHERE " + "NOT " * 64 + "x", 14, "nested more than 64 deep"),
        ("QUERY a\ud800", 7, "surrogate"),
        ('STORE a FOR "\ud800" PAYLOAD {}', 13, "surrogate"),
    ],
)
def test_a_mistake_is_where_it_was_made_and_says_what_was_expected(text, at, expected):
    error = mistake(text)

    assert expected in error.message
    assert error.at == at


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("QURY a", "did you mean QUERY?"),
        ("QUERY a LIMT 5", "did you mean LIMIT?"),
        ("QUERY a ORDR BY x", "did you mean ORDER BY?"),
        ("QUERY a COUNT PER dy", "did you mean DAY?"),
        ("SELECT * FROM a", "run SQL with store.sql()"),
        ("QUERY a WHERE x = LIMIT 5", '"LIMIT"'),
        ("QUERY a WHERE x = 'y'", "double quotes"),
        ("QUERY a WHERE x = 1 WHERE y = 2", "join conditions with AND"),
    ],
)
def test_a_mistake_has_a_hint(text, hint):
    assert hint in mistake(text).hint


def test_what_is_no_text_or_too_long_is_refused():
    with pytest.raises(Invalid, match="a command is text"):
        parse(b"PING")
    with pytest.raises(Invalid, match="a command has at most"):
        parse(" " * (parser.TEXT_MAX + 1))


def test_a_long_list_and_a_long_chain_are_read():
    values = ", ".join(str(number) for number in range(5000))
    chain = " OR ".join(f"x = {number}" for number in range(2000))

    assert len(where(f"x IN ({values})").values) == 5000
    assert len(where(chain).of) == 2000
