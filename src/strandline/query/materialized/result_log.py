"""The topic of a materialized query: commits of frames, each closed by a manifest.

    tag     data                                    meta
    frame   a table, an Arrow IPC stream            seq of the manifest that the commit is based on
    mark    a manifest, JSON                        the same

A commit is some frames and then a mark; frames without a mark are ignored. The mark also lists the
frames of older commits that are still used. Nothing else is stored about a query, so there are no
two places that could disagree: a query exists if and only if its topic has a mark.

A commit is appended to the head that was read with the manifest it is based on. Of two commits
based on the same manifest, the second is rejected (Conflict). A commit of more bytes than one
append may have is several appends, each to the head of the one before; if it ends between two, its
frames have no mark and are ignored. The next commit deletes them, with all frames that it replaces.
Deletes are in the log after their commit: a crash that loses the commit loses them, too.

A process that may not append drafts a commit: the same records, for the writer, to be appended to
that head or not at all. A draft cannot delete the frames that it replaces, so its manifest lists
them (``leaving``), and the next commit deletes them.

How the newest mark is found: the head is a mark; or it is a frame, whose meta is the seq of the
mark that it is based on, with no mark between. Seqs lost in a power loss are known gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import NotFound
from strandline.log.topic.topic import Topic
from strandline.query.materialized import frame_codec, manifest
from strandline.query.materialized.manifest import FrameRun, QueryManifest
from strandline.records import Record

FRAME, MARK = "frame", "mark"
FRAME_BYTES = 512 * 1024
_APPEND_BYTES = 16 << 20
_APPEND_FRAMES = 10_000


class CommitBase(NamedTuple):
    """The state that a commit is based on."""

    head: int
    """The topic's head when it was read."""
    cursor: int
    """The seq of the newest mark, 0 when there is none."""
    manifest: QueryManifest | None


class ResultPiece(NamedTuple):
    """Rows to commit."""

    part: int
    table: pa.Table
    newest_us: int = 0


class CommitDraft(NamedTuple):
    """A commit that is not appended yet."""

    topic: str
    expected_head: int
    """The head it must be appended to."""
    records: list[tuple[str, bytes]]
    """Tag and data of each record, in order; all with the same meta."""
    meta: bytes

    @property
    def last_seq(self) -> int:
        """The seq of the mark, when it is appended."""
        return self.expected_head + len(self.records)


class FramesGone(NotFound):
    """Frames were replaced by a later commit: read the newest manifest, and try again."""


