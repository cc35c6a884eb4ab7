"""The newest records of a topic that are in no file.

The unflushed ones of ``memory`` topics, all of ``ephemeral`` ones, and copies of another topic's
records, which the log only refers to (``log/state/reference_copies.py``).

Pieces follow each other without gaps other than those of the topic. The last piece may be open, a
plain list that grows; the others are blocks. A reader may hold a ``MemoryTail`` that the topic has
already replaced.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from pyroaring import BitMap64

from strandline.log.segments import rows
from strandline.log.wal.block import Block, Draft

_ROWS_MAX = 4096

Row = tuple[int, Sequence[bytes | None], bytes]
"""ts, the fields key, tag, node and meta, the data."""


class MemoryTail:
    """Records in memory. Changed under the writer's lock, read without."""

    __slots__ = ("first_seq", "firsts", "origins", "pieces", "seed", "topic_id")

    def __init__(self, topic_id: int, first_seq: int, seed: int) -> None:
        self.topic_id = topic_id
        self.first_seq = first_seq
        self.seed = seed
        self.firsts: list[int] = []
        self.pieces: list[Block | list[Row]] = []
        self.origins: dict[int, int] = {}
        """For pieces that are copies, by first seq: the seq of the first original."""

    def add_row(self, seq: int, row: Row) -> None:
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, list) and len(last) < _ROWS_MAX:
            last.append(row)
            return
        self.close_piece()
        self.firsts.append(seq)
        self.pieces.append([row])

    def add_draft(self, seq: int, draft: Draft, ts: int) -> None:
        header, _ = draft.finish(self.seed, self.topic_id, seq, ts)
        content = b"".join([header, *draft.buffers])
        self.firsts.append(seq)
        self.pieces.append(Block(memoryview(content)))

    def close_piece(self) -> None:
        """End the last piece: the next row begins a new one, because seqs are skipped before it."""
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, list):
            self.pieces[-1] = self._block(rows.of_singles(self.firsts[-1], last))

    def find(self, seq: int) -> int:
        return bisect.bisect_right(self.firsts, seq, 0, len(self.pieces)) - 1

    def drafts(self) -> Iterator[tuple[int, int, Draft, int]]:
        """First seq, count, draft and ts of every piece, to be placed in the log."""
        for first_seq, piece in zip(self.firsts, self.pieces, strict=True):
            source = (
                rows.of_singles(first_seq, piece)
                if isinstance(piece, list)
                else rows.of_block(piece)
            )
            draft, _, ts_max = source.draft()
            key = piece.idempotency_key() if isinstance(piece, Block) else None
            if key is not None:
                draft.add_idempotency(key)
            yield first_seq, draft.count, draft, ts_max

    def from_seq(self, floor: int) -> MemoryTail:
        """The pieces from the one with a seq on."""
        keep = max(0, self.find(floor))
        rest = MemoryTail(self.topic_id, self.first_seq, self.seed)
        rest.firsts, rest.pieces = self.firsts[keep:], self.pieces[keep:]
        if rest.firsts:
            rest.first_seq = rest.firsts[0]
        return rest

    def after(self, seq: int) -> MemoryTail | None:
        """The pieces that begin after a seq, None when there are none."""
        place = bisect.bisect_right(self.firsts, seq)
        rest = MemoryTail(self.topic_id, self.first_seq, self.seed)
        rest.firsts, rest.pieces = self.firsts[place:], self.pieces[place:]
        if not rest.firsts:
            return None
        rest.first_seq = rest.firsts[0]
        rest.origins = {at: first for at, first in self.origins.items() if at > seq}
        return rest

    def payload_before(self, seq: int) -> int:
        """Payload bytes of the pieces that begin before a seq."""
        pieces = self.pieces[: bisect.bisect_left(self.firsts, seq)]
        return sum(
            sum(map(row_size, piece)) if isinstance(piece, list) else piece.payload_size
            for piece in pieces
        )

    def gone_payload(self, floor: int, deleted: BitMap64 | None) -> int:
        """Payload bytes of the records here that were evicted or deleted."""
        total = 0
        for first_seq, piece in zip(self.firsts, self.pieces, strict=True):
            sizes = [row_size(row) for row in piece] if isinstance(piece, list) else piece.sizes()
            for seq, size in enumerate(sizes, first_seq):
                if seq < floor or (deleted is not None and seq in deleted):
                    total += int(size)
        return total

    def _block(self, source: rows.RecordRows) -> Block:
        draft, _, ts_max = source.draft()
        header, _ = draft.finish(self.seed, self.topic_id, source.first_seq, ts_max)
        return Block(memoryview(b"".join([header, *draft.buffers])))


def row_size(row: Row) -> int:
    """Payload bytes of a row in memory."""
    return len(row[2]) + sum(len(field) for field in row[1] if field is not None)
