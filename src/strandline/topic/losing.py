"""Tells of records that never came: a gap at the end of a topic, with its reason, on the log.

For routers: what a source has lost before it was forwarded is missing in the destination as well,
and whoever reads there must learn of it. The gap has a seq for each record that may be missing.
"""

from __future__ import annotations

from strandline.errors import UnknownTopic
from strandline.topic.append import flush_memory, set_fast_lane
from strandline.topic.replay import lose_tail
from strandline.topic.state import TopicState
from strandline.wal import control
from strandline.wal.shard import Shard


def tell_loss(state: TopicState, shard: Shard, count: int, reason: str) -> None:
    """Put a gap of so many seqs behind the newest record. Told once: not right behind another."""
    while not _try_tell(state, shard, count, reason):
        # Appends of an fsync topic are under way: they are published before the gap.
        shard.committer.wait_synced(shard.writer.end_lsn)


def _try_tell(state: TopicState, shard: Shard, count: int, reason: str) -> bool:
    writer = shard.writer
    with shard.maintenance:
        writer.acquire()
        try:
            if state.dropped:
                raise UnknownTopic(f"topic {state.name!r} was deleted: create it again")
            if state.next_seq != state.head_seq + 1:
                return False
            if not _is_told(state, reason):
                _tell(state, shard, count, reason)
            return True
        finally:
            writer.release()


def _is_told(state: TopicState, reason: str) -> bool:
    """Whether the newest thing in the topic is such a gap: a crash came before the next record."""
    gap = state.gaps[-1] if state.gaps else None
    return gap is not None and gap.last_seq == state.head_seq and gap.reason == reason


def _tell(state: TopicState, shard: Shard, count: int, reason: str) -> None:
    if state.memory is not None:
        if state.config.durability == "memory":
            flush_memory(state, shard)
        else:
            state.memory.close_piece()
    last_seq = state.next_seq + count - 1
    message = control.TailLost(state.next_seq, last_seq, state.epoch, reason)
    shard.writer.place_control(state.id, message)
    lose_tail(state, message)
    set_fast_lane(state)
    if state.waiters:
        state.wake()
