"""Finds the cursor of a time; skips whole lake files and segments by their newest stamp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import TopicState, spans
from strandline.log.wal.reader import Reader


def cursor_at(state: TopicState, reader: Callable[[], Reader], ts: int) -> int:
    """The cursor from which a read returns the records of a time (microseconds) and later."""
    pieces = TopicReader(state, reader)
    start = state.floor
    if state.cold is not None and start < state.hot_seq:
        place = state.cold.first_reaching(ts, start)
        skipped = state.cold.firsts[place] if place < len(state.cold) else state.hot_seq
        start = max(start, skipped)
    for low, last_seq in spans(state, start):
        seq = low
        while seq <= last_seq:
            sealed = pieces.newest_in_segment(seq)
            if sealed is not None and sealed[1] < ts:
                seq = sealed[0] + 1
                continue
            first, stamps = pieces.stamps(seq)
            place_in = int(np.searchsorted(stamps, np.int64(ts)))
            if place_in < len(stamps):
                return max(seq, first + place_in) - 1
            seq = first + len(stamps)
    return state.head_seq
