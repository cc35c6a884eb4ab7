"""Carries a delete out: find what it hits, put it on the log, make it visible.

Looking for what a delete hits may take long, and nothing may fail once it is on the log; so all is
found first. ``topic/deletes.py`` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from pyroaring import BitMap64

from strandline.errors import UnknownTopic
from strandline.topic import deletes
from strandline.topic.append import flush_waiting
from strandline.topic.floors import Floors
from strandline.topic.parting import losing
from strandline.topic.pieces import Pieces
from strandline.topic.state import TopicState
from strandline.wal import control
from strandline.wal.reader import Reader
from strandline.wal.shard import Shard


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """What a delete did."""

    deleted: int
    earliest_seq: int
    head_seq: int


class Deleting:
    """Deletes records of one topic. Safe from many threads."""

    def __init__(
        self, state: TopicState, shard: Shard, reader: Callable[[], Reader], floors: Floors
    ) -> None:
        self._state = state
        self._shard = shard
        self._reader = reader
        self._floors = floors

    def delete(self, before: int | None, match: str | None) -> Deleted:
        """Below a seq, with a tag, or both."""
        state, shard = self._state, self._shard
        while True:
            # Looking into the lake may take long, so nobody waits for it behind a lock.
            cold = None if match is None else state.cold
            cold_seqs = deletes.find_tagged_cold(state, cold, match or "")
            with shard.maintenance:
                if cold is None or cold is state.cold:
                    done = self._carry_out(self._message(before, match, cold_seqs))
                    break
        return self._durable(done)

    def let_go(self, seqs: BitMap64, before: int) -> Deleted:
        """These records, and all below a seq."""
        with self._shard.maintenance:
            bound = min(before, self._state.head_seq + 1)
            done = self._carry_out(control.RecordsDeleted(bound, seqs.serialize() if seqs else b""))
        return self._durable(done)

    def _message(
        self, before: int | None, match: str | None, cold_seqs: BitMap64
    ) -> control.RecordsDeleted:
        state = self._state
        self._floors.enforce(self._shard)
        bound = state.head_seq + 1 if before is None else min(before, state.head_seq + 1)
        if match is None:
            return control.RecordsDeleted(bound, b"")
        seqs = deletes.find_tagged(state, match, bound, cold_seqs)
        return control.RecordsDeleted(0, seqs.serialize() if seqs else b"")

    def _carry_out(self, message: control.RecordsDeleted) -> Deleted:
        """The maintenance lock is held."""
        state, shard = self._state, self._shard
        count = state.live_count
        hit = deletes.hit_by(state, Pieces(state, self._reader), message)
        below = max(hit.floor, hit.seqs.max() + 1 if hit.seqs else 0)
        with losing(state, below):
            shard.writer.acquire()
            try:
                if state.dropped:
                    raise UnknownTopic(f"topic {state.name!r} was deleted: create it again")
                flush_waiting(state, shard, below)
                shard.writer.place_control(state.id, message)
            finally:
                shard.writer.release()
            deletes.apply_delete(state, hit)
        return Deleted(
            deleted=count - state.live_count,
            earliest_seq=state.earliest_seq,
            head_seq=state.head_seq,
        )

    def _durable(self, done: Deleted) -> Deleted:
        if self._state.config.durability == "fsync":
            self._shard.committer.wait_synced(self._shard.writer.end_lsn)
        return done
