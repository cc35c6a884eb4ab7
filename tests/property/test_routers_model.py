"""Promise: whatever is done to topics and their routers, a destination is what a model says.

The model knows every record of the source and, for each router, which of them it has seen. With
filters that change, records of the destination's own, deletes on either side, checkpoints, clean
restarts and kills. At every step:

- a destination has, in this order, what its router took and what was appended there, but for what
  was deleted, each under the seq that it was given;
- a router has seen no more than the model says, and missed nothing that it should take.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.routers.world import RouterWorld

TAGS = st.sampled_from((None, "eu", "eu-west", "us"))
FILTERS = st.sampled_from((None, "eu", "eu*", ["tag", "In", ["us", "eu"]]))
NAMES = ("x", "y")


def passes(tag: str | None, written: object) -> bool:
    if written is None:
        return True
    if isinstance(written, list):
        return tag in written[2]
    if written.endswith("*"):
        return tag is not None and tag.startswith(written[:-1])
    return tag == written


class RouterMachine(RuleBasedStateMachine):
    """A source, and two routers that take of it."""

    @initialize(durability=st.sampled_from(("disk", "fsync")))
    def begin(self, durability):
        self.world = RouterWorld()
        self.source: list[tuple[bytes, str | None]] = []
        self.gone: set[int] = set()
        self.filters: dict[str, object] = dict.fromkeys(NAMES)
        self.cursors = dict.fromkeys(NAMES, 0)
        self.totals = dict.fromkeys(NAMES, 0)
        self.dests: dict[str, dict[int, bytes]] = {name: {} for name in NAMES}
        self.heads = dict.fromkeys(NAMES, 0)
        self.world.store.topic("source", durability=durability)
        for name in NAMES:
            self._put(name)

    def _put(self, name):
        self.world.store.routers.put(
            name,
            source="source",
            dest=f"to-{name}",
            filter=self.filters[name],
            guarantee="exactly_once",
        )

    @rule(tags=st.lists(TAGS, min_size=1, max_size=5))
    def append(self, tags):
        data = [b"%d" % (len(self.source) + place) for place in range(len(tags))]
        self.world.store.topic("source").append_many(data, tags=tags)
        self.source += zip(data, tags, strict=True)

    @rule()
    def forward(self):
        self.world.forward()
        for name in NAMES:
            for seq in range(self.cursors[name] + 1, len(self.source) + 1):
                data, tag = self.source[seq - 1]
                if seq not in self.gone and passes(tag, self.filters[name]):
                    self._take(name, data)
                    self.totals[name] += 1
            self.cursors[name] = len(self.source)

    def _take(self, name, data):
        self.heads[name] += 1
        self.dests[name][self.heads[name]] = data

    @rule(name=st.sampled_from(NAMES), written=FILTERS)
    def change(self, name, written):
        self.filters[name] = written
        self._put(name)

    @rule(name=st.sampled_from(NAMES))
    def append_to_dest(self, name):
        self.world.store.topic(f"to-{name}").append(b"own", tag="own")
        self._take(name, b"own")

    @rule(share=st.floats(0, 1))
    def delete_from_source(self, share):
        before = 1 + round(share * len(self.source))
        self.world.store.topic("source").delete(before=before)
        self.gone |= set(range(1, before))

    @rule(tag=st.sampled_from(("eu", "us")))
    def delete_tag_from_source(self, tag):
        self.world.store.topic("source").delete(match=tag)
        self.gone |= {seq for seq, (_, had) in enumerate(self.source, 1) if had == tag}

    @rule(name=st.sampled_from(NAMES), share=st.floats(0, 1))
    def delete_from_dest(self, name, share):
        before = 1 + round(share * self.heads[name])
        self.world.store.topic(f"to-{name}").delete(before=before)
        kept = self.dests[name]
        self.dests[name] = {seq: data for seq, data in kept.items() if seq >= before}

    @rule()
    def checkpoint(self):
        self.world.store.checkpoint()

    @rule()
    def restart(self):
        self.world.reopen()

    @rule()
    def kill(self):
        self.world.clock.advance(0.1)
        self.world.kill()

    @invariant()
    def destinations_are_what_the_model_says(self):
        for name in NAMES:
            records = self.world.store.topic(f"to-{name}").read(0, 10_000).records
            assert {record.seq: record.data for record in records} == self.dests[name]

    @invariant()
    def positions_are_what_the_model_says(self):
        for name in NAMES:
            found = self.world.store.routers.get(name)
            passed = [
                seq
                for seq in range(found.cursor + 1, self.cursors[name] + 1)
                if seq not in self.gone and passes(self.source[seq - 1][1], self.filters[name])
            ]
            # After a kill a router may look again at what it did not take.
            assert found.cursor <= self.cursors[name]
            assert found.forwarded_total <= self.totals[name]
            assert not (passed and found.lag == 0)


TestRouters = RouterMachine.TestCase
TestRouters.settings = settings(max_examples=60, stateful_step_count=30)
