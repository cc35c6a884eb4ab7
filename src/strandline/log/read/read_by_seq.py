"""Reads records by their seqs, for views.

Every block or zone is read once for all of its seqs, and only their rows are decoded. Records that
were deleted or evicted are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from strandline.lake.files.zone import Zone
from strandline.log.read.page import BlockSlice, Page, Row
from strandline.log.state.locator import Piece, TopicReader
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.reader import Reader


def read_seqs(state: TopicState, reader: Callable[[], Reader], seqs: Sequence[int]) -> Page:
    """The live ones of these records, in order of seq, each once."""
    head, floor = state.head_seq, state.floor
    deleted = state.hidden
    wanted = np.unique(np.asarray(seqs, dtype="<i8"))
    wanted = wanted[(wanted >= floor) & (wanted <= head)]
    if deleted and len(wanted):
        wanted = wanted[[seq not in deleted for seq in wanted.tolist()]]
    pieces = TopicReader(state, reader)
    parts: list[BlockSlice | list[Row]] = []
    place = 0
    while place < len(wanted):
        seq = int(wanted[place])
        if state.gaps and state.gap_at(seq) is not None:
            place += 1
            continue
        try:
            piece = pieces.at(seq)
        except LookupError:
            if seq >= state.floor:
                raise
            place += 1  # the floor has risen above this seq meanwhile
            continue
        last_seq = piece[0] + len(piece[1]) - 1 if isinstance(piece, tuple) else piece.last_seq
        following = int(np.searchsorted(wanted, np.int64(last_seq), "right"))
        _add(parts, piece, wanted[place:following])
        place = following
    return Page(parts, following=head, head_seq=head, epoch=state.epoch, tombstone=None)


def _add(parts: list[BlockSlice | list[Row]], piece: Piece, wanted: np.ndarray) -> None:
    if isinstance(piece, tuple):
        first, rows = piece
        selected = [(seq, *rows[seq - first]) for seq in wanted.tolist()]
        if parts and isinstance(parts[-1], list):
            parts[-1] += selected
        else:
            parts.append(selected)
        return
    if isinstance(piece, Zone) and (holes := piece.holes()):
        wanted = wanted[[seq not in holes for seq in wanted.tolist()]]
    if len(wanted):
        parts.append(BlockSlice(piece, 0, piece.count, wanted - piece.first_seq))
