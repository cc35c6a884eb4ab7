"""The topics of a store by name and id, and the shards that they belong to.

A topic's shard is a function of its id and the count of shards, so it may change with that count
between openings; within one opening it is fixed. Lock order: catalog, maintenance, writer.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import takewhile

from xxhash import xxh3_64_intdigest

from strandline.config.settings import LimitSettings, TopicConfig
from strandline.errors import Invalid, TooLarge, TopicExists, UnknownTopic
from strandline.lake.lake import Lake
from strandline.log.append.append import update_fast_limit
from strandline.log.append.detach_copies import detaching_copies, sync_copies
from strandline.log.state.tag_index import TagIndexes
from strandline.log.state.topic_state import TopicState, WaitHandle, release_all
from strandline.log.wal import control_messages
from strandline.log.wal.shard import Shard
from strandline.records import INTERNAL, check_topic_name


class Catalog:
    """All topics of a store. Safe from many threads once the shards are attached."""

    def __init__(
        self,
        limits: LimitSettings,
        lake: Lake | None = None,
        tag_indexes: TagIndexes | None = None,
    ) -> None:
        self._limits = limits
        self.lake = lake
        self.tag_indexes = tag_indexes
        self.lake_trash: set[int] = set()
        """Topics that were deleted and whose lake files are still to be deleted."""
        self._by_name: dict[str, TopicState] = {}
        self._by_id: dict[int, TopicState] = {}
        self._internal: set[int] = set()
        self._lock = threading.Lock()
        self.shards: list[Shard] = []
        self.next_topic_id = 1
        self.waiters: deque[WaitHandle] = deque()
        """Gates that are released when the next topic is created."""

    def __len__(self) -> int:
        return len(self._by_id)

    def count(self, *, internal: bool) -> int:
        """The number of topics, with or without the store's own."""
        return len(self._by_id) - (0 if internal else len(self._internal))

    def attach(self, shards: list[Shard]) -> None:
        """Give every topic its shard: the store is now open for writing."""
        self.shards = shards
        for state in self._by_id.values():
            self._assign_shard(state)

    def states(self) -> list[TopicState]:
        return list(self._by_id.values())

    def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in list(self._by_name) if name.startswith(prefix))

    def find(self, name: str) -> TopicState | None:
        return self._by_name.get(name) if isinstance(name, str) else None

    def newer(self, topic_id: int) -> list[TopicState]:
        """Topics that were created after one, newest first."""
        with self._lock:
            return list(takewhile(lambda state: state.id > topic_id, reversed(self.states())))

    def by_id(self, topic_id: int) -> TopicState | None:
        return self._by_id.get(topic_id)

    def get(self, name: str) -> TopicState:
        state = self.find(name)
        if state is None:
            raise UnknownTopic(f"there is no topic {name!r}: create it, or check the name")
        return state

    def shard_of(self, state: TopicState) -> Shard:
        return self.shards[state.shard]

    def create(self, name: str, config: TopicConfig, *, exist_ok: bool) -> TopicState:
        """Create a topic; with ``exist_ok`` return an existing one."""
        check_topic_name(name)
        with self._lock:
            state = self._by_name.get(name)
            if state is not None:
                if exist_ok:
                    return state
                raise TopicExists(f"topic {name!r} exists: alter it, or delete it first")
            topics_max = self._limits.topics_max
            if self.count(internal=False) >= topics_max and not name.startswith(INTERNAL):
                raise TooLarge(
                    f"the store has {topics_max} topics, its limit (topics_max): delete some"
                )
            state = self._new(name, config)
            release_all(self.waiters)
        if config.durability == "fsync":
            shard = self.shard_of(state)
            shard.committer.wait_synced(shard.writer.end_lsn)
        return state

    def drop(self, name: str, *, if_empty: bool) -> bool:
        """Delete a topic with all its records; False when there is none of that name."""
        with self._lock:
            state = self.find(name)
            if state is None:
                return False
            shard = self.shard_of(state)
            with shard.maintenance, detaching_copies(state, state.next_seq):
                sync_copies(state)
                shard.writer.acquire()
                try:
                    if if_empty and state.live_count:
                        raise Invalid(f"topic {name!r} has {state.live_count} records")
                    shard.writer.place_control(state.id, control_messages.TopicDeleted())
                    self.forget(state.id)
                    shard.unflushed.pop(state.id, None)
                finally:
                    shard.writer.release()
        shard.committer.wait_synced(shard.writer.end_lsn)
        return True

    def add(self, state: TopicState) -> None:
        """Add a topic that was created, or found by recovery."""
        state.lake = self.lake
        state.tag_indexes = self.tag_indexes
        state.limits = self._limits
        self._by_name[state.name] = state
        self._by_id[state.id] = state
        if state.name.startswith(INTERNAL):
            self._internal.add(state.id)
        self.next_topic_id = max(self.next_topic_id, state.id + 1)

    def transfer_state(self, old: TopicState) -> None:
        """Give an older state of a topic, which handles may hold, the content of this one's."""
        new = self._by_id.get(old.id)
        if new is None:
            old.dropped = True
            return
        for slot in TopicState.__slots__:
            if slot not in ("head_seq", "waiters"):
                setattr(old, slot, getattr(new, slot))
        old.head_seq = new.head_seq  # last: a lock-free reader looks up nothing above it
        self.add(old)
        old.wake()

    def forget(self, topic_id: int) -> None:
        """Remove a topic; handles to it are marked as dropped."""
        state = self._by_id.pop(topic_id, None)
        if state is not None:
            self._by_name.pop(state.name, None)
            self._internal.discard(topic_id)
            if state.cold is not None:
                self.lake_trash.add(topic_id)
            state.dropped = True
            state.tags = None
            state.fast_until = 0
            state.wake()

    def _new(self, name: str, config: TopicConfig) -> TopicState:
        topic_id = self.next_topic_id
        state = TopicState(topic_id, name, config, 0)
        self._assign_shard(state)
        writer = self.shard_of(state).writer
        writer.acquire()
        try:
            state.epoch = state.created_us = writer.stamp()
            writer.place_control(topic_id, control_messages.TopicCreated(name, config, state.epoch))
            self.next_topic_id = topic_id + 1
            self.add(state)
        finally:
            writer.release()
        return state

    def _assign_shard(self, state: TopicState) -> None:
        state.shard = xxh3_64_intdigest(state.id.to_bytes(8, "little")) % len(self.shards)
        state.home = self.shard_of(state)
        state.guard = state.home.writer.lock
        if state.idempotency is not None:
            window_us = state.config.idempotency_window_ms * 1000
            state.idempotency.open(state.home.writer.elapsed.now_us(), window_us, self._limits)
        update_fast_limit(state)
