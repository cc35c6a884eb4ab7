"""The state of a series that was folded in ranges of sources, as one. Pure.

Every range numbers its sources from ``first_number`` on, so that their blocks can lie in one map.
Its maps are joined by whoever folded (``pipelines/view_rebuild/merge_states.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from strandline.views.series.fold import Counts, State

_SOURCES_BITS = 40


def first_number(place: int) -> int:
    """The number of the first source of a range."""
    return (place << _SOURCES_BITS) + 1


def begin(place: int) -> bytes:
    """The state with which the fold of a range begins."""
    return msgspec.msgpack.encode(State(next_number=first_number(place)))


def join(states: Sequence[bytes]) -> bytes:
    """The state of all ranges, in their order."""
    found = [msgspec.msgpack.decode(state, type=State) for state in states]
    gone = BitMap64().union(*(BitMap64.deserialize(each.gone) for each in found if each.gone))
    counts = Counts(
        normal=sum(each.counts.normal for each in found),
        jitter=sum(each.counts.jitter for each in found),
        late=sum(each.counts.late for each in found),
        below_floor=sum(each.counts.below_floor for each in found),
    )
    joined = State(
        floor=max(each.floor for each in found),
        floor_seq=max(each.floor_seq for each in found),
        newest=max(each.newest for each in found),
        points=sum(each.points for each in found),
        next_number=max(each.next_number for each in found),
        sources=sum(each.sources for each in found),
        counts=counts,
        gone=gone.serialize() if gone else b"",
    )
    return msgspec.msgpack.encode(joined)
