"""Promise: whatever is done to a topic, in any order, it answers as the plain model does.

D10, B3, T1, T2 and rules 1 to 9 of the topic: appends in every form, with keys and numbers,
deletes, retention, a clock that jumps, checkpoints with sealing and merging, restarts clean and by
SIGKILL.
"""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import strandline
from strandline.config.settings import (
    LakeSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    TopicConfig,
    WalSettings,
    topic_config,
)
from strandline.errors import Conflict, TooLarge, TopicFull
from strandline.pipelines import Embedded, compact
from strandline.testing import strategies
from strandline.testing.model import RecordValues, TopicModel, as_arrow, as_columns
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

DURABILITIES = ("disk", "fsync", "memory")
FORMS = ("append_many", "append_arrow", "append_nowait")
REFUSALS = (Conflict, TopicFull, TooLarge)


class TopicMachine(RuleBasedStateMachine):
    """One topic under test, and a neighbour that shares its files."""

    lake = LakeSettings(hot_segments=1000)

    @initialize(
        durability=st.sampled_from(DURABILITIES),
        options=strategies.limits(),
        compression=st.sampled_from(("none", "zstd")),
        shards=st.sampled_from((1, 2)),
        seal_bytes=st.sampled_from((1, 2000, 1 << 20)),
    )
    def begin(self, durability, options, compression, shards, seal_bytes):
        segment = SegmentSettings(
            compression=compression, seal_bytes=seal_bytes, shared_files_max=2, block_records=7
        )
        self.settings = Settings(
            wal=WalSettings(shards=shards, file_size_first=8192, file_size_max=16384),
            segment=segment,
            lake=self.lake,
            space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
        )
        self.disk, self.clock = SimDisk(), SimClock()
        self.model = TopicModel(topic_config(TopicConfig(), {"durability": durability, **options}))
        self.jumped = False
        self.uncertain = set()
        self._open()
        self.topic = self.store.create_topic("topic", durability=durability, **options)

    def _open(self) -> None:
        self.store = strandline.open(
            "/data", disk=self.disk, clock=self.clock, settings=self.settings, start_jobs=False
        )
        self.neighbour = self.store.topic("neighbour")

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()

    @invariant()
    def the_head_is_where_the_model_says(self):
        if hasattr(self, "topic"):
            assert self.topic.head_seq == self.model.head_seq
            assert self.topic.config == self.model.config

    def _stamp(self) -> int:
        """What a record gets now: the wall clock, or more when it was set back; never less."""
        writer = self.store._state.catalog.shard_of(self.topic._state).writer
        with writer.lock:
            ts = writer.stamp()
        assert ts >= max(self.model.last_ts, self.clock.now_us())
        return ts

    def _now_us(self) -> int:
        """The time by which the topic counts: its stamps', when they are ahead of the clock."""
        now_us = self.clock.now_us()
        return now_us if now_us >= self.model.last_ts else self._stamp()

    def _elapsed_us(self) -> int:
        """The time by which windows of idempotency keys count."""
        return self.store._state.catalog.shard_of(self.topic._state).writer.elapsed.now_us()

    def _look(self) -> None:
        self.model.apply_retention(self._now_us())
        if self.model.last_ts > self.clock.now_us():
            self.model.log_floor()  # found by a time that a restart would not know

    def _append(self, batch, call, expected_head=None, key=None) -> None:
        """Append to both, and expect the same answer or the same refusal."""
        given = {"expected_head": expected_head, "idempotency_key": key}
        try:
            expected = self.model.append(
                batch,
                ts=self._stamp(),
                now_us=self._now_us(),
                elapsed_us=self._elapsed_us(),
                **given,
            )
        except REFUSALS as refusal:
            with pytest.raises(type(refusal)):
                call(**given)
            return
        assert call(**given) == expected

    @rule(values=strategies.values())
    def append_one(self, values: RecordValues):
        fields = {"key": values.key, "tag": values.tag, "node": values.node, "meta": values.meta}
        self._append([values], lambda **given: self.topic.append(values.data, **fields, **given))

    @rule(data=st.lists(strategies.payloads(), min_size=1, max_size=20))
    def append_plain_ones(self, data):
        for payload in data:
            self._append(
                [RecordValues(data=payload)], lambda *, at=payload, **_: self.topic.append(at)
            )

    @rule(
        batch=strategies.batches(),
        form=st.sampled_from(FORMS),
        key=st.none() | strategies.idempotency_keys() | strategies.numbers(),
        behind=st.sampled_from((None, None, None, 0, 1)),
    )
    def append_batch(self, batch, form, key, behind):
        if isinstance(key, bytes) and key in self.uncertain:
            key = None
        expected_head = None if behind is None else self.model.head_seq - behind
        if expected_head is not None and expected_head < 0:
            expected_head = None
        if form == "append_nowait":
            first = batch[0]
            batch = [RecordValues(data=v.data, tag=first.tag, key=first.key) for v in batch]
            data = [values.data for values in batch]

            def call(**given):
                return self.topic.append_nowait(data, tag=first.tag, key=first.key, **given).wait()

        elif form == "append_arrow":

            def call(**given):
                return self.topic.append_arrow(as_arrow(batch), **given)

        else:
            data = [values.data for values in batch]

            def call(**given):
                return self.topic.append_many(data, **as_columns(batch), **given)

        self._append(batch, call, expected_head, key)

    @precondition(lambda self: self.model.head_seq)
    @rule(
        share=st.none() | st.floats(0, 1.1),
        match=st.none() | st.sampled_from(strategies.MATCHES),
    )
    def delete(self, share, match):
        if share is None and match is None:
            return
        before = None if share is None else 1 + int(self.model.head_seq * share)

        gone = self.model.delete(now_us=self._now_us(), before=before, match=match)
        done = self.topic.delete(before=before, match=match)

        assert done.deleted == gone
        assert (done.earliest_seq, done.head_seq) == (
            self.model.earliest_seq,
            self.model.head_seq,
        )

    @rule(options=strategies.limits(), durability=st.none() | st.sampled_from(DURABILITIES))
    def alter(self, options, durability):
        if durability is not None:
            options = {**options, "durability": durability}

        self.model.alter(now_us=self._now_us(), **options)
        self.topic.alter(**options)

    @rule(seconds=st.sampled_from((0.0005, 0.001, 0.9, 1.0, 30, 60, 121)))
    def advance(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from((-0.5, -3600, 3600)))
    def jump(self, seconds):
        """No floor is ever lower than one that the log has seen."""
        self.alter({}, None)
        self.clock.jump_wall(seconds)
        self.jumped = True

    @rule()
    def enforce_retention(self):
        self.model.apply_retention(self._now_us())
        self.model.log_floor()

        self.topic.enforce_retention()

    @rule(
        share=st.floats(0, 1.2),
        limit=st.sampled_from((1, 2, 7, 100)),
        node=st.none() | st.sampled_from(strategies.NODES),
        epoch=st.sampled_from((None, None, 0, -1)),
    )
    def read(self, share, limit, node, epoch):
        after = int(self.model.head_seq * share)
        told = None if epoch is None else self.topic.epoch + epoch
        self._look()

        page = self.topic.read(after, limit, node=node, epoch=told)

        self.model.check_page(page, after=after, limit=limit, node=node, recreated=epoch == -1)
        table = page.arrow().to_pylist()
        assert page.data == [row["data"] for row in table]
        assert [row["seq"] for row in table] == [record.seq for record in page.records]

    @rule(limit=st.sampled_from((1, 5, 1000)), size_max=st.sampled_from((1, 100, 1 << 20)))
    def read_all_in_pages(self, limit, size_max):
        self._look()
        found, after = [], 0

        for _ in itertools.count():
            page = self.topic.read(after, limit, size_max=size_max)
            found += page.records
            if page.caught_up:
                break
            assert page.next > after, "a page that is not the last one moves on"
            after = page.next

        assert found == [record for _, record in sorted(self.model.live.items())]

    @rule(seconds=st.floats(-200, 200))
    def find_a_time(self, seconds):
        ts = self.clock.now_us() + int(seconds * 1e6)
        self._look()

        assert self.topic.cursor_at(ts) == self.model.cursor_at(ts)

    @rule()
    def statistics(self):
        self._look()

        found = self.topic.statistics()

        assert found.head_seq == self.model.head_seq
        assert found.earliest_seq == self.model.earliest_seq
        assert found.evict_floor == self.model.evict_floor
        assert found.count == len(self.model.live)
        assert found.payload_bytes == self.model.payload_bytes
        assert found.last_ts == self.model.last_ts

    @rule(noise=st.booleans())
    def checkpoint(self, noise):
        if noise:
            self.neighbour.append_many([b"x" * 50] * 3)

        self.store.checkpoint()
        self.model.log_floor()

    @rule()
    def sync(self):
        self.store.sync()

    @rule(shards=st.sampled_from((1, 2)))
    def reopen(self, shards):
        self.store.close()
        self._come_back(shards)

    @rule(shards=st.sampled_from((1, 2)))
    def kill(self, shards):
        if self.model.config.durability == "memory":
            self.alter({}, "disk")
        self.disk.power_off()
        self.disk = self.disk.kill()
        self.store.close()
        self._come_back(shards)

    def _come_back(self, shards) -> None:
        wal = WalSettings(shards=shards, file_size_first=8192, file_size_max=16384)
        self.settings = msgspec.structs.replace(self.settings, wal=wal)
        self._open()
        self.topic = self.store.existing_topic("topic")
        self.model.reopen(self._elapsed_us())
        if self.jumped:  # a restart has only the commit times, which jumped with the clock
            self.uncertain |= self.model.keys


