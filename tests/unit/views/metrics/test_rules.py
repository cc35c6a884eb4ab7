"""Promise: rules keep what they say, survive restarts, and let the log forget what is gone."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.views.metrics.rules import DownsamplingRule, RetentionRule
from strandline.views.metrics.value_types import INT64_MIN
from tests.unit.views.metrics.metrics_world import NAME, SECOND, digest, rebuild
from tests.unit.views.metrics.telemetry import Telemetry


@pytest.fixture
def it():
    made = Telemetry()
    yield made
    made.world.store.close()


def test_points_that_are_too_old_go(it):
    it.metrics.keep("cpu", "1m")
    it.write(0, 30, 59, 60, 100)
    it.to(119)

    it.metrics.run_once()

    assert it.seconds() == [59, 60, 100]


def test_other_measurements_stay(it):
    it.metrics.keep("cpu", "1m")
    it.metrics.write("mem", {}, {"used": 1}, at=it.at(0))
    it.write(0, 100)
    it.to(119)

    it.metrics.run_once()

    assert it.metrics.measurements() == ["cpu", "mem"]


def test_a_late_point_below_the_floor_is_refused_and_counted(it):
    it.metrics.keep("cpu", "1m")
    it.write(0, 100)
    it.to(119)
    it.metrics.run_once()

    with pytest.raises(Invalid, match="is too old"):
        it.write(58)
    it.world.store.topic(NAME).append(b"cpu,host=a load=1 %d" % it.at(58))

    assert it.seconds() == [100]
    assert it.metrics.statistics().refused_writes == 1
    assert it.metrics.statistics().below_floor_points == 1


def test_series_without_points_are_forgotten(it):
    it.metrics.keep("cpu", "1m")
    it.write(0, host="gone")
    it.write(100, host="stays")
    it.to(119)

    it.metrics.run_once()

    assert it.metrics.series("cpu") == [{"host": "stays"}]
    assert it.metrics.cardinality().measurements["cpu"].tags == {"host": 1}
    it.write(110, host="gone")
    assert it.metrics.series("cpu") == [{"host": "gone"}, {"host": "stays"}]


def test_series_with_points_are_known_after_a_restart_when_others_are_forgotten(it):
    it.metrics.keep("cpu", "1m")
    it.write(0, host="gone")
    it.write(0, 100, host="stays")
    it.world.store.checkpoint()
    it.reopen("kill")
    it.to(119)

    it.metrics.run_once()

    assert it.metrics.series("cpu") == [{"host": "stays"}]
    assert it.seconds() == [100]


def test_nothing_is_put_on_the_log_when_nothing_would_go(it):
    it.metrics.keep("cpu", "1m")
    it.write(100)
    it.to(119)
    head = it.world.store.topic(NAME).head_seq

    it.metrics.run_once()
    it.metrics.run_once()

    assert it.world.store.topic(NAME).head_seq == head


def test_rules_are_kept_over_restarts_and_can_be_ended(it):
    it.metrics.keep("cpu", "1m")
    it.metrics.downsample("cpu", into="cpu_1m", window="1m", aggregates=["avg"])
    expected = [
        DownsamplingRule(source="cpu", into="cpu_1m", window_ns=60 * SECOND, aggregates=("avg",)),
        RetentionRule(measurement="cpu", keep_ns=60 * SECOND),
    ]

    it.reopen("kill")

    assert it.metrics.rules() == expected
    it.metrics.keep_all("cpu")
    it.metrics.stop_downsampling("cpu_1m")
    it.reopen("kill")
    assert it.metrics.rules() == []


def test_a_rule_that_is_there_already_is_not_put_on_the_log_again(it):
    it.metrics.keep("cpu", "1m")
    head = it.world.store.topic(NAME).head_seq

    it.metrics.keep("cpu", "60s")
    it.metrics.keep_all("nothing")

    assert it.world.store.topic(NAME).head_seq == head


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"source": "cpu", "into": "cpu", "window": "1m"}, "downsampled from itself"),
        ({"source": "x", "into": "cpu", "window": "1m"}, "downsampled from itself"),
        ({"source": "cpu", "into": "y", "window": "1m", "aggregates": []}, "at least one"),
        ({"source": "cpu", "into": "y", "window": "1m", "aggregates": ["avg", "avg"]}, "each once"),
        ({"source": "cpu", "into": "y", "window": "1m", "aggregates": ["mean"]}, "no aggregate"),
        ({"source": "cpu", "into": "", "window": "1m"}, "a measurement"),
        ({"source": "cpu", "into": "y", "window": "soon"}, "not a duration"),
        ({"source": "cpu", "into": "y", "window": "1m", "by": "host"}, "list of tags"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(it, rule, reason):
    it.metrics.downsample("cpu", into="x", window="1m")

    with pytest.raises(Invalid, match=reason):
        it.metrics.downsample(rule.pop("source"), **rule)

    assert len(it.metrics.rules()) == 1


class TestLettingGo:
    def test_records_below_the_floor_leave_the_log(self, it):
        it.metrics.keep("cpu", "1m")
        it.write(*range(600))
        it.to(600)
        it.metrics.run_once()
        before = it.records()

        it.world.store.checkpoint()

        # Of two whole buckets all but the first point, which says what kind load is, and the rule.
        assert before - it.records() == 2 * 256 - 1 - 2

    def test_what_is_left_folds_into_the_same(self, it):
        it.metrics.keep("cpu", "1m")
        it.metrics.downsample("cpu", into="cpu_1m", window="1m", aggregates=["count"])
        for minute in range(12):
            it.write(*range(minute * 60, minute * 60 + 60))
            it.to(minute * 60 + 60)
            it.metrics.run_once()
            it.world.store.checkpoint()
        before = digest(it.world.store)

        rebuild(it.world.store)

        assert digest(it.world.store) == before
        assert it.made() == {n * 60: 60 for n in range(12)}
        assert it.records() < 12 * 60 + 30 - 400

    def test_records_stay_until_the_state_that_knows_is_saved(self, it):
        it.metrics.keep("cpu", "1m")
        it.write(*range(600))
        it.to(600)
        it.metrics.run_once()
        before = it.records()

        it.metrics.maintain()

        assert it.records() == before

    def test_the_first_record_with_a_field_stays(self, it):
        it.metrics.keep("cpu", "1m")
        it.write(*range(600))
        it.to(600)
        it.metrics.run_once()
        it.world.store.checkpoint()
        it.world.store.topic(NAME).append(b"cpu load=5i %d" % it.at(600))
        before = digest(it.world.store)

        rebuild(it.world.store)

        assert digest(it.world.store) == before
        assert it.metrics.fields("cpu") == {"load": "float64"}

    def test_records_that_are_nothing_to_the_view_stay(self, it):
        it.metrics.keep("cpu", "1m")
        topic = it.world.store.topic(NAME)
        topic.append(b"a note", tag="note")
        it.write(*range(600))
        it.to(600)
        it.metrics.run_once()

        it.world.store.checkpoint()

        assert "note" in [record.tag for record in topic.read(0, 3).records]

    def test_old_floors_leave_the_log(self, it):
        it.metrics.keep("cpu", "1m")
        for second in range(0, 3000, 2):
            it.write(second)
            it.to(second)
            it.metrics.run_once()

        it.world.store.checkpoint()

        assert it.records() < 900
        before = digest(it.world.store)
        rebuild(it.world.store)
        assert digest(it.world.store) == before

    def test_a_measurement_that_is_kept_keeps_its_records(self, it):
        it.metrics.keep("cpu", "1m")
        it.metrics.write("mem", {}, {"used": 1}, at=it.at(0))
        for second in range(600):
            it.metrics.write_lines(
                f"cpu load=1 {it.at(second)}\nmem used={second}i {it.at(second)}"
            )
        it.to(600)
        it.metrics.run_once()
        before = it.records()

        it.world.store.checkpoint()

        assert it.records() == before
        assert it.fold.catalogue.find("mem").floor == INT64_MIN
