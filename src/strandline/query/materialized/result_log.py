"""A remembered query's topic: commits of frames, each closed by a manifest, one after another.

    tag     data                                    meta
    frame   a table, an Arrow IPC stream            seq of the manifest that it goes on from
    mark    a manifest, JSON                        the same

A commit is some frames and then a mark; only the mark makes them count. It names the frames of
older commits that still do. Nothing else is stored about a query, so there are no two places that
could disagree: its topic is there with a mark, or there is no such query.

A commit is appended to the head that was read with the manifest it goes on from. Of two that went
on from the same one, the second is refused (Conflict). A commit of more bytes than one append may
have is several, each on top of the one before; if it ends between two, its frames stay without a
mark and count for nothing. The next commit lets them go, with all that it replaces. Deletes are on
the log behind their commit: a crash that loses the commit loses them, too.

Who may not append drafts a commit: the same records, for somebody who may, to be appended to that
head or not at all. It cannot delete what it replaces, so its manifest lists that (``leaving``), and
the next commit lets it go.

How the newest mark is found: the head is a mark; or it is a frame, whose meta tells the mark that
it went on from, and none came between. Seqs that a power loss has taken are known gaps.
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
from strandline.query.materialized.manifest import Manifest, Run
from strandline.records import Record

FRAME, MARK = "frame", "mark"
FRAME_BYTES = 512 * 1024
_APPEND_BYTES = 16 << 20
_APPEND_FRAMES = 10_000


class Base(NamedTuple):
    """What a commit goes on from."""

    head: int
    """The topic's head when it was read."""
    cursor: int
    """The seq of the newest mark, 0 when there is none."""
    manifest: Manifest | None


class Piece(NamedTuple):
    """Rows to be committed."""

    part: int
    table: pa.Table
    newest_us: int = 0


class Draft(NamedTuple):
    """A commit that is not appended yet."""

    topic: str
    expected_head: int
    """Where it goes on, or not at all."""
    records: list[tuple[str, bytes]]
    """Tag and data of each, in order; all with the same meta."""
    meta: bytes

    @property
    def last_seq(self) -> int:
        """That of the mark, when it is appended."""
        return self.expected_head + len(self.records)


class FramesGone(NotFound):
    """Frames were replaced by a later commit: read the newest manifest, and begin again."""


class Journal:
    """The commits of one remembered query. Safe from many threads."""

    def __init__(self, topic: Topic, *, frame_bytes: int = FRAME_BYTES) -> None:
        self._topic = topic
        self._frame_bytes = frame_bytes

    @property
    def topic(self) -> Topic:
        return self._topic

    def newest(self) -> Base:
        """The newest manifest, and what a commit on top of it has to know."""
        head = self._topic.head_seq
        record = self.newest_mark(head)
        if record is None:
            return Base(head, 0, None)
        return Base(head, record.seq, manifest.decode(record.data))

    def newest_mark(self, seq: int) -> Record | None:
        """The last mark up to a seq."""
        while seq > 0:
            record = self._pick(seq)
            if record is None:
                seq = self._before_gap(seq)
            elif record.tag == MARK:
                return record
            else:
                seq = _went_on_from(record)
        return None

    def load(self, run: Run) -> pa.Table:
        """The rows of a run; FramesGone when a later commit has replaced it."""
        page = self._topic.pick(range(run.first, run.last + 1))
        if len(page) != run.last - run.first + 1:
            raise FramesGone(
                f"frames {run.first} to {run.last} of {self._topic.name!r} were replaced"
            )
        return frame_codec.unpack(page.data)

    def commit(
        self,
        base: Base,
        pieces: Sequence[Piece],
        close: Callable[[tuple[Run, ...]], Manifest],
    ) -> Base:
        """Append pieces, and the manifest that ``close`` makes of their runs; what is then newest.

        Conflict when somebody else has committed since ``base`` was read; nothing counts then.
        """
        going_on = str(base.cursor).encode()
        head = base.head
        runs: list[Run] = []
        for piece in pieces:
            packed = frame_codec.pack(piece.table, self._frame_bytes)
            first = 0
            for batch in _batches(packed):
                appended = self._topic.append(batch, tag=FRAME, meta=going_on, expected_head=head)
                first, head = first or appended.first_seq, appended.last_seq
            runs.append(_run(piece, first, head, packed))
        made = close(tuple(runs))
        closing = manifest.encode(made)
        done = self._topic.append(closing, tag=MARK, meta=going_on, expected_head=head)
        self._let_go(base, made, done.first_seq)
        return Base(done.head_seq, done.first_seq, made)

    def draft(
        self,
        base: Base,
        pieces: Sequence[Piece],
        close: Callable[[tuple[Run, ...]], Manifest],
    ) -> Draft:
        """What ``commit`` would append, for somebody else to append."""
        records: list[tuple[str, bytes]] = []
        runs: list[Run] = []
        for piece in pieces:
            packed = frame_codec.pack(piece.table, self._frame_bytes)
            first = base.head + len(records) + 1
            records += [(FRAME, frame) for frame in packed]
            runs.append(_run(piece, first, base.head + len(records), packed))
        made = close(tuple(runs))
        closed = base.head + len(records) + 1
        leaving = _ranges(_replaced(base, made, closed))
        made = msgspec.structs.replace(made, leaving=leaving)
        records.append((MARK, manifest.encode(made)))
        return Draft(self._topic.name, base.head, records, str(base.cursor).encode())

    def has(self, draft: Draft) -> bool:
        """Whether a draft was appended; False also when a later commit has let it go."""
        found = self._pick(draft.last_seq)
        return found is not None and found.data == draft.records[-1][1]

    def _let_go(self, base: Base, made: Manifest, closed: int) -> None:
        """Delete what the new manifest does not name: frames, older marks, commits without end."""
        self._topic.let_go(_replaced(base, made, closed))

    def _pick(self, seq: int) -> Record | None:
        found = self._topic.pick([seq]).records
        return found[0] if found else None

    def _before_gap(self, seq: int) -> int:
        """The seq before the lost ones that this is one of; or, deleted, simply the one before."""
        firsts = [first for first, last in self._topic.gaps_below(seq + 1) if seq <= last]
        return min(firsts, default=seq) - 1


def _run(piece: Piece, first: int, last: int, packed: Sequence[bytes]) -> Run:
    return Run(
        part=piece.part,
        first=first,
        last=last,
        rows=piece.table.num_rows,
        size=sum(map(len, packed)),
        newest_us=piece.newest_us,
    )


def _replaced(base: Base, made: Manifest, closed: int) -> BitMap64:
    """Seqs up to the new mark that count for nothing any more."""
    old = BitMap64()
    if base.manifest is not None:
        for run in base.manifest.runs:
            old.add_range(run.first, run.last + 1)
        for first, last in base.manifest.leaving:
            old.add_range(first, last + 1)
        old.add(base.cursor)
    old.add_range(base.cursor + 1, closed)
    for run in made.runs:
        old.remove_range(run.first, run.last + 1)
    return old


def _ranges(seqs: BitMap64) -> tuple[tuple[int, int], ...]:
    """First and last of each run."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] + 1 == seq:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return tuple(found)


def _went_on_from(record: Record) -> int:
    return int(record.meta or b"0")


def _batches(packed: Sequence[bytes]) -> list[list[bytes]]:
    """Frames in appends of bounded size."""
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
