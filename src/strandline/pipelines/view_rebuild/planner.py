"""Which parts of the log are read by which task, and which keys are folded by which.

A rebuild reads while the store's writer goes on, and what a view no longer needs leaves the log. So
two tasks may have read the log of different moments, and a delete marker be missing whose keys are
there. ``left_since`` mends that: it says which of the records that were read are gone by now, and
folds leave them out, so that all see the log of one moment, the end of reading. It is checked that
this is so: what is left of the records that were read is as many as the log has.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap64

from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.snapshot_position import Position
from strandline.pipelines.splits.split_reader import Part
from strandline.pipelines.view_rebuild.reduce_task import FoldTask
from strandline.pipelines.view_rebuild.shuffle_task import Gathered, GatherTask, Piece
from strandline.store import Store

_READ_AT_ONCE = 10_000


def gather_tasks(position: Position, snapshots: Sequence[Snapshot]) -> list[GatherTask]:
    """The log of a view's topics, the topics in their order."""
    tasks = []
    for source, snapshot in enumerate(snapshots):
        wanted = split_planner.Range(snapshot.floor, snapshot.head_seq)
        found: list[Part] = list(split_planner.file_parts(position, snapshot, wanted, ())[0])
        found += split_planner.hot_parts(position, snapshot, wanted)
        for group in split_planner.in_tasks(found):
            rows = sum(map(split_planner.seqs_in, group))
            tasks.append(GatherTask(source=source, parts=tuple(group), rows=rows))
    return tasks


def left_since(
    store: Store, snapshots: Sequence[Snapshot], read: Sequence[BitMap64]
) -> list[BitMap64] | None:
    """By topic: records that were read and have left the log since, as a store that was opened
    later knows; None when that cannot be told, or a topic is another one by now."""
    found = []
    for snapshot, seqs in zip(snapshots, read, strict=True):
        if snapshot.name not in store.topics():
            return None
        topic = store.existing_topic(snapshot.name)
        now = topic.snapshot()
        if (now.topic_id, now.created_us) != (snapshot.topic_id, snapshot.created_us):
            return None
        gone = seqs & now.hidden()
        gone |= seqs & BitMap64(range(min(snapshot.floor, now.floor), now.floor))
        after, cursor = 0, snapshot.head_seq
        while cursor < topic.head_seq:
            page = topic.read(cursor, _READ_AT_ONCE)
            after, cursor = after + len(page.columns().seqs), page.next
        if len(seqs) - len(gone) != topic.statistics().count - after:
            return None
        found.append(gone)
    return found


def fold_tasks(
    gathered: Sequence[Gathered],
    gone: Sequence[BitMap64],
    *,
    rows_max: int,
    compares: bool,
    replaces: bool,
) -> list[FoldTask]:
    """Ranges of keys, of about so many rows each; one when nothing is divided by keys."""
    pieces = [piece for each in gathered for piece in each.pieces]
    common = [piece for piece in pieces if piece.first is None]
    keyed = [piece for piece in pieces if piece.first is not None]
    firsts = cuts_between(keyed, rows_max)
    packed = tuple(each.serialize() if each else b"" for each in gone)
    return [
        FoldTask(
            place=place,
            first=first,
            next=following,
            pieces=(*common, *(piece for piece in keyed if _reaches(piece, first, following))),
            gone=packed,
            compares=compares,
            replaces=replaces,
        )
        for place, (first, following) in enumerate(
            zip([None, *firsts], [*firsts, None], strict=True)
        )
    ]


def cuts_between(keyed: Sequence[Piece], rows_max: int) -> list[bytes]:
    """Keys between which there are about so many rows."""
    found: list[bytes] = []
    rows = 0
    for piece in sorted(keyed, key=lambda piece: piece.first or b""):
        assert piece.first is not None, "common pieces are in every range"
        if rows + piece.rows > rows_max and rows and (not found or piece.first > found[-1]):
            found.append(piece.first)
            rows = 0
        rows += piece.rows
    return found


def _reaches(piece: Piece, first: bytes | None, following: bytes | None) -> bool:
    assert piece.first is not None
    assert piece.last is not None
    return (first is None or piece.last >= first) and (following is None or piece.first < following)
