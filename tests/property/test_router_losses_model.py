"""Promise: whatever a source loses, each reader of a router's destination learns of it.

A source with a cap is trimmed, damaged and crashed between the rounds of two routers: one forwards
everything at least once, one forwards a tag exactly once. Readers of the destinations read a page
now and then. The model knows every record that was appended to the source, and what was missing
there when the routers looked. For each reader:

- between two records that it gets, tombstones count at least the matching records that it does not
  get;
- when routers and readers are up to date, tombstones have counted all that was missing: exactly
  that when nothing crashed, at least that otherwise.
"""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strandline.log.topic.gap_marker import report_loss
from strandline.testing.crash_choices import Newest, Oldest, Uniform
from tests.unit.routers.world import RouterWorld

CAP = 2
ROUTERS = {"all": {"guarantee": "at_least_once"}, "x": {"guarantee": "exactly_once", "filter": "x"}}
READERS = tuple((name, place) for name in ROUTERS for place in range(2))


class Reader:
    """Reads a destination, and counts what is reported missing."""

    def __init__(self) -> None:
        self.cursor = 0
        self.last_number = -1
        self.missed = 0
        """Since the last record."""
        self.missed_total = 0


class LossMachine(RuleBasedStateMachine):
    """A source that loses records, two routers, and two readers of each destination."""

    @initialize(
        source=st.sampled_from(("disk", "fsync")),
        dest=st.sampled_from(("disk", "fsync", "memory")),
        end=st.sampled_from(("close", "kill", "power loss")),
    )
    def begin(self, source, dest, end):
        self.world = RouterWorld()
        self.end = end
        self.tags: list[str] = []
        self.readers = {key: Reader() for key in READERS}
        self.seen = 0
        self.missing_total = 0
        self.world.store.topic("source", durability=source, cap_records=CAP)
        for name, options in ROUTERS.items():
            self.world.store.topic(name, durability=dest)
            self.world.store.routers.put(name, source="source", dest=name, **options)

    @rule(tags=st.lists(st.sampled_from(("x", "y")), min_size=1, max_size=6))
    def append(self, tags):
        data = [b"%d" % (len(self.tags) + place) for place in range(len(tags))]
        self.world.store.topic("source").append_many(data, tags=tags)
        self.world.store.topic("source").enforce_retention()
        self.tags += tags

    @rule(count=st.sampled_from((1, 2, 300)), reason=st.sampled_from(("lost", "damaged")))
    def lose(self, count, reason):
        catalog = self.world.store._state.catalog
        state = catalog.find("source")
        report_loss(state, catalog.shard_of(state), count, reason)

    @rule(later_s=st.sampled_from((0.001, 2.0)))
    def forward(self, later_s):
        self._look()
        self.world.clock.advance(later_s)
        self.world.forward()

    def _look(self):
        """Count what the routers do not find."""
        source = self.world.store.topic("source")
        while self.seen < source.head_seq:
            page = source.read(self.seen)
            if page.tombstone is not None:
                self.missing_total += page.tombstone.missed
            self.seen = page.next

    @rule(name=st.sampled_from(tuple(ROUTERS)))
    def append_to_dest(self, name):
        self.world.store.topic(name).append(b"own")

    @rule(key=st.sampled_from(READERS), limit=st.integers(1, 3))
    def read(self, key, limit):
        self._read(key, limit)

    def _read(self, key, limit):
        reader = self.readers[key]
        page = self.world.store.topic(key[0]).read(reader.cursor, limit)
        if page.tombstone is not None:
            reader.missed += page.tombstone.missed
            reader.missed_total += page.tombstone.missed
        for data in page.data:
            if data != b"own":
                self._take(key, int(data))
        moved = page.next != reader.cursor
        reader.cursor = page.next
        return moved

    def _take(self, key, number):
        """A reader gets a record: what should lie before it was reported."""
        reader = self.readers[key]
        left_out = self.tags[reader.last_number + 1 : number]
        matching = [tag for tag in left_out if key[0] in ("all", tag)]
        assert len(matching) <= reader.missed, f"{key} misses {len(matching)} before {number}"
        if number > reader.last_number:
            reader.last_number, reader.missed = number, 0

    @rule()
    def settle(self):
        self.forward(0.001)
        for key, reader in self.readers.items():
            while self._read(key, 100):
                pass
            assert reader.missed_total >= self.missing_total, key
            assert self.end != "close" or reader.missed_total == self.missing_total, key

    @rule()
    def checkpoint(self):
        self.world.store.checkpoint()

    @rule(choices=st.sampled_from((Oldest(), Newest(), None)), seed=st.integers(0, 100))
    def stop_and_open_again(self, choices, seed):
        if self.end == "close":
            self.world.reopen()
        elif self.end == "kill":
            self.world.kill()
        else:
            self.world.disk = self.world.disk.crash(choices or Uniform(random.Random(seed)))
            self.world.store = self.world.opened()

    @invariant()
    def no_cursor_is_beyond_the_head(self):
        for (name, _), reader in self.readers.items():
            assert reader.cursor <= self.world.store.topic(name).head_seq


TestLosses = LossMachine.TestCase
TestLosses.settings = settings(max_examples=120, stateful_step_count=30)
