"""Promise: a window is made exactly once, of all its points, and again when some come late."""

from __future__ import annotations

import pytest

from strandline.errors import Conflict
from tests.unit.views.metrics.metrics_world import NAME
from tests.unit.views.metrics.telemetry import Telemetry


@pytest.fixture
def it():
    made = Telemetry()
    yield made
    made.world.store.close()


@pytest.fixture(autouse=True)
def rule(it):
    it.metrics.downsample(
        "cpu", into="cpu_1m", window="1m", aggregates=["avg", "count", "percentile(50)"]
    )


def test_a_window_is_made_when_it_is_over(it):
    it.write(0, 59, 60, 90, 119, 120)
    it.to(119)
    it.metrics.run_once()
    assert it.made() == {0: 2}

    it.to(120)
    it.metrics.run_once()

    assert it.made() == {0: 2, 60: 3}
    assert it.metrics.fields("cpu_1m") == {
        "load_avg": "float64",
        "load_count": "int64",
        "load_p50": "float64",
    }


def test_every_series_is_made_by_itself(it):
    it.write(0, 1, host="a")
    it.write(5, host="b")
    it.to(60)

    it.metrics.run_once()

    found = it.metrics.query("cpu_1m | field(load_count)")
    assert [(row.tags, row.value) for row in found] == [({"host": "a"}, 2), ({"host": "b"}, 1)]


def test_what_is_made_is_made_once(it):
    it.write(*range(0, 300, 10))
    it.to(300)
    it.metrics.run_once()
    head = it.world.store.topic(NAME).head_seq

    it.metrics.run_once()
    it.reopen("kill")
    it.metrics.run_once()

    assert it.world.store.topic(NAME).head_seq == head
    assert it.made() == {n * 60: 6 for n in range(5)}


def test_a_window_without_points_is_passed_over(it):
    it.write(0, 86_400)
    it.to(90_000)

    it.metrics.run_once()

    assert it.made() == {0: 1, 86_400: 1}


def test_a_late_point_makes_its_window_again(it):
    it.write(0, 70)
    it.to(180)
    it.metrics.run_once()

    it.write(30, 31)
    assert it.made() == {0: 1, 60: 1}
    it.reopen("kill")
    it.metrics.run_once()

    assert it.made() == {0: 3, 60: 1}
    head = it.world.store.topic(NAME).head_seq
    it.metrics.run_once()
    assert it.world.store.topic(NAME).head_seq == head


def test_many_stale_windows_are_all_made_again(it):
    it.write(*range(0, 6000, 60))
    it.to(6000)
    it.metrics.run_once()

    it.write(*range(1, 6000, 60))
    it.metrics.run_once()

    assert it.made() == {n * 60: 2 for n in range(100)}


def test_the_floor_waits_for_windows_that_are_not_made(it):
    it.metrics.downsample("cpu", into="late", window="1m", delay="1h")
    it.metrics.keep("cpu", "1m")
    it.write(*range(0, 300, 10))
    it.to(600)

    it.metrics.run_once()

    assert it.seconds() == list(range(0, 300, 10))
    it.to(4000)
    it.metrics.run_once()
    assert it.seconds() == []
    assert it.made() == {n * 60: 6 for n in range(5)}


def test_the_floor_never_lies_inside_a_window(it):
    it.metrics.keep("cpu", "90s")
    it.write(*range(0, 300, 10))
    it.to(305)

    it.metrics.run_once()

    assert it.seconds()[0] == 180
    it.write(181)
    it.metrics.run_once()
    assert it.made()[180] == 7


def test_windows_that_have_lost_points_are_not_made(it):
    it.metrics.stop_downsampling("cpu_1m")
    it.metrics.keep("cpu", "90s")
    it.write(*range(0, 300, 10))
    it.to(305)
    it.metrics.run_once()

    it.metrics.downsample("cpu", into="cpu_1m", window="1m", aggregates=["count"])
    it.metrics.run_once()

    assert it.seconds()[0] == 220
    assert it.made() == {240: 6}


def test_a_changed_rule_makes_everything_again(it):
    it.write(*range(0, 120, 10))
    it.to(120)
    it.metrics.run_once()

    it.metrics.downsample("cpu", into="cpu_1m", window="30s", aggregates=["count"])
    it.metrics.run_once()

    assert it.made() == {0: 3, 30: 3, 60: 3, 90: 3}


def test_what_was_made_can_be_made_into_less_again(it):
    it.metrics.downsample("cpu_1m", into="cpu_1h", window="1h", aggregates=["sum"])
    it.write(*range(0, 3600, 10))
    it.to(3600)

    it.metrics.run_once()
    it.metrics.run_once()

    answer = it.metrics.read("cpu_1h", "load_count_sum")
    assert answer.values.tolist() == [360]


def test_a_field_of_another_kind_in_the_way_is_told(it):
    it.metrics.write("cpu_1m", {}, {"load_count": 0.5}, at=it.at(0))
    it.write(0)
    it.to(60)

    with pytest.raises(Conflict, match="'load_count' of 'cpu_1m' is float64"):
        it.metrics.run_once()


def test_a_rule_that_fails_does_not_hinder_the_others(it):
    it.metrics.write("cpu_1m", {}, {"load_count": 0.5}, at=it.at(0))
    it.metrics.downsample("cpu", into="other", window="1m", aggregates=["max"])
    it.metrics.keep("mem", "1m")
    it.metrics.write("mem", {}, {"used": 1}, at=it.at(0))
    it.write(0)
    it.to(120)

    with pytest.raises(Conflict, match=r"^the rule that makes 'cpu_1m' of 'cpu': field 'load_"):
        it.metrics.run_once()

    assert it.metrics.read("other").values.tolist() == [1.0]
    assert it.metrics.measurements() == ["cpu", "cpu_1m", "other"]


def test_all_rules_that_fail_are_told(it):
    for into in ("cpu_1m", "cpu_2m"):
        it.metrics.write(into, {}, {"load_count": 0.5}, at=it.at(0))
    it.metrics.downsample("cpu", into="cpu_2m", window="2m", aggregates=["count"])
    it.write(0)
    it.to(120)

    with pytest.raises(Conflict) as failure:
        it.metrics.run_once()

    assert "the rule that makes 'cpu_1m' of 'cpu': field" in str(failure.value)
    assert "; the rule that makes 'cpu_2m' of 'cpu': field" in str(failure.value)


def test_groups_have_the_tags_that_are_asked_for(it):
    it.metrics.downsample("cpu", into="total", window="1m", aggregates=["sum"], by=[])
    it.write(0, 1, host="a")
    it.write(5, host="b")
    it.to(60)

    it.metrics.run_once()

    (row,) = it.metrics.read("total")
    assert (row.tags, row.value) == ({}, 3.0)


def test_many_windows_are_made_in_steps(it, monkeypatch):
    monkeypatch.setattr("strandline.views.metrics.rule_runner.POINTS_AT_ONCE", 9)
    it.write(*range(0, 1200, 20))
    it.to(1200)
    head = it.world.store.topic(NAME).head_seq

    it.metrics.run_once()

    assert it.world.store.topic(NAME).head_seq > head + 5
    assert it.made() == {n * 60: 3 for n in range(20)}
