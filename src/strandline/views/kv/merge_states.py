"""Merges the saved states of a key-value view that was folded in ranges of keys. Pure.

The maps are merged by the rebuild (`pipelines/view_rebuild/merge_states.py`); this merges the rest
of the saved state.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from strandline.views.kv.fold import KvState


def join(states: Sequence[bytes], dead: BitMap64) -> bytes:
    """The state of all ranges; ``dead`` are dead seqs that belong to none of them."""
    parts = [msgspec.msgpack.decode(state, type=KvState) for state in states]
    all_dead = dead.union(*(BitMap64.deserialize(each.dead) for each in parts if each.dead))
    merged = KvState(
        max(each.applied for each in parts),
        max(each.forgotten for each in parts),
        max(each.forgotten_seq for each in parts),
        all_dead.serialize() if all_dead else b"",
    )
    return msgspec.msgpack.encode(merged)
