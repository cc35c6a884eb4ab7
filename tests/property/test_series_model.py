"""Promise: whatever comes to a series, in any order, it answers as a plain list of points does.

Points on time, within the jitter window, late, twice, and before the floor; plain records; floors;
saves, reopenings, kills, and folding again, after each of which all that can be seen is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strandline.config.settings import ViewSettings
from strandline.errors import PointsRefused
from strandline.views.series.source_state import memory_of
from strandline.views.series.values import Point
from tests.unit.store.world import World
from tests.unit.views.series.series_world import NAME, host_of, open_series, rebuild

SOURCES = (0, "bus", b"tram", "ship")
NAMES = (b"0", b"bus", b"tram", b"ship")
OFFSETS = st.integers(-60, 200)
LIMITS = st.sampled_from((0, 0, 1, 3, 1000))
SIZES = st.sampled_from((0, 1, 3, 40, 500))
"""How often a few bytes are repeated: nothing, what is kept with the index, and what is not."""
CLOCK_RETENTION = 60 * 86_400 * 1_000_000
MESSAGES = {"floor": "before the floor", "future": "in the future"}
SOME = st.lists(st.sampled_from(range(4)), unique=True, max_size=4)


class Known(NamedTuple):
    """A point of the model."""

    at: int
    seq: int
    payload: bytes
    version: int


class SeriesMachine(RuleBasedStateMachine):
    """A series in a simulated store, and the list of points that it should be."""

    @initialize(
        jitter=st.sampled_from((0, 5, 50)),
        durability=st.sampled_from(("disk", "fsync")),
        retention=st.sampled_from((0, 0, 150)),
        level=st.sampled_from((0, 0, 1)),
        inline_bytes=st.sampled_from((256, 256, 4, 0)),
        retention_by=st.sampled_from(("newest", "clock")),
        future_max=st.sampled_from((0, 0, 100)),
    )
    def begin(self, jitter, durability, retention, level, inline_bytes, retention_by, future_max):
        self.world = World(views=ViewSettings(memory_bytes=32 << 20))
        self.level = level
        self.retention = retention
        if retention_by == "clock" and not retention:
            self.retention = CLOCK_RETENTION
        self.by_clock = retention_by == "clock"
        self.future_max = future_max
        self.options = {
            "retention_by": retention_by,
            "future_max": future_max,
            "jitter": jitter,
            "retention": retention,
            "durability": durability,
            "inline_bytes": inline_bytes,
        }
        self.series = open_series(self.world.store, level=level, **self.options)
        self.base = self.world.clock.now_us()
        self.points: dict[bytes, list[Known]] = {name: [] for name in NAMES}
        self.floor: int | None = None
        self.refused = 0

    @property
    def topic(self):
        return self.world.store.topic(NAME)

    def live(self, which: int, start=None, end=None, limit=0) -> list[Known]:
        found = sorted(
            point
            for point in self.points[NAMES[which]]
            if (self.floor is None or point.at >= self.floor)
            and (start is None or point.at >= start)
            and (end is None or point.at <= end)
        )
        return found[:limit] if limit else found

    def refuses(self, at: int) -> str | None:
        """Why a point would be refused now, None when it would not."""
        if self.floor is not None and at < self.floor:
            return "floor"
        ceiling = self.world.clock.now_us() + self.future_max
        return "future" if self.future_max and at > ceiling else None

    def due_floor(self) -> int | None:
        """Where retention alone would put the floor."""
        now = self.world.clock.now_us()
        newest = max((p.at for points in self.points.values() for p in points), default=None)
        if self.by_clock:
            return now - self.retention
        if not self.retention or newest is None:
            return None
        return min(newest, now + self.future_max if self.future_max else newest) - self.retention

    @rule(
        which=st.sampled_from(range(4)),
        offset=OFFSETS,
        version=st.sampled_from((0, 0, 3)),
        size=SIZES,
    )
    def append(self, which, offset, version, size):
        at = self.base + offset
        payload = b"%d" % offset * size
        if (reason := self.refuses(at)) is not None:
            with pytest.raises(PointsRefused, match=MESSAGES[reason]) as refusal:
                self.series.append(SOURCES[which], at, payload, version=version)
            assert refusal.value.refused == ((0, at, reason),)
            self.refused += 1
            return
        seq = self.series.append(SOURCES[which], at, payload, version=version).first_seq
        self.points[NAMES[which]].append(Known(at, seq, payload, version))

    @rule(
        which=st.sampled_from(range(4)),
        offset=OFFSETS,
        step=st.integers(-2, 4),
        count=st.integers(1, 90),
        together=st.booleans(),
        sizes=st.lists(SIZES, min_size=1, max_size=3),
        drop_refused=st.booleans(),
    )
    def append_a_burst(self, which, offset, step, count, together, sizes, drop_refused):
        batch = [
            (
                SOURCES[(which + n) % 4 if together else which],
                self.base + offset + n * step,
                b"%d" % n * sizes[n % len(sizes)],
            )
            for n in range(count)
        ]
        reasons = [self.refuses(at) for _, at, _ in batch]
        refused = tuple(
            (n, at, reason)
            for n, ((_, at, _), reason) in enumerate(zip(batch, reasons, strict=True))
            if reason is not None
        )
        self.refused += len(refused)
        if refused and not drop_refused:
            with pytest.raises(PointsRefused) as refusal:
                self.series.append_many(batch, version=1)
            assert refusal.value.refused == refused
            return
        done = self.series.append_many(batch, version=1, drop_refused=drop_refused)
        taken = [point for point, reason in zip(batch, reasons, strict=True) if reason is None]
        assert not drop_refused or done.refused == refused
        assert done.last_seq - done.first_seq + 1 == len(taken)
        for n, (source, at, payload) in enumerate(taken):
            known = Known(at, done.first_seq + n, payload, 1)
            self.points[NAMES[SOURCES.index(source)]].append(known)

    @rule(which=st.none() | st.sampled_from(range(4)), passed=st.integers(0, 30))
    def append_a_plain_record(self, which, passed):
        self.world.clock.advance(passed / 1e6)
        key = None if which is None else NAMES[which]
        seq = self.topic.append(b"plain", key=key, meta=b"mine").first_seq
        if key is not None:
            (record,) = self.topic.read(seq - 1, 1).records
            self.points[key].append(Known(record.ts, seq, b"plain", 0))

    @rule(which=st.sampled_from(range(4)), first=OFFSETS, size=st.integers(-5, 200), limit=LIMITS)
    def read_one(self, which, first, size, limit):
        start, end = self.base + first, self.base + first + size

        found = self.series.range(SOURCES[which], start, end, limit=limit)

        assert _known(found) == self.live(which, start, end, limit)

    @rule(wanted=SOME, first=OFFSETS, size=st.integers(-5, 200), limit=LIMITS)
    def read_many(self, wanted, first, size, limit):
        start, end = self.base + first, self.base + first + size

        found = self.series.range([SOURCES[n] for n in wanted], start, end, limit=limit)

        expected = {SOURCES[n]: self.live(n, start, end, limit) for n in wanted}
        assert {source: _known(points) for source, points in found.items()} == expected

    @rule(first=OFFSETS, size=st.integers(-5, 200), limit=LIMITS)
    def read_all(self, first, size, limit):
        start, end = self.base + first, self.base + first + size

        found = self.series.range_all(start, end, limit=limit)

        expected = {NAMES[n]: self.live(n, start, end, limit) for n in range(4)}
        assert list(found) == sorted(found)
        assert {name: _known(points) for name, points in found.items()} == {
            name: points for name, points in expected.items() if points
        }

    @rule(wanted=SOME, first=OFFSETS, stop=st.integers(1, 300), limit=LIMITS)
    def visit(self, wanted, first, stop, limit):
        start = self.base + first
        seen: list[Point] = []

        count = self.series.visit(
            lambda point: seen.append(point) or len(seen) < stop,
            [SOURCES[n] for n in wanted],
            start,
            limit=limit,
        )

        expected = [point for n in wanted for point in self.live(n, start, None, limit)]
        assert _known(seen) == expected[:stop]
        assert count == len(seen)

    @rule()
    def read_latest(self):
        found = self.series.read_latest()

        newest = {name: self.live(n) for n, name in enumerate(NAMES)}
        expected = {name: points[-1] for name, points in newest.items() if points}
        assert {name: _known([point])[0] for name, point in found.items()} == expected
        for n, name in enumerate(NAMES):
            assert self.series.latest(SOURCES[n]) == found.get(name)

    @rule(wanted=st.none() | SOME, first=OFFSETS, window=st.integers(0, 100), limit=LIMITS)
    def read_from_available(self, wanted, first, window, limit):
        start = self.base + first
        given = range(4) if wanted is None else wanted
        earliest = min((p.at for n in given for p in self.live(n, start)), default=None)

        found = self.series.earliest(
            None if wanted is None else [SOURCES[n] for n in wanted], start
        )
        end, points = self.series.range_from_available(
            [SOURCES[n] for n in given], start, window, limit=limit
        )

        assert found == earliest
        if earliest is None:
            assert (end, points) == (None, {})
            return
        assert end == earliest + window
        assert {source: _known(known) for source, known in points.items()} == {
            SOURCES[n]: self.live(n, earliest, end, limit) for n in given
        }

    @rule(offset=OFFSETS)
    def raise_the_floor(self, offset):
        floor = self.base + offset

        done = self.series.run_retention(floor)

        self.floor = floor if self.floor is None else max(floor, self.floor)
        assert done.floor == self.floor

    @rule()
    def retain(self):
        due = self.due_floor()

        self.series.run_retention()

        if due is not None:
            self.floor = due if self.floor is None else max(due, self.floor)

    @rule()
    def checkpoint(self):
        before, due = self.floor, self.due_floor()

        self.world.store.checkpoint()

        self.floor = self.series.statistics().floor
        if self.floor != before:  # by itself, as far as it was due
            assert before is None or before < self.floor
            assert self.floor == due

    @rule(wanted=st.integers(0, 1 << 20))
    def evict(self, wanted):
        with host_of(self.world.store).reading() as fold:
            fold.evict(wanted)

    @rule()
    def write_what_waits(self):
        self.series.wait_for_pending()

        assert self.series.statistics().pending == 0

    @rule(end=st.sampled_from(("reopen", "kill")))
    def begin_again(self, end):
        before = host_of(self.world.store).digest()

        getattr(self.world, end)()

        self.series = open_series(self.world.store, level=self.level, **self.options)
        self.refused = 0
        assert host_of(self.world.store).digest() == before

    @rule()
    def fold_again(self):
        before = host_of(self.world.store).digest()

        rebuild(self.world.store)

        host_of(self.world.store).fold.index.tuning.level = self.level
        assert host_of(self.world.store).digest() == before

    @invariant()
    def numbers_are_right(self):
        if not hasattr(self, "series"):
            return
        statistics = self.series.statistics()
        alive = sum(len(self.live(n)) for n in range(4))
        with host_of(self.world.store).reading() as fold:
            tails = fold.sources.hot.values()
            assert fold.sources.tail_points == sum(len(source.ats) for source in tails)
            kept = sum(sum(memory_of(source.payloads)) for source in tails)
            assert fold.sources.payload_bytes == kept
        assert statistics.refused == self.refused
        assert statistics.floor == self.floor
        assert alive <= statistics.points <= sum(map(len, self.points.values()))

    @invariant()
    def no_live_record_has_left_the_log(self):
        if hasattr(self, "series"):
            wanted = sorted((p.seq, p.payload) for n in range(4) for p in self.live(n))
            records = self.topic.get_many([seq for seq, _ in wanted]).records
            assert [(record.seq, record.data) for record in records] == wanted

    def teardown(self):
        if hasattr(self, "series"):
            self.fold_again()
            self.read_all(-1000, 10_000, 0)
            self.world.store.close()


def _known(points) -> list[Known]:
    return [Known(point.at, point.seq, point.payload, point.version) for point in points]


TestSeries = SeriesMachine.TestCase
TestSeries.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
)
