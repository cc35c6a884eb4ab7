"""The state of a key-value view that was folded in ranges of keys, as one. Pure.

Its maps are joined by whoever folded (``pipelines/view_rebuild/merge_states.py``); this is what
else is saved.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from strandline.views.kv.fold import State


def join(states: Sequence[bytes], dead: BitMap64) -> bytes:
    """The state of all ranges; ``dead`` are seqs that none of them has seen."""
    found = [msgspec.msgpack.decode(state, type=State) for state in states]
    all_dead = dead.union(*(BitMap64.deserialize(each.dead) for each in found if each.dead))
    joined = State(
        max(each.applied for each in found),
        max(each.forgotten for each in found),
        max(each.forgotten_seq for each in found),
        all_dead.serialize() if all_dead else b"",
    )
    return msgspec.msgpack.encode(joined)
