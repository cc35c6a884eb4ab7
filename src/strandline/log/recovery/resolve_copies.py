"""Creates copies from their originals after a crash: what ``Copied`` messages refer to.

While the log is replayed, a message only advances the topic's next seq, and its copies are pending.
If they are found on the log as records (``log/append/detach_copies.py``), those are used. What is
still pending at the end is created from the originals, wherever they are by then, also when they
are deleted or below the floor: they existed when they were copied. Copies of copies wait for their
originals, whatever the order of the shards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from pyroaring import BitMap64

from strandline.errors import Corrupt
from strandline.log.read.page import BlockSlice, Page, PageColumns, Row
from strandline.log.state import reference_copies
from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import block, control_messages
from strandline.log.wal.block import Block, Draft

Find = Callable[[int], TopicState | None]
_COLUMNS = ((block.KEY, 2), (block.TAG, 3), (block.NODE, 4), (block.META, 5))


class PendingCopies:
    """Copies that the log refers to and that are not created yet. Owned by one thread."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._by_topic: dict[int, deque[control_messages.Copied]] = {}

    def add(self, topic_id: int, message: control_messages.Copied) -> None:
        self._by_topic.setdefault(topic_id, deque()).append(message)

    def remove_logged(self, topic_id: int, content: Block) -> bool:
        """Whether a block of the log is the next pending message of its topic; then remove that."""
        waiting = self._by_topic.get(topic_id)
        if not waiting or waiting[0].first_seq != content.first_seq:
            return False
        waiting.popleft()
        return True

    def forget(self, topic_id: int) -> None:
        """Drop the pending copies of a deleted topic."""
        self._by_topic.pop(topic_id, None)

    def resolve(self, find: Find, pieces: Callable[[TopicState], TopicReader]) -> list[TopicState]:
        """Create the pending copies; return the topics that still have some."""
        moved = True
        while moved:
            moved = False
            for topic_id, waiting in self._by_topic.items():
                state = find(topic_id)
                while waiting and state is not None and self._create(state, waiting, find, pieces):
                    moved = True
        states = [find(topic_id) for topic_id, waiting in self._by_topic.items() if waiting]
        return [state for state in states if state is not None]

    def first_missing(self, topic_id: int) -> int | None:
        """The first pending seq of a topic, None when there is none."""
        waiting = self._by_topic.get(topic_id)
        return waiting[0].first_seq if waiting else None

    def missing(self, topic_id: int) -> list[tuple[int, int]]:
        """First and last seqs of all pending messages."""
        waiting = self._by_topic.get(topic_id, ())
        return [(each.first_seq, each.first_seq + each.count - 1) for each in waiting]

    def _create(
        self,
        state: TopicState,
        waiting: deque[control_messages.Copied],
        find: Find,
        pieces: Callable[[TopicState], TopicReader],
    ) -> bool:
        message = waiting[0]
        source = find(message.source_id)
        tail = state.tail.firsts
        if source is None or (tail and tail[-1] > message.first_seq):
            return False
        seqs = BitMap64.deserialize(message.seqs)
        missing = self.first_missing(source.id)
        if missing is not None and seqs.max() >= missing:
            return False
        try:
            columns = read_raw(pieces(source), seqs)
        except (LookupError, IndexError, Corrupt):
            return False
        draft = draft_of(columns, message.kept, message.mark)
        reference_copies.add_copies(
            state, draft, message.first_seq, message.ts, self._seed, columns.seqs[0]
        )
        reference_copies.register(source, state)
        state.payload += draft.payload_size
        waiting.popleft()
        return True


def read_raw(pieces: TopicReader, seqs: BitMap64) -> PageColumns:
    """Read these records, deleted or not."""
    parts: list[BlockSlice | list[Row]] = []
    ordered = list(seqs)
    place = 0
    while place < len(ordered):
        piece = pieces.at(ordered[place])
        if isinstance(piece, tuple):
            first, rows = piece
            last_seq = first + len(rows) - 1
        else:
            first, last_seq = piece.first_seq, piece.first_seq + piece.count - 1
        following = place
        while following < len(ordered) and ordered[following] <= last_seq:
            following += 1
        chosen = [seq - first for seq in ordered[place:following]]
        if isinstance(piece, tuple):
            parts.append([(first + at, *piece[1][at]) for at in chosen])
        else:
            parts.append(BlockSlice(piece, 0, piece.count, np.array(chosen, dtype="<i8")))
        place = following
    page = Page(parts, following=0, head_seq=0, epoch=0, tombstone=None)
    return page.columns()


def draft_of(columns: PageColumns, kept: int, mark: bytes) -> Draft:
    """The copies as a block, with the columns that are kept."""
    draft = block.draft(columns.data)
    for bit, place in _COLUMNS:
        values = columns[place]
        if kept & bit and any(value is not None for value in values):
            draft.add(bit, values)
    if mark:
        draft.add_idempotency(mark)
    return draft
