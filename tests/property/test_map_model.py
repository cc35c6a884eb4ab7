"""Promise: whatever is done to a paged map, in any order, it answers as a sorted dict does.

Tiny pages, so that leaves and branches split, merge and borrow all the time; memory from none to
plenty, with a spill and without; saves, reopenings, and crashes back to the last checkpoint.
"""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.config.settings import ReservoirSettings
from strandline.reservoir.btree.btree_map import Checkpointing, PagedMap, PageStore
from strandline.reservoir.btree.spill import UNIT_BYTES, Spill
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.reservoir.map_pages import MemoryPages

KEYS = st.one_of(
    st.integers(0, 400).map(b"%03d".__mod__),
    st.binary(max_size=3),
    st.builds(bytes.__mul__, st.binary(min_size=1, max_size=1), st.integers(0, 300)),
)
VALUES = st.binary(max_size=12) | st.builds(
    bytes.__mul__, st.binary(min_size=1, max_size=1), st.integers(0, 300)
)
BOUNDS = st.none() | KEYS


class MapMachine(RuleBasedStateMachine):
    """A map over pages in memory."""

    @initialize(
        page_bytes=st.sampled_from((128, 200, 1024)),
        ram_bytes=st.sampled_from((0, 3000, 20_000, 1 << 30)),
        spill_units=st.sampled_from((0, 2, 1000)),
        space=st.sampled_from((0, 5, (1 << 31) - 1)),
    )
    def begin(self, page_bytes, ram_bytes, spill_units, space):
        self.options = {"page_bytes": page_bytes, "ram_bytes": ram_bytes, "space": space}
        self.spill_units = spill_units
        self.spill: Spill | None = None
        self.disk = SimDisk()
        self.model: dict[bytes, bytes] = {}
        self.durable: dict[bytes, bytes] = {}
        self._begin_world()
        self._open()

    def _begin_world(self) -> None:
        self.pages: PageStore = MemoryPages()
        self.owner: Checkpointing = self.pages

    def _crash_world(self) -> None:
        self.pages.crash()

    def _open(self) -> None:
        if self.spill is not None:
            self.spill.close()
        if self.spill_units:
            size = self.spill_units * UNIT_BYTES
            self.spill = Spill("/spill", bytes_max=size, file_bytes=2 * UNIT_BYTES, disk=self.disk)
        self.map = PagedMap(self.pages, spill=self.spill, **self.options)

    @invariant()
    def the_count_is_exact(self):
        if hasattr(self, "map"):
            assert len(self.map) == len(self.model)

    @rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.map.put(key, value)
        self.model[key] = value

    @rule(first=st.integers(0, 400), count=st.integers(1, 60), size=st.integers(0, 60))
    def put_ascending(self, first, count, size):
        for n in range(first, first + count):
            self.put(b"%03d" % n, b"v" * size)

    @rule(first=st.integers(0, 400), count=st.integers(1, 60), size=st.integers(0, 60))
    def put_descending(self, first, count, size):
        for n in reversed(range(first, first + count)):
            self.put(b"%03d" % n, b"v" * size)

    @rule(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=40))
    def put_many(self, pairs):
        self.map.put_many(pairs)
        self.model.update(pairs)

    @rule(first=st.integers(0, 300), step=st.integers(1, 3), size=st.integers(0, 40))
    def put_many_in_order(self, first, step, size):
        self.put_many([(b"%03d" % n, b"w" * size) for n in range(first, 400, step)])

    @rule(key=KEYS)
    def delete(self, key):
        assert self.map.delete(key) == (key in self.model)
        self.model.pop(key, None)

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0, 1), count=st.integers(1, 80), step=st.integers(1, 3))
    def delete_some(self, share, count, step):
        keys = sorted(self.model)
        for key in keys[int(len(keys) * share) :: step][:count]:
            self.delete(key)

    @rule(keys=st.lists(KEYS, max_size=20))
    def look_up(self, keys):
        expected = [self.model.get(key) for key in keys]

        assert [self.map.get(key) for key in keys] == expected
        assert self.map.get_many(keys) == expected
        assert [key in self.map for key in keys] == [key in self.model for key in keys]

    @rule(first=BOUNDS, following=BOUNDS, reverse=st.booleans())
    def scan(self, first, following, reverse):
        found = list(self.map.range(first, following, reverse=reverse))

        assert found == self._between(first, following, reverse)

    @rule(prefix=KEYS, reverse=st.booleans())
    def scan_prefix(self, prefix, reverse):
        found = list(self.map.prefix(prefix, reverse=reverse))

        expected = [
            pair for pair in self._between(None, None, reverse) if pair[0][: len(prefix)] == prefix
        ]
        assert found == expected

    @rule(
        changes=st.lists(st.tuples(st.integers(0, 5), KEYS, st.none() | VALUES), max_size=15),
        reverse=st.booleans(),
    )
    def change_while_scanning(self, changes, reverse):
        scan = self.map.range(reverse=reverse)
        last: bytes | None = None

        for steps, key, value in changes:
            for found in itertools.islice(scan, steps):
                expected = self._behind(last, reverse)
                assert found == expected[0]
                last = found[0]
            if not self._behind(last, reverse):
                break
            if value is None:
                self.delete(key)
            else:
                self.put(key, value)

        assert list(scan) == self._behind(last, reverse)

    @rule()
    def first_and_last(self):
        keys = sorted(self.model) or [None]

        assert (self.map.first_key(), self.map.last_key()) == (keys[0], keys[-1])

    @rule()
    def check(self):
        self.map.check()

    @rule()
    def save(self):
        self.map.save()

        assert self.map.statistics().unsaved_pages == 0

    @rule()
    def checkpoint(self):
        self.map.checkpoint(self.owner, b"meta")
        self.durable = dict(self.model)

    @rule()
    def reopen(self):
        self.map.save()
        self._open()

        self.map.check()

    @rule()
    def crash(self):
        self._crash_world()
        self._open()
        self.model = dict(self.durable)

        self.map.check()
        assert list(self.map.range()) == self._between(None, None, False)

    def _between(self, first, following, reverse) -> list[tuple[bytes, bytes]]:
        return [
            (key, self.model[key])
            for key in sorted(self.model, reverse=reverse)
            if (first is None or first <= key) and (following is None or key < following)
        ]

    def _behind(self, last, reverse) -> list[tuple[bytes, bytes]]:
        if reverse:
            return self._between(None, last, reverse)
        return [
            pair for pair in self._between(None, None, reverse) if last is None or pair[0] > last
        ]

    def teardown(self):
        if hasattr(self, "map"):
            self.map.check()


TestMap = MapMachine.TestCase
TestMap.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


class ReservoirMapMachine(MapMachine):
    """The same over a real reservoir with small files; a crash is another opening of it."""

    def _begin_world(self) -> None:
        self.objects = SimObjects()
        self.reservoir: Reservoir | None = None
        self._crash_world()

    def _crash_world(self) -> None:
        if self.reservoir is not None:
            self.reservoir.close()
        self.reservoir = Reservoir(
            self.objects,
            settings=ReservoirSettings(file_bytes=4096, snapshot_interval=3, retained_versions=0),
            disk=self.disk,
            start_jobs=False,
        )
        self.pages = self.reservoir.session()
        self.owner = self.reservoir

    def teardown(self):
        super().teardown()
        if hasattr(self, "map") and self.reservoir is not None:
            self.reservoir.close()


TestReservoirMap = ReservoirMapMachine.TestCase
TestReservoirMap.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
