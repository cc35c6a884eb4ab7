"""Reports lost records: a gap at the end of a topic, with its reason, on the log.

For routers: what a source has lost before it was forwarded is missing in the destination as well,
and readers of the destination get a tombstone for it. The gap has a seq for each record that may
be missing, and the message on the log has a producer's number (``log/state/producer_seq.py``): the
seq of the source up to which this router has reported losses. So the same loss is reported once,
also after a crash, and a second one is never mistaken for the first. Adjoining gaps of one reason
are stored as one.

Readers may pass a gap as soon as it is published, so its seqs must not be given to records after a
power loss: an ``fsync`` topic publishes it after the sync, other topics reserve its seqs before.
"""

from __future__ import annotations

import functools

from strandline.errors import UnknownTopic
from strandline.log.append.append import flush_memory, reserve, update_fast_limit
from strandline.log.recovery.replay import lose_tail
from strandline.log.state import producer_seq
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.shard import Shard
from strandline.records import BatchNumber


def report_loss(
    state: TopicState, shard: Shard, count: int, reason: str, reporter: BatchNumber | None = None
) -> None:
    """Put a gap of ``count`` seqs after the newest record. Returns once it is published."""
    mark = b"" if reporter is None else producer_seq.encode(reporter)
    is_placed = False
    while not is_placed:
        lsn, is_placed = _try_place(state, shard, count, reason, mark)
        if lsn:
            shard.committer.wait_synced(lsn)


def _try_place(
    state: TopicState, shard: Shard, count: int, reason: str, mark: bytes
) -> tuple[int, bool]:
    """The lsn to sync to now (0: none), and whether the gap is placed."""
    writer = shard.writer
    with shard.maintenance:
        writer.acquire()
        try:
            if state.dropped:
                raise UnknownTopic(f"topic {state.name!r} was deleted: create it again")
            if state.next_seq != state.head_seq + 1:
                # Appends of an fsync topic are in progress: they are published before the gap.
                return writer.end_lsn, False
            reserved_at = reserve(state, shard, count)
            if reserved_at:
                return reserved_at, False
            return _place(state, shard, count, reason, mark), True
        finally:
            writer.release()


def _place(state: TopicState, shard: Shard, count: int, reason: str, mark: bytes) -> int:
    durability = state.config.durability
    if state.memory is not None:
        if durability == "memory":
            flush_memory(state, shard)
        else:
            state.memory.close_piece()
    last_seq = state.next_seq + count - 1
    message = control_messages.TailLost(state.next_seq, last_seq, state.epoch, reason, mark)
    shard.writer.place_control(state.id, message)
    publish = functools.partial(_publish, state, message)
    if durability != "fsync":
        publish()
        return 0
    state.next_seq = last_seq + 1
    return shard.committer.publish_when_synced(publish)


def _publish(state: TopicState, message: control_messages.TailLost) -> None:
    """Make the gap visible to readers. The writer's lock is held."""
    lose_tail(state, message)
    update_fast_limit(state)
    if state.waiters:
        state.wake()