TestTopic = TopicMachine.TestCase
TestTopic.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


class ColdTopicMachine(TopicMachine):
    """The same for a topic whose segments move into the lake.

    There a cap on bytes and the ttl take whole files, and a file counts until it leaves: the model,
    which counts every record, is asked only what is exact.
    """

    @initialize(
        durability=st.sampled_from(DURABILITIES),
        cap_records=st.sampled_from((0, 0, 10, 60)),
        compression=st.sampled_from(("none", "zstd")),
        shards=st.sampled_from((1, 2)),
        hot_segments=st.sampled_from((0, 1, 3)),
        zone_rows=st.sampled_from((1, 5, 100)),
        file_bytes=st.sampled_from((1, 1000)),
        copy_hot=st.booleans(),
    )
    def begin(
        self,
        durability,
        cap_records,
        compression,
        shards,
        hot_segments,
        zone_rows,
        file_bytes,
        copy_hot,
    ):
        self.lake = LakeSettings(
            hot_segments=hot_segments,
            copy_hot=copy_hot,
            zone_rows=zone_rows,
            file_bytes=file_bytes,
            cache_bytes=1000,
            grace_s=100.0,
            manifest_retention_s=100.0,
        )
        options = {"cap_records": cap_records}
        TopicMachine.begin(self, durability, options, compression, shards, seal_bytes=1)

    @rule()
    def relocate(self):
        self.store.relocate()
        self.model.log_floor()

    @rule(batches=st.integers(0, 3), file_bytes=st.sampled_from((500, 1 << 20)), seen=st.booleans())
    def somebody_else_compacts(self, batches, file_bytes, seen):
        """New segments, of which some are let go, then files merged without the store's help."""
        for _ in range(batches):
            self.append_plain_ones([b"x" * 9, b"yy"])
            self.checkpoint(noise=False)
        self.relocate()
        if self.topic._state.cold is None:
            return

        summary = compact(
            self.store.lake_objects,
            settings=LakeSettings(file_bytes=file_bytes, zone_rows=9),
            engine=Embedded(1),
            clock=self.clock,
        )

        assert not summary.skipped
        if seen:
            self.store._relocator._read_s.clear()
            self.relocate()

    @rule(
        cap_records=st.sampled_from((0, 10, 60)),
        durability=st.none() | st.sampled_from(DURABILITIES),
    )
    def alter(self, cap_records, durability):
        TopicMachine.alter(self, {"cap_records": cap_records}, durability)

    @rule(seconds=st.sampled_from((-0.5, -3600, 3600)))
    def jump(self, seconds):
        self.alter(self.model.config.cap_records, None)
        self.clock.jump_wall(seconds)
        self.jumped = True

    @rule(shards=st.sampled_from((1, 2)))
    def kill(self, shards):
        if self.model.config.durability == "memory":
            self.alter(self.model.config.cap_records, "disk")
        TopicMachine.kill(self, shards)

    @rule()
    def statistics(self):
        self._look()

        found = self.topic.statistics()

        assert found.earliest_seq == self.model.earliest_seq
        assert found.count == len(self.model.live)
        assert found.payload_bytes >= self.model.payload_bytes
        hot = self.model.payload_from(self.topic._state.hot_seq)
        assert found.payload_bytes == self._counted_cold() + hot

    def _counted_cold(self) -> int:
        state = self.topic._state
        cold = state.cold
        if cold is None:
            return 0
        places = [n for n in range(len(cold)) if cold.counted_last(n) >= state.floor]
        return sum(cold.counted(place) for place in places)

    @rule()
    def delete_everything(self):
        """Then nothing counts any more, whatever was moved, deleted or rewritten before."""
        if not self.model.head_seq:
            return
        self.model.delete(now_us=self._now_us(), before=self.model.head_seq + 1, match=None)

        self.topic.delete(before=self.model.head_seq + 1)

        assert self.topic.statistics().payload_bytes == 0


TestColdTopic = ColdTopicMachine.TestCase
TestColdTopic.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
