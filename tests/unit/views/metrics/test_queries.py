"""Promise: a query's stages do what they are documented to do, one after the other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from strandline.config.settings import ViewSettings
from strandline.errors import Invalid, NotFound
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_world import SECOND, open_metrics


@pytest.fixture
def world():
    made = World(views=ViewSettings(memory_bytes=32 << 20))
    yield made
    made.store.close()


@pytest.fixture
def metrics(world):
    """Two hosts of one zone and one of another, six points each, ten seconds apart."""
    made = open_metrics(world.store)
    base = world.clock.now_us() * 1000 // (60 * SECOND) * 60 * SECOND - 120 * SECOND
    made.base = base
    for n in range(6):
        at = base + n * 10 * SECOND
        made.write_lines(
            f"cpu,host=a,zone=eu load={n},jobs={n * n}i {at}\n"
            f"cpu,host=b,zone=eu load={10 + n},jobs={100 - n}i {at}\n"
            f"cpu,host=c,zone=us load={-n / 2},jobs=7i {at}"
        )
    return made


def rows(answer) -> list[tuple]:
    return [(*row.tags.values(), row.value) for row in answer]


def test_points_come_series_by_series_in_order_of_time(metrics):
    answer = metrics.query('cpu{zone="eu"} | field(load)')

    assert answer.groups == [{"host": "a", "zone": "eu"}, {"host": "b", "zone": "eu"}]
    assert answer.values.tolist() == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]
    assert answer.at[:2].tolist() == [metrics.base, metrics.base + 10 * SECOND]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("avg", [("eu", 7.5), ("us", -1.25)]),
        ("sum", [("eu", 90.0), ("us", -7.5)]),
        ("count", [("eu", 12), ("us", 6)]),
        ("min", [("eu", 0.0), ("us", -2.5)]),
        ("max", [("eu", 15.0), ("us", 0.0)]),
        ("first", [("eu", 0.0), ("us", 0.0)]),
        ("last", [("eu", 15.0), ("us", -2.5)]),
        ("percentile(50)", [("eu", 7.5), ("us", -1.25)]),
        ("percentile(0)", [("eu", 0.0), ("us", -2.5)]),
        ("percentile(100)", [("eu", 15.0), ("us", 0.0)]),
    ],
)
def test_aggregates_put_the_points_of_a_group_together(metrics, how, expected):
    assert rows(metrics.query(f"cpu | field(load) | {how} by (zone)")) == expected


def test_a_rate_is_of_each_series_then_added_up(metrics):
    assert rows(metrics.query("cpu | field(load) | rate by (zone)")) == [
        ("eu", pytest.approx(0.2)),
        # A fall is a new beginning from 0: the rise is the value after it.
        ("us", pytest.approx(-(0.5 + 1 + 1.5 + 2 + 2.5) / 50)),
    ]


def test_windows_begin_at_multiples_of_their_width(metrics):
    answer = metrics.query('cpu{host="a"} | field(load) | window(20s) | sum')

    assert answer.at.tolist() == [metrics.base + n * 20 * SECOND for n in range(3)]
    assert answer.values.tolist() == [1, 5, 9]


def test_an_aggregate_without_by_puts_everything_together(metrics):
    assert rows(metrics.query("cpu | field(load) | count")) == [(18,)]


def test_by_each_leaves_every_series_by_itself(metrics):
    found = metrics.query("cpu | field(load) | max by (*)")

    assert rows(found) == [("a", "eu", 5), ("b", "eu", 15), ("c", "us", 0)]


def test_group_by_is_the_same_as_by(metrics):
    one = metrics.query("cpu | field(load) | group_by(zone) | window(20s) | avg")

    assert rows(one) == rows(metrics.query("cpu | field(load) | window(20s) | avg by (zone)"))


def test_stages_go_on_with_what_came_before(metrics):
    text = "cpu | field(load) | window(20s) | avg by (host) | max by () | math(value * 2)"

    assert rows(metrics.query(text)) == [(29.0,)]


def test_delta_goes_from_value_to_value_of_a_group(metrics):
    answer = metrics.query('cpu{zone="eu"} | field(jobs) | delta')

    assert answer.values.tolist() == [1, 3, 5, 7, 9, -1, -1, -1, -1, -1]
    assert answer.at[0] == metrics.base + 10 * SECOND


def test_rate_without_a_window_goes_from_value_to_value(metrics):
    answer = metrics.query('cpu{host="a"} | field(jobs) | rate(1m)')

    assert answer.values.tolist() == [6.0, 18.0, 30.0, 42.0, 54.0]


def test_rate_behind_an_aggregate_goes_from_window_to_window(metrics):
    answer = metrics.query('cpu{host=~"a"}[1h] | field(load) | window(20s) | avg by (host) | rate')

    assert answer.values.tolist() == [pytest.approx(0.1)] * 2


def test_rate_behind_a_window_is_its_aggregate(metrics):
    answer = metrics.query('cpu{host="a"} | field(load) | window(20s) | rate')

    assert answer.values.tolist() == [pytest.approx(0.1)] * 3


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("where(value > 3)", [4.0, 5.0]),
        ("where(value = 3)", [3.0]),
        ("where(value != 3) | count", [5]),
        ("math(value * value - 1)", [-1, 0, 3, 8, 15, 24]),
        ("math(1 / value)", [1, 0.5, 1 / 3, 0.25, 0.2]),
        ("math(7)", [7] * 6),
        ("math(0 - value) | abs | limit(2)", [0, 1]),
        ("math(value / 4) | ceil", [0, 1, 1, 1, 1, 2]),
        ("math(value / 4) | floor", [0, 0, 0, 0, 1, 1]),
        ("math(value / 3) | round(1) | limit(3)", [0.0, 0.3, 0.7]),
        ("limit(1)", [0.0]),
        ("limit(0)", []),
    ],
)
def test_stages_change_or_choose_values(metrics, stage, expected):
    answer = metrics.query(f'cpu{{host="a"}} | field(load) | {stage}')

    assert answer.values.tolist() == expected


def test_the_groups_with_the_highest_or_lowest_average_are_chosen(metrics):
    top = metrics.query("cpu | field(load) | topk(2) | avg by (host)")
    low = metrics.query("cpu | field(load) | bottomk(1) | avg by (host)")

    assert rows(top) == [("a", 2.5), ("b", 12.5)]
    assert rows(low) == [("c", -1.25)]


def test_alias_names_the_values(metrics):
    assert metrics.query("cpu | field(load) | avg").name == "load_avg"
    assert metrics.query("cpu | field(load) | avg | alias(busy)").name == "busy"


def test_the_last_hour_reaches_up_to_now_and_now_included(world, metrics):
    now = world.clock.now_us() * 1000
    metrics.write("now", {}, {"v": 1.0})
    metrics.write("now", {}, {"v": 2.0}, now + 1)
    metrics.write("now", {}, {"v": 3.0}, now - 3600 * SECOND)
    metrics.write("now", {}, {"v": 4.0}, now - 3600 * SECOND - 1)

    assert metrics.query("now[1h]").values.tolist() == [3.0, 1.0]


def test_a_range_has_its_first_and_not_its_last(metrics):
    base = metrics.base

    answer = metrics.query(
        f'cpu{{host="a"}}[{base + 10 * SECOND}..{base + 30 * SECOND}] | field(load)'
    )

    assert answer.values.tolist() == [1.0, 2.0]


def test_a_range_that_ends_before_it_begins_is_refused(metrics):
    with pytest.raises(Invalid, match="ends before it begins"):
        metrics.query("cpu[200..100] | field(load)")


def test_an_unknown_measurement_or_field_is_told(metrics):
    with pytest.raises(NotFound, match="there is no measurement 'gpu': there are cpu"):
        metrics.query("gpu")
    with pytest.raises(NotFound, match="no field 'value': it has jobs, load"):
        metrics.query("cpu")


def test_the_only_field_needs_no_name_nor_one_named_value(metrics):
    metrics.write("one", {}, {"x": 1})
    metrics.write("two", {}, {"x": 1, "value": 2})

    assert metrics.query("one").values.tolist() == [1]
    assert metrics.query("two").values.tolist() == [2]


def test_nothing_found_is_an_empty_answer(metrics):
    for stage in (
        "avg by (host)",
        "window(1m) | rate",
        "percentile(5)",
        "delta",
        "topk(1)",
        "rate",
    ):
        assert len(metrics.query(f'cpu{{host="nobody"}} | field(load) | {stage}')) == 0
        assert len(metrics.query(f"cpu[0..1] | field(load) | {stage}")) == 0


def test_an_answer_is_an_arrow_table(metrics):
    table = metrics.query("cpu | field(load) | max by (zone)").arrow()

    assert table.column_names == ["zone", "at", "value"]
    assert table.schema.field("at").type == pa.timestamp("ns", "UTC")
    assert table.select(["zone", "value"]).to_pylist() == [
        {"zone": "eu", "value": 15.0},
        {"zone": "us", "value": 0.0},
    ]


def test_an_answer_is_series_of_arrays(metrics):
    one, two = metrics.query('cpu{zone="eu"} | field(load)').series()

    assert (one.tags["host"], one.values.tolist()) == ("a", [0, 1, 2, 3, 4, 5])
    assert two.at.tolist() == one.at.tolist()


def test_integers_are_added_exactly_and_refused_when_they_do_not_fit(metrics):
    for n in range(3):
        metrics.write("big", {}, {"v": 2**61 + n}, n)

    assert metrics.query("big | sum").values.tolist() == [3 * 2**61 + 3]
    metrics.write("big", {}, {"v": 2**62}, 3)
    with pytest.raises(Invalid, match="does not fit"):
        metrics.query("big | sum")
    assert metrics.query("big | avg").values.tolist() == [pytest.approx((5 * 2**61 + 3) / 4)]


def test_booleans_are_counted_as_0_and_1(metrics):
    for n in range(4):
        metrics.write("up", {}, {"v": n > 0}, n)

    assert metrics.query("up").values.tolist() == [False, True, True, True]
    assert metrics.query("up | sum").values.tolist() == [3]
    assert metrics.query("up | avg").values.tolist() == [0.75]
    assert metrics.query("up | delta").values.tolist() == [1, 0, 0]
