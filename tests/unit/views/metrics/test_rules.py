"""Promise: rules keep what they say, make what they say exactly once, and let the log forget."""

from __future__ import annotations

import pytest

from strandline.errors import Conflict, Invalid
from strandline.settings import ViewSettings
from strandline.views.metrics.kinds import INT64_MIN
from strandline.views.metrics.rules import Downsample, Keep
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_world import (
    NAME,
    SECOND,
    digest,
    host_of,
    open_metrics,
    rebuild,
)


class Telemetry:
    """A view, and a clock that begins at a full hour."""

    def __init__(self) -> None:
        self.world = World(views=ViewSettings(memory_bytes=32 << 20))
        self.metrics = open_metrics(self.world.store)
        self.base = (self.world.clock.now_us() // 3_600_000_000 + 1) * 3600
        self.to(0)

    def to(self, second: float) -> None:
        """Let it be so many seconds after the hour."""
        now = self.world.clock.now_us() / 1e6
        self.world.clock.advance(self.base + second - now)

    def at(self, second: float) -> int:
        return int((self.base + second) * SECOND)

    def write(self, *seconds: float, host: str = "a", value: float = 1.0) -> None:
        for second in seconds:
            self.metrics.write("cpu", {"host": host}, {"load": value}, at=self.at(second))

    def seconds(self, measurement: str = "cpu", field: str = "load") -> list[float]:
        answer = self.metrics.read(measurement, field)
        return [at / SECOND - self.base for at in answer.at.tolist()]

    def made(self, field: str = "load_count") -> dict[float, float]:
        answer = self.metrics.read("cpu_1m", field)
        return {row.at / SECOND - self.base: row.value for row in answer}

    def reopen(self, how: str = "reopen") -> None:
        getattr(self.world, how)()
        self.metrics = open_metrics(self.world.store)

    @property
    def fold(self):
        return host_of(self.world.store).fold

    def records(self) -> int:
        return self.world.store.topic(NAME).statistics().count


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
        Downsample(source="cpu", into="cpu_1m", window_ns=60 * SECOND, aggregates=("avg",)),
        Keep(measurement="cpu", keep_ns=60 * SECOND),
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
        ({"source": "cpu", "into": "cpu", "window": "1m"}, "made of itself"),
        ({"source": "x", "into": "cpu", "window": "1m"}, "made of itself"),
        ({"source": "cpu", "into": "y", "window": "1m", "aggregates": []}, "at least one"),
        ({"source": "cpu", "into": "y", "window": "1m", "aggregates": ["avg", "avg"]}, "each once"),
        ({"source": "cpu", "into": "y", "window": "1m", "aggregates": ["mean"]}, "no aggregate"),
        ({"source": "cpu", "into": "", "window": "1m"}, "a measurement"),
        ({"source": "cpu", "into": "y", "window": "soon"}, "no duration"),
        ({"source": "cpu", "into": "y", "window": "1m", "by": "host"}, "list of tags"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(it, rule, reason):
    it.metrics.downsample("cpu", into="x", window="1m")

    with pytest.raises(Invalid, match=reason):
        it.metrics.downsample(rule.pop("source"), **rule)

    assert len(it.metrics.rules()) == 1


class TestDownsampling:
    @pytest.fixture(autouse=True)
    def rule(self, it):
        it.metrics.downsample(
            "cpu", into="cpu_1m", window="1m", aggregates=["avg", "count", "percentile(50)"]
        )

    def test_a_window_is_made_when_it_is_over(self, it):
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

    def test_every_series_is_made_by_itself(self, it):
        it.write(0, 1, host="a")
        it.write(5, host="b")
        it.to(60)

        it.metrics.run_once()

        found = it.metrics.query("cpu_1m | field(load_count)")
        assert [(row.tags, row.value) for row in found] == [({"host": "a"}, 2), ({"host": "b"}, 1)]

    def test_what_is_made_is_made_once(self, it):
        it.write(*range(0, 300, 10))
        it.to(300)
        it.metrics.run_once()
        head = it.world.store.topic(NAME).head_seq

        it.metrics.run_once()
        it.reopen("kill")
        it.metrics.run_once()

        assert it.world.store.topic(NAME).head_seq == head
        assert it.made() == {n * 60: 6 for n in range(5)}

    def test_a_window_without_points_is_passed_over(self, it):
        it.write(0, 86_400)
        it.to(90_000)

        it.metrics.run_once()

        assert it.made() == {0: 1, 86_400: 1}

    def test_a_late_point_makes_its_window_again(self, it):
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

    def test_many_stale_windows_are_all_made_again(self, it):
        it.write(*range(0, 6000, 60))
        it.to(6000)
        it.metrics.run_once()

        it.write(*range(1, 6000, 60))
        it.metrics.run_once()

        assert it.made() == {n * 60: 2 for n in range(100)}

    def test_the_floor_waits_for_windows_that_are_not_made(self, it):
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

    def test_the_floor_never_lies_inside_a_window(self, it):
        it.metrics.keep("cpu", "90s")
        it.write(*range(0, 300, 10))
        it.to(305)

        it.metrics.run_once()

        assert it.seconds()[0] == 180
        it.write(181)
        it.metrics.run_once()
        assert it.made()[180] == 7

    def test_windows_that_have_lost_points_are_not_made(self, it):
        it.metrics.stop_downsampling("cpu_1m")
        it.metrics.keep("cpu", "90s")
        it.write(*range(0, 300, 10))
        it.to(305)
        it.metrics.run_once()

        it.metrics.downsample("cpu", into="cpu_1m", window="1m", aggregates=["count"])
        it.metrics.run_once()

        assert it.seconds()[0] == 220
        assert it.made() == {240: 6}

    def test_a_changed_rule_makes_everything_again(self, it):
        it.write(*range(0, 120, 10))
        it.to(120)
        it.metrics.run_once()

        it.metrics.downsample("cpu", into="cpu_1m", window="30s", aggregates=["count"])
        it.metrics.run_once()

        assert it.made() == {0: 3, 30: 3, 60: 3, 90: 3}

    def test_what_was_made_can_be_made_into_less_again(self, it):
        it.metrics.downsample("cpu_1m", into="cpu_1h", window="1h", aggregates=["sum"])
        it.write(*range(0, 3600, 10))
        it.to(3600)

        it.metrics.run_once()
        it.metrics.run_once()

        answer = it.metrics.read("cpu_1h", "load_count_sum")
        assert answer.values.tolist() == [360]

    def test_a_field_of_another_kind_in_the_way_is_told(self, it):
        it.metrics.write("cpu_1m", {}, {"load_count": 0.5}, at=it.at(0))
        it.write(0)
        it.to(60)

        with pytest.raises(Conflict, match="'load_count' of 'cpu_1m' is float64"):
            it.metrics.run_once()

    def test_a_rule_that_fails_does_not_hinder_the_others(self, it):
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

    def test_all_rules_that_fail_are_told(self, it):
        for into in ("cpu_1m", "cpu_2m"):
            it.metrics.write(into, {}, {"load_count": 0.5}, at=it.at(0))
        it.metrics.downsample("cpu", into="cpu_2m", window="2m", aggregates=["count"])
        it.write(0)
        it.to(120)

        with pytest.raises(Conflict) as failure:
            it.metrics.run_once()

        assert "the rule that makes 'cpu_1m' of 'cpu': field" in str(failure.value)
        assert "; the rule that makes 'cpu_2m' of 'cpu': field" in str(failure.value)

    def test_groups_have_the_tags_that_are_asked_for(self, it):
        it.metrics.downsample("cpu", into="total", window="1m", aggregates=["sum"], by=[])
        it.write(0, 1, host="a")
        it.write(5, host="b")
        it.to(60)

        it.metrics.run_once()

        (row,) = it.metrics.read("total")
        assert (row.tags, row.value) == ({}, 3.0)

    def test_many_windows_are_made_in_steps(self, it, monkeypatch):
        monkeypatch.setattr("strandline.views.metrics.upkeep.POINTS_AT_ONCE", 9)
        it.write(*range(0, 1200, 20))
        it.to(1200)
        head = it.world.store.topic(NAME).head_seq

        it.metrics.run_once()

        assert it.world.store.topic(NAME).head_seq > head + 5
        assert it.made() == {n * 60: 3 for n in range(20)}


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
