"""Plans the tasks of a rebuild: which parts of the log to read, and which keys to fold.

A rebuild reads while the store's writer continues, and records that a view no longer needs leave
the log. So two tasks may have read the log at different times, and a delete marker may be missing
while its keys are present. ``removed_since`` corrects that: it returns the records that were read
and have left the log since, and folds omit them, so that all of them see the log of one time, the
end of reading. A check confirms it: the number of remaining records equals that of the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap64

from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.pipelines.splits.split_reader import Part
from strandline.pipelines.view_rebuild.reduce_task import FoldTask
from strandline.pipelines.view_rebuild.shuffle_task import GatherTask, RunPiece, ShuffleResult
from strandline.store import Store

_READ_AT_ONCE = 10_000


def shuffle_tasks(position: StorePosition, snapshots: Sequence[TopicSnapshot]) -> list[GatherTask]:
    """Tasks that read the log of a view's topics, in the order of the topics."""
    tasks = []
    for source, snapshot in enumerate(snapshots):
        seqs = split_planner.SeqRange(snapshot.floor, snapshot.head_seq)
        parts: list[Part] = list(split_planner.file_parts(position, snapshot, seqs, ())[0])
        parts += split_planner.hot_parts(position, snapshot, seqs)
        for group in split_planner.group_into_tasks(parts):
            rows = sum(map(split_planner.seqs_in, group))
            tasks.append(GatherTask(source=source, parts=tuple(group), rows=rows))
    return tasks


def removed_since(
    store: Store, snapshots: Sequence[TopicSnapshot], read: Sequence[BitMap64]
) -> list[BitMap64] | None:
    """By topic: records that were read and have left the log since, from a store that was opened
    later; None when that cannot be determined, or a topic was re-created."""
    left = []
    for snapshot, seqs in zip(snapshots, read, strict=True):
        if snapshot.name not in store.topics():
            return None
        topic = store.existing_topic(snapshot.name)
        current = topic.snapshot()
        if (current.topic_id, current.created_us) != (snapshot.topic_id, snapshot.created_us):
            return None
        left_here = seqs & current.hidden()
        left_here |= seqs & BitMap64(range(min(snapshot.floor, current.floor), current.floor))
        appended, cursor = 0, snapshot.head_seq
        while cursor < topic.head_seq:
            page = topic.read(cursor, _READ_AT_ONCE)
            appended, cursor = appended + len(page.columns().seqs), page.next
        if len(seqs) - len(left_here) != topic.statistics().count - appended:
            return None
        left.append(left_here)
    return left


def reduce_tasks(
    gathered: Sequence[ShuffleResult],
    gone: Sequence[BitMap64],
    *,
    rows_max: int,
    compares: bool,
    replaces: bool,
) -> list[FoldTask]:
    """Tasks for ranges of keys, of about ``rows_max`` rows each; one without keys."""
    pieces = [piece for each in gathered for piece in each.pieces]
    common = [piece for piece in pieces if piece.first is None]
    keyed = [piece for piece in pieces if piece.first is not None]
    firsts = split_keys(keyed, rows_max)
    bitmaps = tuple(each.serialize() if each else b"" for each in gone)
    return [
        FoldTask(
            place=index,
            first=first,
            next=next,
            pieces=(*common, *(piece for piece in keyed if _reaches(piece, first, next))),
            gone=bitmaps,
            compares=compares,
            replaces=replaces,
        )
        for index, (first, next) in enumerate(zip([None, *firsts], [*firsts, None], strict=True))
    ]


def split_keys(keyed: Sequence[RunPiece], rows_max: int) -> list[bytes]:
    """Keys that divide the rows into ranges of about ``rows_max``."""
    cuts: list[bytes] = []
    rows = 0
    for piece in sorted(keyed, key=lambda piece: piece.first or b""):
        assert piece.first is not None, "common pieces are in every range"
        if rows + piece.rows > rows_max and rows and (not cuts or piece.first > cuts[-1]):
            cuts.append(piece.first)
            rows = 0
        rows += piece.rows
    return cuts


def _reaches(piece: RunPiece, first: bytes | None, next: bytes | None) -> bool:
    assert piece.first is not None
    assert piece.last is not None
    return (first is None or piece.last >= first) and (next is None or piece.first < next)
