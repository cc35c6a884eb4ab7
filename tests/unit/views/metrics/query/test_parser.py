"""Promise: a query is read as documented; an error points to its place and tells what fits."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.views.metrics.query.durations import duration_ns, moment_ns
from strandline.views.metrics.query.executor import plan
from strandline.views.metrics.query.parser import (
    TEXT_MAX,
    MetricsQuery,
    QueryRange,
    QueryTime,
    parse,
)
from strandline.views.metrics.storage.series_index import Matcher

HOUR = 3600 * 10**9
MINUTE = 60 * 10**9
SIGNS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def stages(text: str) -> list[tuple]:
    return [(stage.name, *stage.arguments) for stage in parse(text).stages]


def test_a_measurement_alone_is_a_query():
    assert parse("cpu") == MetricsQuery("cpu", (), None, ())


@pytest.mark.parametrize("name", ["cpu", "disk.io", "a:b-c_1", "_x", '"two words"', '"quo\\"te"'])
def test_a_measurement_has_a_plain_or_a_quoted_name(name):
    assert parse(name).measurement == name.strip('"').replace('\\"', '"')


def test_matchers_are_by_tag():
    query = parse('cpu{a=b, c!="x y", d=~"web-*", e!~"^q$", port=80}')

    assert query.matchers == (
        Matcher("a", "=", "b"),
        Matcher("c", "!=", "x y"),
        Matcher("d", "=~", "web-*"),
        Matcher("e", "!~", "^q$"),
        Matcher("port", "=", "80"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1h]", QueryRange(QueryTime(HOUR, is_before_now=True), None)),
        ("[1h30m]", QueryRange(QueryTime(HOUR + 30 * MINUTE, is_before_now=True), None)),
        ("[100..200]", QueryRange(QueryTime(100), QueryTime(200))),
        (
            "[-1h..now]",
            QueryRange(QueryTime(HOUR, is_before_now=True), QueryTime(0, is_before_now=True)),
        ),
        ("[0..now-1h]", QueryRange(QueryTime(0), QueryTime(HOUR, is_before_now=True))),
        (
            "[1970-01-01..1970-01-01T00:00:01.5Z]",
            QueryRange(QueryTime(0), QueryTime(1_500_000_000)),
        ),
    ],
)
def test_a_range_is_a_duration_or_two_times(text, expected):
    assert parse(f"cpu{text}").range == expected


def test_stages_have_their_arguments():
    text = """cpu | field("a b") | window(5m) | avg by (host, zone) | percentile(99.5) by (*)
        | rate(1m) by () | rate | delta | abs | round(2) | round | where(value >= -1.5)
        | topk(3) | limit(2) | alias(x) | group_by(host) | count"""

    assert stages(text) == [
        ("field", "a b"),
        ("window", 5 * MINUTE),
        ("avg", ("host", "zone")),
        ("percentile", 99.5, "*"),
        ("rate", MINUTE, ()),
        ("rate", None, None),
        ("delta",),
        ("abs",),
        ("round", 2.0),
        ("round", None),
        ("where", ">=", -1.5),
        ("topk", 3.0),
        ("limit", 2.0),
        ("alias", "x"),
        ("group_by", ("host",)),
        ("count", None),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("value * 8 / 1000 - 2", 10 * 8 / 1000 - 2),
        ("2 + value * 3", 32),
        ("(2 + value) * 3", 36),
        ("-value % 3", -10 % 3),
        ("100 - 1 - 2", 97),
        ("2 * -(value - 3)", -14),
        ("1e3 / value", 100),
    ],
)
def test_an_expression_has_the_usual_order(text, value):
    (stage,) = parse(f"cpu | math({text})").stages

    stack: list[float] = []
    for part in stage.arguments[0]:
        if part in SIGNS:
            right, left = stack.pop(), stack.pop()
            stack.append(SIGNS[part](left, right))
        else:
            stack.append(10 if part == "value" else part)
    assert stack == [value]


def test_names_of_stages_may_be_names_of_other_things():
    query = parse("avg{sum=max} | field(count) | avg by (rate, window) | alias(topk)")

    assert (query.measurement, query.matchers[0].tag) == ("avg", "sum")
    assert [stage.arguments for stage in query.stages] == [
        ("count",),
        (("rate", "window"),),
        ("topk",),
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "a name"),
        ("cpu{", 1, 5, "a name or }"),
        ("cpu{host}", 1, 9, "= != =~ !~"),
        ("cpu{host=}", 1, 10, "a name or a number"),
        ("cpu{a=b c=d}", 1, 9, ", or }"),
        ("cpu[1h", 1, 7, "]"),
        ("cpu[1h..2h]", 1, 7, "]"),
        ("cpu[2026-13-01..now]", 1, 5, "is not a time"),
        ("cpu[0s]", 1, 5, "is not a duration"),
        ("cpu avg", 1, 5, "[, the end, { or |"),
        ("cpu |", 1, 6, "avg"),
        ("cpu | windw(5m)", 1, 7, "abs, alias, avg, bottomk"),
        ("cpu | window(5)", 1, 14, "a duration (5m)"),
        ("cpu | avg by host", 1, 14, "("),
        ("cpu | where(value ~ 3)", 1, 19, "= != < <= > >="),
        ("cpu | math(value +)", 1, 19, "a number or value"),
        ("cpu[1h]\n  | avg\n  | foo", 3, 5, "avg"),
        ("cpu | percentile(200)", 1, 7, "0 to 100"),
        ("cpu | avg | field(x)", 1, 13, "field comes before"),
        ("cpu | window(5m)", 1, 7, "must be followed by an aggregate"),
        ("cpu | window(5m) | delta | avg", 1, 20, "must be followed by an aggregate"),
        ("cpu | window(5m) | window(1m) | avg", 1, 20, "a window already"),
        ("cpu | group_by(a) | avg by (b)", 1, 21, "use one of them"),
        ("cpu | topk(1.5)", 1, 7, "not a whole number"),
    ],
)
def test_an_error_points_to_its_place(text, line, column, expected):
    with pytest.raises(Invalid) as caught:
        plan(text, 0)

    message, shown, mark = str(caught.value).split("\n")
    assert message.startswith(f"line {line}, column {column}: ")
    assert expected in message
    assert shown.strip("\n") == "  " + text.split("\n")[line - 1]
    assert mark == " " * (column + 1) + "^"


def test_a_long_line_is_shown_around_the_place():
    text = "cpu" + " | abs" * 50 + " | foo" + " | abs" * 50

    with pytest.raises(Invalid) as caught:
        parse(text)

    _, shown, mark = str(caught.value).split("\n")
    assert len(shown) < 110
    assert shown[mark.index("^") :].startswith("foo")


def test_a_text_has_a_limit():
    with pytest.raises(Invalid, match="10000 characters"):
        parse("x" * (TEXT_MAX + 1))


def test_deep_parentheses_are_no_danger():
    text = "cpu | math(" + "(" * 4000 + "value" + ")" * 4000 + ")"

    assert parse(text).stages[0].arguments == (["value"],)


@given(st.text(alphabet='cpu{}[]()|="~!<>*/%+-.,0123456789mhvalue by\n', max_size=60))
def test_any_text_is_a_query_or_invalid(text):
    try:
        found = parse(text)
    except Invalid:
        return

    assert isinstance(found, MetricsQuery)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5m", 5 * MINUTE), ("1h30m", HOUR + 30 * MINUTE), ("2w", 14 * 24 * HOUR), (7, 7), ("3ns", 3)],
)
def test_a_duration_is_counted_in_nanoseconds(text, expected):
    assert duration_ns(text) == expected


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "0s", -1, 0, True, "9999999999w", 1.5, None])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(Invalid, match="is not a duration"):
        duration_ns(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-02", 24 * HOUR),
        ("1970-01-01T01:00", HOUR),
        ("1970-01-01 01:00:00", HOUR),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.000000001Z", -(10**9) + 1),
        ("2026-01-02T03:04:05.123456789Z", 1767323045123456789),
    ],
)
def test_a_moment_is_exact_to_the_nanosecond(text, expected):
    assert moment_ns(text) == expected


@pytest.mark.parametrize("text", ["2026-02-30", "1500-01-01", "9000-01-01", "2026-01-01T25:00"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(Invalid, match="is not a time"):
        moment_ns(text)