class ResultLog:
    """The commits of one materialized query. Safe from many threads."""

    def __init__(self, topic: Topic, *, frame_bytes: int = FRAME_BYTES) -> None:
        self._topic = topic
        self._frame_bytes = frame_bytes

    @property
    def topic(self) -> Topic:
        return self._topic

    def newest(self) -> CommitBase:
        """The newest manifest, as the base of a commit."""
        head = self._topic.head_seq
        record = self.newest_mark(head)
        if record is None:
            return CommitBase(head, 0, None)
        return CommitBase(head, record.seq, manifest.decode(record.data))

    def newest_mark(self, seq: int) -> Record | None:
        """The last mark up to a seq."""
        while seq > 0:
            record = self._pick(seq)
            if record is None:
                seq = self._before_gap(seq)
            elif record.tag == MARK:
                return record
            else:
                seq = _based_on(record)
        return None

    def load(self, run: FrameRun) -> pa.Table:
        """The rows of a run; FramesGone when a later commit has replaced it."""
        page = self._topic.get_many(range(run.first, run.last + 1))
        if len(page) != run.last - run.first + 1:
            raise FramesGone(
                f"frames {run.first} to {run.last} of {self._topic.name!r} were replaced"
            )
        return frame_codec.unpack(page.data)

    def commit(
        self,
        base: CommitBase,
        pieces: Sequence[ResultPiece],
        close: Callable[[tuple[FrameRun, ...]], QueryManifest],
    ) -> CommitBase:
        """Append pieces, and the manifest that ``close`` makes of their runs; returns the new base.

        Conflict when another commit was appended since ``base`` was read; nothing is changed then.
        """
        meta = str(base.cursor).encode()
        head = base.head
        runs: list[FrameRun] = []
        for piece in pieces:
            packed = frame_codec.pack(piece.table, self._frame_bytes)
            first = 0
            for batch in _batches(packed):
                appended = self._topic.append(batch, tag=FRAME, meta=meta, expected_head=head)
                first, head = first or appended.first_seq, appended.last_seq
            runs.append(_run(piece, first, head, packed))
        new = close(tuple(runs))
        data = manifest.encode(new)
        appended_mark = self._topic.append(data, tag=MARK, meta=meta, expected_head=head)
        self._delete_replaced(base, new, appended_mark.first_seq)
        return CommitBase(appended_mark.head_seq, appended_mark.first_seq, new)

    def draft(
        self,
        base: CommitBase,
        pieces: Sequence[ResultPiece],
        close: Callable[[tuple[FrameRun, ...]], QueryManifest],
    ) -> CommitDraft:
        """The records that ``commit`` would append, for another process to append."""
        records: list[tuple[str, bytes]] = []
        runs: list[FrameRun] = []
        for piece in pieces:
            packed = frame_codec.pack(piece.table, self._frame_bytes)
            first = base.head + len(records) + 1
            records += [(FRAME, frame) for frame in packed]
            runs.append(_run(piece, first, base.head + len(records), packed))
        new = close(tuple(runs))
        closed = base.head + len(records) + 1
        leaving = _ranges(_replaced(base, new, closed))
        new = msgspec.structs.replace(new, leaving=leaving)
        records.append((MARK, manifest.encode(new)))
        return CommitDraft(self._topic.name, base.head, records, str(base.cursor).encode())

    def has(self, draft: CommitDraft) -> bool:
        """Whether a draft was appended; False also when a later commit has deleted it."""
        record = self._pick(draft.last_seq)
        return record is not None and record.data == draft.records[-1][1]

    def _delete_replaced(self, base: CommitBase, new: QueryManifest, closed: int) -> None:
        """Delete what the new manifest does not use: frames, older marks, unfinished commits."""
        self._topic.trim(_replaced(base, new, closed))

    def _pick(self, seq: int) -> Record | None:
        records = self._topic.get_many([seq]).records
        return records[0] if records else None

    def _before_gap(self, seq: int) -> int:
        """The seq before the gap that contains this seq; or, if it was deleted, the one before."""
        firsts = [first for first, last in self._topic.gaps_below(seq + 1) if seq <= last]
        return min(firsts, default=seq) - 1


def _run(piece: ResultPiece, first: int, last: int, packed: Sequence[bytes]) -> FrameRun:
    return FrameRun(
        part=piece.part,
        first=first,
        last=last,
        rows=piece.table.num_rows,
        size=sum(map(len, packed)),
        newest_us=piece.newest_us,
    )


def _replaced(base: CommitBase, new: QueryManifest, closed: int) -> BitMap64:
    """Seqs up to the new mark that are no longer used."""
    old = BitMap64()
    if base.manifest is not None:
        for run in base.manifest.runs:
            old.add_range(run.first, run.last + 1)
        for first, last in base.manifest.leaving:
            old.add_range(first, last + 1)
        old.add(base.cursor)
    old.add_range(base.cursor + 1, closed)
    for run in new.runs:
        old.remove_range(run.first, run.last + 1)
    return old


def _ranges(seqs: BitMap64) -> tuple[tuple[int, int], ...]:
    """First and last of each run."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] + 1 == seq:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return tuple(ranges)


def _based_on(record: Record) -> int:
    return int(record.meta or b"0")


def _batches(packed: Sequence[bytes]) -> list[list[bytes]]:
    """Split frames into appends of bounded size."""
    batches: list[list[bytes]] = [[]]
    size = 0
    for frame in packed:
        if batches[-1] and (
            size + len(frame) > _APPEND_BYTES or len(batches[-1]) >= _APPEND_FRAMES
        ):
            batches.append([])
            size = 0
        batches[-1].append(frame)
        size += len(frame)
    return batches
