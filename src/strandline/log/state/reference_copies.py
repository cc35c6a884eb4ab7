"""Copies that the log only refers to: how they are placed, kept and lost.

A router copies records of one topic into another. The log has them already, so it is not given them
again: a ``Copied`` message says which records of which topic the new ones are, and the copies stay
in memory until a checkpoint has written them to a segment, as it does with all others. After a
crash they are made again of their originals (``log/recovery/resolve_copies.py``). So however many
routers a topic has, a record is written to the log once.

That needs the originals. They are on the log before the message that refers to them, and stay in
some file until a checkpoint leaves them out because they are deleted or evicted. So whoever makes
records go says so first (``log/append/detach_copies.py``): copies that are only in memory and
refer to them
are put on the log, as records, and are found there in place of the message. A checkpoint waits
until the log is synced, so they are durable before any file is without their originals.

Nobody may refer to records that are about to go. ``losses`` of a topic is odd while some go; who
copies reads it before he reads the records, and when he places the copies, under the lock of their
topic's writer, it must not have changed:

    who copies                              who makes records go
    read losses (even), read records        losses + 1
    lock; register; losses the same?        for each topic that was registered: lock, flush
    place; unlock                           floor or deletes change; losses + 1

If he places before the flush, the flush puts his copies on the log; if after, he sees the change.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.log.state.memory_tail import MemoryTail
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.block import Draft

COPIES_MAX = 1024
"""Records that one message refers to at most."""

MESSAGE_SIZE_MIN = 64
"""Bytes of a message on the log at least."""


class Origin(NamedTuple):
    """The records that a batch is made of copies of."""

    source: TopicState
    losses: int
    """Of the source, before the records were read."""
    first_seq: int
    seqs: bytes
    """All of them, as a roaring bitmap."""
    kept: int
    """The columns that are copied besides data, as bits of ``log/wal/block.py``."""


class Outdated(Exception):
    """Records of the source have gone since they were read: read again."""


def check(origin: Origin, dest: TopicState) -> None:
    """Raise when a reference must not be placed. Lock of the copies' writer held."""
    register(origin.source, dest)
    if origin.source.losses != origin.losses or origin.source.dropped:
        raise Outdated


def register(source: TopicState, dest: TopicState) -> None:
    """Let whoever makes records of a topic go know that another refers to them."""
    if dest not in source.copies:
        source.copies = (*(known for known in source.copies if not known.dropped), dest)


def keep(
    state: TopicState, draft: Draft, first_seq: int, ts: int, seed: int, origin_seq: int
) -> None:
    """Keep copies in memory, behind all other records of their topic."""
    if state.memory is None:
        state.memory = MemoryTail(state.id, first_seq, seed)
    state.memory.add_draft(first_seq, draft, ts)
    state.memory.origins[first_seq] = origin_seq
