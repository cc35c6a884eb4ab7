"""Promise: a chart shows the figures that its questions give, all of them, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest

from strandline.errors import NotInstalled
from strandline.query.execute import plot as plotting
from strandline.query.execute.chart_render import VEGA_LITE, Chart, ChartPoint, render_png, vega
from strandline.query.execute.plot import chart
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.query.language.periods import Calendar
from strandline.schema import Schema
from strandline.views.table.condition import Compare

SCHEMAS = {
    "pay": Schema(1, {"amount": "f64", "n": "u64", "cur": '["EUR","USD"]', "at": "datetime"}),
    "view": Schema(1, {"page": "string", "cur": "string", "at": "datetime"}),
}
MOMENT = pa.timestamp("us", tz="UTC")
DAY_US = 86_400_000_000
PNG = b"\x89PNG\r\n\x1a\n"


class Asked:
    """Answers with tables that were laid ready, and keeps what was asked."""

    def __init__(self, *answers: dict[str, pa.Array]) -> None:
        self._answers = list(answers)
        self.bounds: list[BoundQuery] = []

    def __call__(self, bound: BoundQuery) -> pa.Table:
        self.bounds.append(bound)
        answer = self._answers[len(self.bounds) - 1]
        assert tuple(answer) == bound.names
        return pa.table(answer)


def drawn(text: str, ask: Callable[[BoundQuery], pa.Table], **options) -> Chart:
    return chart(parse(text), SCHEMAS.get, ask, text, events=SCHEMAS, **options)


def days(*numbers: int) -> pa.Array:
    return pa.array([number * DAY_US for number in numbers], pa.int64()).cast(MOMENT)


def test_a_figure_over_time_is_a_line_in_order():
    ask = Asked({"bucket": days(2, 1), "count": pa.array([5, 7])})

    found = drawn("PLOT COUNT OF view OVER day(at) FILTER page = x", ask)

    (bound,) = ask.bounds
    assert (bound.per, bound.time, bound.events[0].where) == (
        "DAY",
        ("at",),
        Compare("page", "=", "x"),
    )
    assert found.points == (
        ChartPoint(metric="count of view", value=7, time="1970-01-02T00:00:00Z"),
        ChartPoint(metric="count of view", value=5, time="1970-01-03T00:00:00Z"),
    )
    assert found.vega["$schema"] == VEGA_LITE
    assert found.vega["mark"]["type"] == "line"
    assert found.vega["encoding"]["x"]["field"] == "time"
    assert found.vega["data"]["values"][0] == {
        "metric": "count of view",
        "value": 7,
        "time": "1970-01-02T00:00:00Z",
    }


def test_a_breakdown_is_a_bar_for_each_of_its_values():
    ask = Asked({"cur": pa.array(["USD", "EUR", None]), "avg_amount": pa.array([1.5, 2.5, None])})

    found = drawn("PLOT AVG(amount) OF pay BREAKDOWN BY cur", ask)

    assert [(point.group, point.value) for point in found.points] == [
        *(("EUR", 2.5), ("USD", 1.5), ("null", None)),
    ]
    assert found.vega["mark"] == "bar"
    assert found.vega["encoding"]["x"]["field"] == "group"


def test_several_fields_of_a_breakdown_are_one_name():
    ask = Asked(
        {
            "bucket": days(1),
            "page": pa.array(["/"]).dictionary_encode(),
            "cur": pa.array(["x"]),
            "count": pa.array([1]),
        }
    )

    found = drawn("PLOT COUNT OF view BREAKDOWN BY page, cur OVER week", ask)

    assert found.points[0].group == "/ · x"
    assert found.vega["encoding"]["color"]["title"] == "page · cur"


def test_metrics_are_drawn_side_by_side_and_called_by_different_names():
    ask = Asked({"count": pa.array([3])}, {"count": pa.array([2])}, {"total_n": pa.array([9])})

    found = drawn("PLOT COUNT OF pay VS COUNT OF pay FILTER n = 1 VS TOTAL(n) OF pay", ask)

    assert {point.metric: point.value for point in found.points} == {
        "count of pay": 3,
        "count of pay #2": 2,
        "total(n) of pay": 9,
    }
    assert found.vega["encoding"]["color"]["field"] == "metric"
    assert [bound.events[0].where for bound in ask.bounds] == [None, Compare("n", "=", 1), None]


def test_then_asks_for_pairs():
    ask = Asked({"count": pa.array([3])})

    found = drawn("PLOT COUNT OF view -> pay", ask)

    assert [event.name for event in ask.bounds[0].events] == ["view", "pay"]
    assert ask.bounds[0].link == "context"
    assert found.points == (ChartPoint(metric="count of view then pay", value=3),)


def test_top_keeps_the_values_with_the_largest_figures_over_all_time():
    ask = Asked(
        {"page": pa.array(["a", "b", "c", "d"]), "count": pa.array([1, 9, None, 5])},
        {
            "bucket": days(1, 1, 1, 1, 2),
            "page": pa.array(["a", "b", "c", "d", "b"]),
            "count": pa.array([100, 1, 100, 2, 3]),
        },
    )

    found = drawn("PLOT COUNT OF view BREAKDOWN BY page TOP 2 OVER day", ask)

    assert [bound.per for bound in ask.bounds] == [None, "DAY"]
    assert [(point.group, point.value) for point in found.points] == [("b", 1), ("d", 2), ("b", 3)]


def test_top_by_a_field_breaks_down_by_it():
    ranking = {"cur": pa.array(["x", "y"]), "count": pa.array([1, 2])}
    ask = Asked(
        ranking,
        {"cur": pa.array(["x", "y"]), "page": pa.array(["p", "q"]), "count": pa.array([1, 2])},
    )

    found = drawn("PLOT COUNT OF view BREAKDOWN BY page TOP 1 BY cur", ask)

    assert [point.group for point in found.points] == ["y · q"]


def test_of_equal_figures_top_keeps_the_same_ones_always():
    groups, figures = ["c", "a", "b"], [1, 1, 1]
    ranking = {"page": pa.array(groups), "count": pa.array(figures)}

    found = drawn("PLOT COUNT OF view TOP 2 BY page", Asked(ranking, ranking))

    assert [point.group for point in found.points] == ["a", "b"]


def test_a_total_of_whole_numbers_is_a_number():
    ask = Asked({"total_n": pa.array([Decimal(2) ** 70], pa.decimal128(38, 0))})

    assert drawn("PLOT SUM(n) OF pay", ask).points[0].value == 2**70


def test_a_chart_can_be_sent_as_json():
    ask = Asked({"bucket": days(1), "cur": pa.array(["EUR"]), "min_amount": pa.array([1.5])})

    found = drawn("PLOT MIN(amount) OF pay BREAKDOWN BY cur OVER day(at)", ask)

    assert msgspec.json.decode(msgspec.json.encode(found.vega)) == found.vega


def test_periods_go_by_the_calendar():
    ask = Asked({"bucket": days(), "count": pa.array([], pa.int64())})

    found = drawn("PLOT COUNT OF pay OVER month", ask, calendar=Calendar("Asia/Tokyo"))

    assert ask.bounds[0].calendar.timezone == "Asia/Tokyo"
    assert found.points == ()
    assert found.vega["data"]["values"] == []


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("PLOT COUNT OF pya", 14, "unknown event 'pya'"),
        ("PLOT TOTAL(zzz) OF pay", 11, "no field 'zzz'"),
        ("PLOT TOTAL(cur) OF pay", 11, "TOTAL requires a number"),
        ("PLOT MAX(at) OF pay", 9, "a chart shows numbers"),
        ("PLOT COUNT OF pay OVER day(cur)", 27, "not a time"),
        ("PLOT COUNT OF pay BREAKDOWN BY zzz", 31, "no field"),
        ("PLOT COUNT OF pay VS COUNT OF view BREAKDOWN BY n", 48, "view has no field 'n'"),
        ("PLOT COUNT OF pay FILTER cur = x", 25, "'x' is not a value of cur"),
        ("PLOT COUNT OF pay TOP 5", 14, "TOP requires a field"),
        ("PLOT COUNT OF pay THEN view BREAKDOWN BY cur", 41, "several events"),
    ],
)
def test_what_cannot_be_drawn_is_a_mistake_and_nothing_is_asked(text, at, message):
    ask = Asked()

    with pytest.raises(QueryError) as caught:
        drawn(text, ask)

    assert message in caught.value.message
    assert caught.value.at == at
    assert ask.bounds == []


def test_more_points_than_can_be_seen_are_refused_and_not_left_out(monkeypatch):
    monkeypatch.setattr(plotting, "POINTS_MAX", 2)
    two = {"page": pa.array(["a", "b"]), "count": pa.array([1, 2])}
    three = {"page": pa.array(["a", "b", "c"]), "count": pa.array([1, 2, 3])}

    assert len(drawn("PLOT COUNT OF view BREAKDOWN BY page", Asked(two)).points) == 2
    with pytest.raises(QueryError, match="at most 2 points"):
        drawn("PLOT COUNT OF view BREAKDOWN BY page", Asked(three))


POINTS = {
    "lines": [
        ChartPoint(metric=metric, value=value, time=f"2026-01-0{value}T00:00:00Z", group=group)
        for metric in ("a", "b")
        for group in ("x", "y")
        for value in (1, 2)
    ],
    "bars": [
        ChartPoint(metric="a", value=1, group="x"),
        ChartPoint(metric="a", value=None, group="y"),
        ChartPoint(metric="b", value=3.5, group="z"),
    ],
    "one": [ChartPoint(metric="a", value=1)],
    "nothing": [],
}


@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS)
def test_a_picture_is_a_png(points):
    assert render_png(points).startswith(PNG)


def test_groups_and_metrics_over_time_are_told_apart():
    encoding = vega(POINTS["lines"], "DAY", "cur")["encoding"]

    assert encoding["color"]["field"] == "group"
    assert encoding["strokeDash"]["field"] == "metric"
    assert "color" not in vega(POINTS["one"], None)["encoding"]
    assert vega(POINTS["bars"], None)["encoding"]["xOffset"]["field"] == "metric"


def test_without_matplotlib_a_picture_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(NotInstalled, match="pip install matplotlib"):
        Chart(points=(), vega={}).png()


def test_times_of_points_are_read_back_by_everybody():
    ask = Asked({"bucket": pa.array([1], pa.int64()).cast(MOMENT), "count": pa.array([1])})

    (point,) = drawn("PLOT COUNT OF view OVER hour", ask).points

    assert datetime.fromisoformat(point.time).microsecond == 1
