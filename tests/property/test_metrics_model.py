"""Promise: whatever is written to a metrics view, in any order, it answers as plain lists do.

Points in order, late, twice, in batches of many shapes, in plain records, of the wrong kind, before
the floor; rules that keep and downsample; saves, evictions, reopenings, kills, records that leave
the log, and folding again, after each of which all that can be seen is the same.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strandline.errors import Invalid
from strandline.settings import ViewSettings
from tests.unit.store.world import World
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
WIDTHS = st.sampled_from((None, 7, 50, 1000))


class Column(NamedTuple):
    """One field of one series, in the model."""

    host: str
    zone: str
    field: str


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
        self.keeps = False
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
        return sorted(found, key=_tags)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=30))
    def write_lines(self, rows):
        text = "\n".join(_line(row, values, self.at(row[3])) for row, values in rows)
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
        text = "\n".join(_line(row, values, self.at(row[3])) for row, values in rows)
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
        text = _line(("", "x", (), second), {field: value}, self.at(second))
        self.world.store.topic(NAME).append(text.encode())

        assert digest(self.world.store) == before

    @rule(field=st.sampled_from(FIELDS), first=TIMES, size=st.integers(0, 400))
    def read(self, field, first, size):
        if not self.columns(field):
            return
        low, high = self.at(first), self.at(first + size)

        answer = self.metrics.read("m", field, first=low, next=high)

        expected = [
            (_tags(column), at, value)
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

        answer = self.metrics.aggregate(
            "m", how, field, window=width and width * SECOND, by=by, tags=tags, **bounds
        )

        expected = self._aggregated(field, how, width, by, zone, bounds)
        found = {(tuple(sorted(row.tags.items())), row.at): row.value for row in answer}
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert found[key] == pytest.approx(+value, rel=1e-9, abs=1e-6), key

    def _aggregated(self, field, how, width, by, zone, bounds):
        groups: dict[tuple, dict[int, dict[Column, list]]] = {}
        for column in self.columns(field):
            if zone is not None and column.zone != zone:
                continue
            tags = dict(_tags(column))
            chosen = tags if by == "*" else {tag: tags.get(tag, "") for tag in by}
            group = groups.setdefault(tuple(sorted(chosen.items())), {})
            for at, value in self.live(
                column, bounds.get("first", -math.inf), bounds.get("next", math.inf)
            ):
                window = 0 if width is None else at // (width * SECOND)
                group.setdefault(window, {}).setdefault(column, []).append((at, value))
        outcome = {}
        for tags, windows in groups.items():
            for window, columns in windows.items():
                value = _outcome(how, columns)
                if value is not None:
                    at = _first_at(how, columns) if width is None else window * width * SECOND
                    outcome[tags, at] = value
        return outcome

    @rule(seconds=st.integers(1, 500))
    def keep(self, seconds):
        self.metrics.keep("m", f"{seconds}s")
        self.keeps = True

    @rule(second=st.integers(0, 900))
    def retain(self, second):
        self.world.clock.advance(max(0, self.at(second) / 1e9 - self.world.clock.now_us() / 1e6))
        now_ns = self.world.clock.now_us() * 1000
        keep_ns = [rule.keep_ns for rule in self.metrics.rules()]
        before = self.floor

        self.metrics.run_once()

        self._take_floor()
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

        self.world.store.checkpoint()

        if not self.keeps:
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
        expected = sorted({_tags(column) for column in alive})
        found = [tuple(sorted(tags.items())) for tags in self.metrics.series("m")]
        assert sorted(found) == expected
        report = self.metrics.cardinality()
        assert report.series == len(expected)
        if expected:
            hosts = {column.host for column in alive if column.host}
            assert report.measurements["m"].tags.get("host", 0) == len(hosts)

    def teardown(self):
        if hasattr(self, "metrics"):
            shorten(host_of(self.world.store).fold, 16)
            self.fold_again()
            for field in FIELDS:
                self.read(field, 0, 10_000)
            self.world.store.close()


def _tags(column: Column) -> tuple[tuple[str, str], ...]:
    tags = {"zone": column.zone}
    if column.host:
        tags["host"] = column.host
    return tuple(sorted(tags.items()))


def _line(row, values, at: int) -> str:
    host, zone = row[0], row[1]
    head = f"m,host={host},zone={zone}" if host else f"m,zone={zone}"
    return f"{head} {','.join(f'{name}={_raw(value)}' for name, value in values.items())} {at}"


def _raw(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "F"
    return f"{value}i" if isinstance(value, int) else repr(value)


def _first_at(how: str, columns) -> int:
    several = [points for points in columns.values() if how != "rate" or len(points) > 1]
    return min(points[0][0] for points in several)


def _outcome(how: str, columns):
    """The plainest way to say what an aggregate is."""
    if how == "rate":
        rates = [_rate(points) for points in columns.values() if len(points) > 1]
        return sum(rates) if rates else None
    ranked = sorted(columns.items(), key=lambda item: _tags(item[0]))
    together = [
        (at, rank, value) for rank, (_, points) in enumerate(ranked) for at, value in points
    ]
    values = sorted(value for _, _, value in together)
    if how.startswith("percentile"):
        rank = 0.25 * (len(values) - 1)
        low = values[math.floor(rank)]
        return low + (values[math.ceil(rank)] - low) * (rank - math.floor(rank))
    return {
        "avg": lambda: math.fsum(values) / len(values),
        "sum": lambda: sum(values) if isinstance(values[0], int) else math.fsum(values),
        "count": lambda: len(values),
        "min": lambda: values[0],
        "max": lambda: values[-1],
        "first": lambda: min(together)[2],
        "last": lambda: max(together)[2],
    }[how]()


def _rate(points) -> float:
    rise = 0.0
    for (_, before), (_, value) in pairwise(points):
        rise += value if value < before else value - before
    return rise / ((points[-1][0] - points[0][0]) / SECOND)


TestMetrics = MetricsMachine.TestCase
TestMetrics.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
