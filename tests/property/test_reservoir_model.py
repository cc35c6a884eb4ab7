"""Promise: whatever sessions do, in any order, with checkpoints, lost replies, reopenings and
crashes in between, a reservoir has the pages that a dictionary for each version has."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.config.settings import ReservoirSettings
from strandline.errors import Conflict, ObjectStoreUnreachable
from strandline.reservoir import object_keys
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

KEEP_VERSIONS = 2
PAGE_IDS = st.integers(1, 12)
DATA = st.builds(
    lambda text, times: text * times, st.binary(max_size=4), st.sampled_from([0, 1, 30, 150])
)
SESSIONS = st.integers(0, 2)
Pages = dict[int, bytes]


class ReservoirMachine(RuleBasedStateMachine):
    """A reservoir of tiny files, three sessions, and what each of them should see."""

    @initialize(compression=st.sampled_from(["none", "zstd"]))
    def begin(self, compression):
        self.objects, self.disk, self.clock = SimObjects(), SimDisk(), SimClock()
        self.compression = compression
        self.durable: dict[int, tuple[bytes, Pages]] = {}
        self._open()

    def _open(self, at: int | None = None) -> None:
        """Open the newest version, or a named one, and go on from what the model has of it."""
        newest = max(self.durable, default=0)
        self.reservoir = Reservoir(
            self.objects,
            settings=ReservoirSettings(
                file_bytes=400,
                snapshot_interval=3,
                retained_versions=KEEP_VERSIONS,
                compression=self.compression,
            ),
            at=at,
            disk=self.disk,
            clock=self.clock,
        )
        found = newest if at is None else at
        meta, pages = self.durable.get(found, (b"", {}))
        assert self.reservoir.recovered.version == found
        assert self.reservoir.recovered.passed_over == self.reservoir.recovered.missing == ()
        assert self.reservoir.meta == meta
        self.durable = {n: each for n, each in self.durable.items() if n <= found}
        for made in range(newest + 1, self.reservoir.version + 1):  # one, and a snapshot at times
            self.durable[made] = meta, dict(pages)
        self.committed: Pages = dict(pages)
        self.next_version = self.reservoir.version + 1
        assert self.next_version <= newest + 3
        self.pending: tuple[int, bytes, Pages] | None = None
        self.sessions = [self.reservoir.session() for _ in range(3)]
        self.changes: list[dict[int, bytes | None]] = [{}, {}, {}]

    def teardown(self):
        if hasattr(self, "reservoir"):
            self.reservoir.close()

    def _change(self, number: int, page_id: int, data: bytes | None) -> None:
        session = self.sessions[number]
        others = (each for at, each in enumerate(self.changes) if at != number)

        def change():
            if data is None:
                session.delete(page_id)
            else:
                session.write(page_id, data)

        if any(page_id in each for each in others):
            with pytest.raises(Conflict):
                change()
            return
        change()
        self.changes[number][page_id] = data

    @rule(number=SESSIONS, page_id=PAGE_IDS, data=DATA)
    def write(self, number, page_id, data):
        self._change(number, page_id, data)

    @rule(number=SESSIONS, page_id=PAGE_IDS)
    def delete(self, number, page_id):
        self._change(number, page_id, None)

    @rule(number=SESSIONS, pages=st.lists(st.tuples(PAGE_IDS, DATA), max_size=6))
    def write_many(self, number, pages):
        ids, data = [page_id for page_id, _ in pages], [each for _, each in pages]
        others = [each for at, each in enumerate(self.changes) if at != number]
        if any(page_id in each for page_id in ids for each in others):
            with pytest.raises(Conflict):
                self.sessions[number].write_many(ids, data)
            return
        self.sessions[number].write_many(ids, data)
        self.changes[number].update(pages)

    @rule(number=SESSIONS)
    def commit(self, number):
        self.sessions[number].commit()
        for page_id, data in self.changes[number].items():
            self.committed.pop(page_id, None)
            if data is not None:
                self.committed[page_id] = data
        self.changes[number] = {}

    @rule(number=SESSIONS, closing=st.booleans())
    def roll_back(self, number, closing):
        if closing:
            self.sessions[number].close()
            self.sessions[number] = self.reservoir.session()
        else:
            self.sessions[number].rollback()
        self.changes[number] = {}

    @rule(meta=st.binary(max_size=3))
    def checkpoint(self, meta):
        self._settled()

        version = self.reservoir.checkpoint(meta)

        assert version == self.reservoir.version == self.next_version
        self.durable[version] = meta, dict(self.committed)
        self.next_version += 1

    @rule(meta=st.binary(max_size=3), how=st.sampled_from(["before", "after"]))
    def checkpoint_without_a_reply(self, meta, how):
        self.objects.fail("create", how=how, key_contains=object_keys.CHECKPOINTS)
        with pytest.raises(ObjectStoreUnreachable):
            self.reservoir.checkpoint(meta)
        self.objects.heal()
        if self.pending is None:
            self.pending = self.next_version, meta, dict(self.committed)
            self.next_version += 1
        if how == "after":
            version, meta, pages = self.pending
            self.durable[version] = meta, pages

    def _settled(self) -> None:
        """A checkpoint first creates the one that is pending."""
        if self.pending is not None:
            version, meta, pages = self.pending
            self.durable[version] = meta, pages
            self.pending = None

    @rule()
    def reset(self):
        self.reservoir.reset()
        self.committed = {}

    @rule(compression=st.sampled_from(["none", "zstd"]))
    def reopen(self, compression):
        self.reservoir.close()
        self.compression = compression
        self._open()

    @rule()
    def crash(self):
        """Nobody closes it: what it still uploads comes late."""
        self._open()

    @precondition(lambda self: len(self.durable) > 1)
    @rule(back=st.integers(0, KEEP_VERSIONS))
    def recover_a_recent_version(self, back):
        version = max(self.durable) - back
        if self._is_recoverable(version):
            self.reservoir.close()
            self._open(at=version)

    @rule(back=st.integers(0, KEEP_VERSIONS))
    def read_a_recent_version(self, back):
        version = max(self.durable) - back
        if not self._is_recoverable(version):
            return
        with Reservoir(self.objects, at=version, readonly=True, disk=self.disk) as reader:
            assert (reader.meta, _pages(reader)) == self.durable[version]

    def _is_recoverable(self, version):
        """Version 1 is the empty one that a reservoir begins with: its name stays, and it is not to
        be recovered once version 2 is gone, which may have been left behind."""
        return version in self.durable and (version > 1 or max(self.durable) <= 2)

    @invariant()
    def everybody_sees_what_the_model_says(self):
        if not hasattr(self, "reservoir"):
            return
        assert _pages(self.reservoir) == self.committed
        assert len(self.reservoir) == len(self.committed)
        for session, changes in zip(self.sessions, self.changes, strict=True):
            seen = {
                n: each for n, each in {**self.committed, **changes}.items() if each is not None
            }
            assert _pages(session) == seen


def _pages(reader) -> Pages:
    found = ((page_id, reader.read(page_id)) for page_id in range(14))
    return {page_id: data for page_id, data in found if data is not None}


TestReservoir = ReservoirMachine.TestCase
TestReservoir.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
