"""Raises and logs the floors of a topic as retention requires.

``log/retention/retention.py`` computes the floor; this module decides when that happens, by which
clock, and when the floor is logged: always before a change that would make it impossible to compute
the same floor again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from strandline.errors import StrandlineError
from strandline.log.append.append import flush_waiting
from strandline.log.catalog import Catalog
from strandline.log.read.read import NO_CUTOFF
from strandline.log.retention import retention
from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.reader import Reader
from strandline.log.wal.shard import Shard
from strandline.platform.clock import Clock


class RetentionFloors:
    """The floors of one topic. Without a shard the store is open read-only."""

    def __init__(
        self,
        state: TopicState,
        shard: Shard | None,
        reader: Callable[[], Reader],
        clock: Clock,
    ) -> None:
        self._state = state
        self._shard = shard
        self._reader = reader
        self._clock = clock

    def refresh(self) -> None:
        """Update the floors, before a read or statistics."""
        if not retention.is_limited(self._state):
            return
        shard = self._shard
        if shard is None:
            self._apply()
            return
        with shard.maintenance:
            self._apply()
            if self._is_hard_to_recompute():
                with contextlib.suppress(StrandlineError):
                    self._log(shard)

    def enforce_now(self, shard: Shard) -> None:
        """Apply caps and ttl and put the floor on the log."""
        with shard.maintenance:
            self.enforce(shard)

    def enforce(self, shard: Shard) -> None:
        """As ``enforce_now``, with the maintenance lock held."""
        self._apply()
        self._log(shard)

    def cutoff(self) -> int:
        """The time before which records have expired by their ttl."""
        config = self._state.config
        if not config.ttl_ms or config.views:
            return NO_CUTOFF
        return self._now_us() - config.ttl_ms * 1000

    def expire(self, floor: int) -> None:
        """Raise the floor to a seq below which a read of the lake has found expired records."""
        shard = self._shard
        with contextlib.nullcontext() if shard is None else shard.maintenance:
            retention.raise_floor(self._state, TopicReader(self._state, self._reader), floor, "ttl")

    def _apply(self) -> None:
        state = self._state
        if state.config.discard != "old" and not state.config.ttl_ms:
            return  # the other kind of cap rejects appends instead
        if retention.is_limited(state):
            pieces = TopicReader(state, self._reader)
            if retention.enforce(state, pieces, self._now_us()):
                self._shrink_memory()

    def _log(self, shard: Shard) -> None:
        state = self._state
        if state.evict_floor <= state.evict_logged:
            return
        message = control_messages.Evicted(state.evict_floor, state.evict_reason)
        shard.writer.acquire()
        try:
            flush_waiting(state, shard, message.evict_floor)
            shard.writer.place_control(state.id, message)
        finally:
            shard.writer.release()
        state.evict_logged = message.evict_floor

    def _is_hard_to_recompute(self) -> bool:
        """Whether a restart may compute another floor: the clock was set back, or an ephemeral
        topic has older records in the log or in segments."""
        state = self._state
        ephemeral = state.config.durability == "ephemeral"
        displaced = ephemeral and bool(state.runs or state.tail.locations)
        return displaced or self._clock.now_us() < state.last_ts

    def _now_us(self) -> int:
        """Now in commit time, which continues when the wall clock is set back."""
        state, shard = self._state, self._shard
        now_us = self._clock.now_us()
        if now_us >= state.last_ts or shard is None:
            return max(now_us, state.last_ts)
        with shard.writer.lock:
            return max(shard.writer.stamp(), state.last_ts)

    def _shrink_memory(self) -> None:
        """Release evicted records that are in no file and will never be in one."""
        state = self._state
        with state.guard:
            if state.memory is not None and state.config.durability == "ephemeral":
                rest = state.memory.from_seq(state.floor)
                # A checkpoint will not count them either, if the topic is logged later.
                released = state.memory.payload_before(rest.first_seq)
                state.payload -= released
                state.gone_payload -= released
                state.memory = rest


def enforce_all(catalog: Catalog, reader: Callable[[], Reader], clock: Clock) -> None:
    """Apply caps, ttl and idempotency windows to every topic: one run of the retention job."""
    failure: Exception | None = None
    for state in catalog.states():
        if state.idempotency is not None and state.home is not None:
            with state.guard:
                state.forget_expired_keys(state.home.writer.elapsed.now_us())
        if retention.is_limited(state) and not state.dropped:
            shard = catalog.shard_of(state)
            try:
                RetentionFloors(state, shard, reader, clock).enforce_now(shard)
            except (OSError, StrandlineError) as error:
                failure = failure or error  # the damage of one topic does not stop the others
    if failure is not None:
        raise failure
