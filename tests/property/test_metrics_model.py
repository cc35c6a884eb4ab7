"""Promise: whatever is written to a metrics view, in any order, it answers as plain lists do.

Points in order, late, twice, in batches of many shapes, in plain records, of the wrong kind, before
the floor; rules that keep and downsample; saves, evictions, reopenings, kills, records that leave
the log, and folding again, after each of which all that can be seen is the same.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strandline.config.settings import ViewSettings
from strandline.errors import Invalid
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_model import (
    Column,
    Outcomes,
    aggregated,
    line_of,
    tags_in_order,
)
from tests.unit.views.metrics.metrics_world import (
    NAME,
    SECOND,
    digest,
    host_of,
    open_metrics,
    rebuild,
    shorten,
)

HOSTS = ("a", "b", "")
ZONES = ("x", "y")
FIELDS = ("load", "jobs", "up")
TIMES = st.integers(0, 400)
FLOATS = st.sampled_from((0.0, -0.0, 0.5, -2.25, 1e-3, 3.0, 1e17))
INTS = st.sampled_from((0, 1, -1, 7, 100, 2**40, -(2**62), 2**62))
VALUES = {"load": FLOATS, "jobs": INTS, "up": st.booleans()}
AGGREGATES = ("avg", "sum", "count", "min", "max", "first", "last", "rate", "percentile(25)")
MADE = ("sum", "count", "last", "percentile(25)")
WIDTHS = st.sampled_from((None, 7, 50, 1000))


ROWS = st.tuples(
    st.sampled_from(HOSTS),
    st.sampled_from(ZONES),
    st.lists(st.sampled_from(FIELDS), min_size=1, unique=True),
    TIMES,
).flatmap(
    lambda row: st.tuples(
        st.just(row), st.fixed_dictionaries({name: VALUES[name] for name in row[2]})
    )
)


class MetricsMachine(RuleBasedStateMachine):
    """A view in a simulated store, and the dict of points that it should be."""

    @initialize(
        tail=st.sampled_from((16, 64, 1000)),
        block_points=st.sampled_from((16, 32)),
        durability=st.sampled_from(("disk", "fsync")),
    )
    def begin(self, tail, block_points, durability):
        self.world = World(views=ViewSettings(memory_bytes=32 << 20))
        self.tail = tail
        self.options = {"block_points": block_points, "durability": durability}
        self.base = self.world.clock.now_us() * 1000 // SECOND * SECOND
        self.points: dict[Column, dict[int, float | int | bool]] = {}
        self.floor = -math.inf
        self.made_by = None
        self.made: dict[tuple[str, str], Outcomes] = {}
        self.ignored = 0
        self._open()

    def _open(self) -> None:
        self.metrics = open_metrics(self.world.store, tail=self.tail, **self.options)

    def at(self, second: int) -> int:
        return self.base + second * SECOND

    def put(self, rows) -> None:
        for (host, zone, _, second), values in rows:
            for name, value in values.items():
                if self.at(second) >= self.floor:
                    column = self.points.setdefault(Column(host, zone, name), {})
                    column[self.at(second)] = value

    def is_refused(self, rows) -> bool:
        return any(self.at(second) < self.floor for (_, _, _, second), _ in rows)

    def live(self, column: Column, first=-math.inf, following=math.inf):
        low = max(first, self.floor)
        points = self.points.get(column, {})
        return [(at, points[at]) for at in sorted(points) if low <= at < following]

    def columns(self, field: str) -> list[Column]:
        found = [column for column in self.points if column.field == field]
        return sorted(found, key=tags_in_order)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=30))
    def write_lines(self, rows):
        text = "\n".join(line_of(row, values, self.at(row[3])) for row, values in rows)
        if self.is_refused(rows):
            with pytest.raises(Invalid, match="too old"):
                self.metrics.write_lines(text)
            return
        self.metrics.write_lines(text)
        self.put(rows)

    @rule(row=ROWS)
    def write_one(self, row):
        (host, zone, _, second), values = row
        tags = {"host": host, "zone": zone} if host else {"zone": zone}
        if self.is_refused([row]):
            with pytest.raises(Invalid, match="too old"):
                self.metrics.write("m", tags, values, self.at(second))
            return
        self.metrics.write("m", tags, values, self.at(second))
        self.put([row])

    @rule(
        host=st.sampled_from(HOSTS),
        start=TIMES,
        step=st.integers(-2, 5),
        count=st.integers(1, 120),
        missing=st.integers(2, 9),
    )
    def write_columns(self, host, start, step, count, missing):
        seconds = [start + step * n for n in range(count)]
        rows = [
            ((host, ZONES[n % 2], FIELDS, second), {"load": n / 2, "jobs": n, "up": n % 3 == 0})
            for n, second in enumerate(seconds)
        ]
        for place in range(0, count, missing):
            del rows[place][1]["jobs"]
        table = {
            "at": [self.at(second) for second in seconds],
            "host": [host or None] * count,
            "zone": [row[0][1] for row in rows],
            **{name: [row[1].get(name) for row in rows] for name in FIELDS},
        }
        if any(table["jobs"]) is False:
            del table["jobs"]
            for _, values in rows:
                values.pop("jobs", None)
        if self.is_refused(rows):
            with pytest.raises(Invalid, match="too old"):
                self.metrics.write_table("m", table, tags=["host", "zone"])
            return
        self.metrics.write_table("m", table, tags=["host", "zone"])
        self.put(rows)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=8))
    def append_a_plain_record(self, rows):
        text = "\n".join(line_of(row, values, self.at(row[3])) for row, values in rows)
        self.world.store.topic(NAME).append(text.encode())
        self.put(rows)

    @rule(data=st.sampled_from((b"\xff", b"{}", b"m load=", b"")))
    def append_something_else(self, data):
        self.world.store.topic(NAME).append(data, key=b"k")
        self.ignored += 1

    @rule(field=st.sampled_from(FIELDS), second=TIMES)
    def write_another_kind(self, field, second):
        if not any(column.field == field for column in self.points) or self.at(second) < self.floor:
            return
        value = {"load": True, "jobs": 0.5, "up": 1.5}[field]
        before = digest(self.world.store)

        with pytest.raises(Invalid, match="nothing was written"):
            self.metrics.write("m", {"zone": "x"}, {field: value}, self.at(second))
        text = line_of(("", "x", (), second), {field: value}, self.at(second))
        self.world.store.topic(NAME).append(text.encode())

        assert digest(self.world.store) == before

    @rule(field=st.sampled_from(FIELDS), first=TIMES, size=st.integers(0, 400))
    def read(self, field, first, size):
        if not self.columns(field):
            return
        low, high = self.at(first), self.at(first + size)

        answer = self.metrics.read("m", field, first=low, next=high)

        expected = [
            (tags_in_order(column), at, value)
            for column in self.columns(field)
            for at, value in self.live(column, low, high)
        ]
        found = [(tuple(sorted(row.tags.items())), row.at, row.value) for row in answer]
        assert found == expected
        signs = [math.copysign(1, value) for _, _, value in expected]
        assert [math.copysign(1, row.value) for row in answer] == signs

    @rule(
        field=st.sampled_from(FIELDS),
        how=st.sampled_from(AGGREGATES),
        width=WIDTHS,
        by=st.sampled_from(((), ("host",), ("zone", "host"), "*")),
        zone=st.none() | st.sampled_from(ZONES),
        first=st.none() | TIMES,
        size=st.integers(0, 400),
    )
    def aggregate(self, field, how, width, by, zone, first, size):
        if not self.columns(field):
            return
        bounds = {}
        if first is not None:
            bounds = {"first": self.at(first), "next": self.at(first + size)}
        tags = {} if zone is None else {"zone": zone}

        chosen = {
            column: self.live(column, bounds.get("first", -math.inf), bounds.get("next", math.inf))
            for column in self.columns(field)
            if zone in (None, column.zone)
        }
        expected = aggregated(chosen, how, width, by)
        asked = {"window": width and width * SECOND, "by": by, "tags": tags, **bounds}
        if _fitting(how, expected) != expected:
            with pytest.raises(Invalid, match="does not fit"):
                self.metrics.aggregate("m", how, field, **asked)
            return

        answer = self.metrics.aggregate("m", how, field, **asked)

        _assert_alike(answer, expected)

    @rule(seconds=st.integers(1, 500))
    def keep(self, seconds):
        self.metrics.keep("m", f"{seconds}s")

    @rule(
        width=st.sampled_from((5, 20, 60)),
        by=st.sampled_from(("*", ("zone",))),
        delay=st.sampled_from((0, 3)),
    )
    def downsample(self, width, by, delay):
        self.metrics.downsample(
            "m", into="n", window=f"{width}s", aggregates=MADE, by=by, delay=delay * SECOND
        )
        self.made_by = width, by, delay

    @rule()
    def stop_downsampling(self):
        self.metrics.stop_downsampling("n")
        self.made_by = None

    def _make(self, now_ns: int) -> None:
        """What is due of the other measurement is made of all points that there are."""
        if self.made_by is None:
            return
        width, by, delay = self.made_by
        window = width * SECOND
        complete = (now_ns - delay * SECOND) // window * window
        first = self.floor  # a window that has lost some points is not made
        if first > -math.inf:
            first = -(-first // window) * window
        for field in FIELDS:
            columns = {column: self.live(column, first, complete) for column in self.columns(field)}
            for how in MADE:
                found = _fitting(how, aggregated(columns, how, width, by))
                self.made.setdefault((field, how), {}).update(found)

    @rule()
    def read_what_was_made(self):
        for (field, how), expected in self.made.items():
            if expected:
                _assert_alike(self.metrics.read("n", f"{field}_{_label(how)}"), expected)

    @rule(second=st.integers(0, 900))
    def run_once(self, second):
        self.world.clock.advance(max(0, self.at(second) / 1e9 - self.world.clock.now_us() / 1e6))
        now_ns = self.world.clock.now_us() * 1000
        keep_ns = [rule.keep_ns for rule in self.metrics.rules() if hasattr(rule, "keep_ns")]
        before = self.floor
        self._make(now_ns)

        self.metrics.run_once()

        self._take_floor()
        if self.made_by is not None and keep_ns:
            assert self.floor <= max(before, now_ns - keep_ns[0])
            return
        if keep_ns:
            assert self.floor in (before, now_ns - keep_ns[0])
            old = [at for points in self.points.values() for at in points if at >= self.floor]
            assert all(at >= now_ns - keep_ns[0] for at in old)

    def _take_floor(self) -> None:
        with host_of(self.world.store).reading() as fold:
            found = fold.catalogue.find("m")
            if found is not None and found.floor_seq:
                assert found.floor >= self.floor
                self.floor = found.floor

    @rule()
    def checkpoint(self):
        before = digest(self.world.store)
        self._make(self.world.clock.now_us() * 1000)

        self.world.store.checkpoint()  # which lets the view apply its rules

        if not self.metrics.rules():
            assert digest(self.world.store) == before
        self._take_floor()

    @rule(wanted=st.integers(0, 1 << 20))
    def evict(self, wanted):
        with host_of(self.world.store).reading() as fold:
            fold.evict(wanted)

    @rule(end=st.sampled_from(("reopen", "kill")))
    def begin_again(self, end):
        self._take_floor()
        before = digest(self.world.store)

        getattr(self.world, end)()
        self._open()

        self._take_floor()
        assert digest(self.world.store) == before

    @rule()
    def fold_again(self):
        before = digest(self.world.store)

        rebuild(self.world.store, tail=self.tail)

        assert digest(self.world.store) == before

    @invariant()
    def names_are_right(self):
        if not hasattr(self, "metrics"):
            return
        alive = [column for column in self.points if self.live(column)]
        expected = sorted({tags_in_order(column) for column in alive})
        found = [tuple(sorted(tags.items())) for tags in self.metrics.series("m")]
        assert sorted(found) == expected
        report = self.metrics.cardinality().measurements.get("m")
        if report is None:
            assert expected == []
            return
        assert report.series == len(expected)
        hosts = {column.host for column in alive if column.host}
        assert report.tags.get("host", 0) == len(hosts)

    def teardown(self):
        if hasattr(self, "metrics"):
            shorten(host_of(self.world.store).fold, 16)
            self.fold_again()
            for field in FIELDS:
                self.read(field, 0, 10_000)
            self.world.store.close()


def _assert_alike(answer, expected: Outcomes) -> None:
    found = {(tuple(sorted(row.tags.items())), row.at): row.value for row in answer}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(+value, rel=1e-9, abs=1e-6), key


def _fitting(how: str, outcomes: Outcomes) -> Outcomes:
    """Without sums that an int64 cannot hold."""
    return {
        key: value
        for key, value in outcomes.items()
        if how != "sum" or isinstance(value, float) or -(2**63) <= value < 2**63
    }


def _label(how: str) -> str:
    return "p25" if how == "percentile(25)" else how


TestMetrics = MetricsMachine.TestCase
TestMetrics.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
