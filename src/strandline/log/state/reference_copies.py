"""Copies that the log only refers to: how they are placed, kept and detached.

A router copies records of one topic into another. The log has them already, so they are not written
again: a ``Copied`` message has the topic and the seqs of the originals, and the copies stay in
memory until a checkpoint has written them to a segment, like all other records. After a crash they
are created again from their originals (``log/recovery/resolve_copies.py``). So a record is written
to the log once, whatever the number of routers.

That needs the originals. They are on the log before the message that refers to them, and stay in
some file until a checkpoint leaves them out because they are deleted or evicted. So every removal
of records first detaches their copies (``log/append/detach_copies.py``): copies that are only in
memory and refer to them are logged as records, and replay finds those in place of the message. A
checkpoint waits until the log is synced, so they are durable before any file lacks their originals.

No message may refer to records that are being removed. ``losses`` of a topic is odd during a
removal. A copier reads it before it reads the records; when it places the copies, under the lock of
their topic's writer, ``losses`` must be unchanged:

    copier                                  removal
    read losses (even), read records        losses + 1
    lock; register; losses the same?        for each topic that was registered: lock, flush
    place; unlock                           floor or deletes change; losses + 1

If it places before the flush, the flush logs its copies; if after, it sees the change.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.log.state.memory_tail import MemoryTail
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.block import Draft

COPIES_MAX = 1024
"""The most records that one message refers to."""

MESSAGE_SIZE_MIN = 64
"""The fewest bytes of a message on the log."""


class CopyOrigin(NamedTuple):
    """The originals of a batch of copies."""

    source: TopicState
    losses: int
    """``losses`` of the source, before the records were read."""
    first_seq: int
    seqs: bytes
    """The seqs of all originals, as a roaring bitmap."""
    kept: int
    """The columns that are copied besides data, as bits of ``log/wal/block.py``."""


class OriginsChanged(Exception):
    """Records of the source were removed since they were read: read again."""


def check(origin: CopyOrigin, dest: TopicState) -> None:
    """Raise when a reference must not be placed. Lock of the copies' writer held."""
    register(origin.source, dest)
    if origin.source.losses != origin.losses or origin.source.dropped:
        raise OriginsChanged


def register(source: TopicState, dest: TopicState) -> None:
    """Register a topic whose copies refer to the source: removals from the source detach them."""
    if dest not in source.copies:
        source.copies = (*(known for known in source.copies if not known.dropped), dest)


def add_copies(
    state: TopicState, draft: Draft, first_seq: int, ts: int, seed: int, origin_seq: int
) -> None:
    """Keep copies in memory, after all other records of their topic."""
    if state.memory is None:
        state.memory = MemoryTail(state.id, first_seq, seed)
    state.memory.add_draft(first_seq, draft, ts)
    state.memory.origins[first_seq] = origin_seq
