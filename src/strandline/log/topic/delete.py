"""Executes a delete: find the records, put the delete on the log, make it visible.

Finding the records may take long, and nothing may fail once the delete is on the log; so the
records are found first. ``log/state/delete_rules.py`` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from pyroaring import BitMap64

from strandline.errors import UnknownTopic
from strandline.log.append.append import flush_waiting
from strandline.log.append.detach_copies import detaching_copies
from strandline.log.read import tag_search
from strandline.log.retention.retention_floors import RetentionFloors
from strandline.log.state import delete_rules
from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.reader import Reader
from strandline.log.wal.shard import Shard


class DeleteResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a delete."""

    deleted: int
    earliest_seq: int
    head_seq: int


class RecordDeleter:
    """Deletes records of one topic. Safe from many threads."""

    def __init__(
        self, state: TopicState, shard: Shard, reader: Callable[[], Reader], floors: RetentionFloors
    ) -> None:
        self._state = state
        self._shard = shard
        self._reader = reader
        self._floors = floors

    def delete(self, before: int | None, match: str | None) -> DeleteResult:
        """Delete records below a seq, with a tag, or both."""
        result = None
        if match is None:
            with self._shard.maintenance:
                result = self._carry_out(control_messages.RecordsDeleted(self._bound(before), b""))
        while result is None:
            result = self._delete_tagged(before, match or "")
        return self._wait_durable(result)

    def trim(self, seqs: BitMap64, before: int) -> DeleteResult:
        """Delete these records, and all below a seq."""
        with self._shard.maintenance:
            bound = min(before, self._state.head_seq + 1)
            result = self._carry_out(
                control_messages.RecordsDeleted(bound, seqs.serialize() if seqs else b"")
            )
        return self._wait_durable(result)

    def _delete_tagged(self, before: int | None, match: str) -> DeleteResult | None:
        """None when the lake or the tag index changed meanwhile: the caller tries again."""
        state = self._state
        wanted = delete_rules.parse_tag_match(match)
        # The slow steps, searching the lake and building the index, come before the lock that other
        # topics need.
        cold = state.cold
        cold_seqs = delete_rules.find_tagged_cold(state, cold, match)
        pieces = TopicReader(state, self._reader)
        index = tag_search.index_of(state)
        with index.lock:
            tag_search.prepare(state, index, pieces)
            with self._shard.maintenance:
                bound = self._bound(before)
                seqs = tag_search.find(state, index, wanted, bound, cold_seqs)
                if cold is not state.cold or state.tags is not index:
                    return None
                message = control_messages.RecordsDeleted(0, seqs.serialize() if seqs else b"")
                result = self._carry_out(message)
            tag_search.drop_tags(state, index, wanted, bound)
        if state.tag_indexes is not None:
            state.tag_indexes.touch(state)
        return result

    def _bound(self, before: int | None) -> int:
        """The seq below which records may be deleted, after caps and ttl are applied."""
        state = self._state
        self._floors.enforce(self._shard)
        return state.head_seq + 1 if before is None else min(before, state.head_seq + 1)

    def _carry_out(self, message: control_messages.RecordsDeleted) -> DeleteResult:
        """Put the delete on the log and apply it. The maintenance lock is held."""
        state, shard = self._state, self._shard
        count = state.live_count
        hit = delete_rules.delete_effect(state, TopicReader(state, self._reader), message)
        below = max(hit.floor, hit.seqs.max() + 1 if hit.seqs else 0)
        with detaching_copies(state, below):
            shard.writer.acquire()
            try:
                if state.dropped:
                    raise UnknownTopic(f"topic {state.name!r} was deleted: create it again")
                flush_waiting(state, shard, below)
                shard.writer.place_control(state.id, message)
            finally:
                shard.writer.release()
            delete_rules.apply_delete(state, hit)
        return DeleteResult(
            deleted=count - state.live_count,
            earliest_seq=state.earliest_seq,
            head_seq=state.head_seq,
        )

    def _wait_durable(self, result: DeleteResult) -> DeleteResult:
        if self._state.config.durability == "fsync":
            self._shard.committer.wait_synced(self._shard.writer.end_lsn)
        return result
