"""Merges the states of a series that was folded in ranges of sources. Pure.

Every range numbers its sources from ``first_number`` on, so that the blocks of all ranges fit in
one map. The pipeline merges the maps (``pipelines/view_rebuild/merge_states.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from strandline.views.series.fold import SeriesCounts, SeriesFoldState

_SOURCES_BITS = 40


def first_number(index: int) -> int:
    """The number of the first source of a range."""
    return (index << _SOURCES_BITS) + 1


def initial_state(index: int) -> bytes:
    """The initial state of the fold of a range."""
    return msgspec.msgpack.encode(SeriesFoldState(next_number=first_number(index)))


def join(states: Sequence[bytes]) -> bytes:
    """The state of all ranges, which are in order."""
    parts = [msgspec.msgpack.decode(state, type=SeriesFoldState) for state in states]
    gone = BitMap64().union(*(BitMap64.deserialize(each.gone) for each in parts if each.gone))
    counts = SeriesCounts(
        normal=sum(each.counts.normal for each in parts),
        jitter=sum(each.counts.jitter for each in parts),
        late=sum(each.counts.late for each in parts),
        below_floor=sum(each.counts.below_floor for each in parts),
    )
    joined = SeriesFoldState(
        floor=max(each.floor for each in parts),
        floor_seq=max(each.floor_seq for each in parts),
        newest=max(each.newest for each in parts),
        points=sum(each.points for each in parts),
        next_number=max(each.next_number for each in parts),
        sources=sum(each.sources for each in parts),
        counts=counts,
        gone=gone.serialize() if gone else b"",
    )
    return msgspec.msgpack.encode(joined)
