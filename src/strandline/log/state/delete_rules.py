"""Deletes records on request: below a seq, or by tag. Without tombstones, and final.

A delete applies to the records that exist at that time. It is one control message with their seqs,
so that replay deletes exactly those without a search. ``before`` raises a floor and costs the same
for one record or a billion. Tags are found through an index (``log/read/tag_search.py``), and in
the lake by reading the tag column.
"""

from __future__ import annotations

from typing import NamedTuple

from pyroaring import BitMap64

from strandline.errors import Invalid
from strandline.lake.cold_index import ColdIndex
from strandline.log.state.deleted_payload import averages_of
from strandline.log.state.locator import TopicReader
from strandline.log.state.tag_index import TagRange, tag_range
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import block, control_messages

SEQ_END = 1 << 63
"""Above every seq."""


def find_tagged_cold(state: TopicState, cold: ColdIndex | None, match: str) -> BitMap64:
    """Seqs with a matching tag in the lake alone, deleted or not. Reads files; no lock held."""
    found = BitMap64()
    if cold is None or state.lake is None:
        return found
    low, high = parse_tag_match(match)
    floor = state.floor
    for place in range(len(cold)):
        if cold.lasts[place] < floor or cold.firsts[place] > cold.released:
            continue  # gone, or found in the local copy
        for zone in state.lake.zones(state.id, cold, place):
            tags = zone.column(block.TAG)
            if tags is not None:
                found.update(
                    seq
                    for seq, tag in enumerate(tags.to_pylist(), zone.first_seq)
                    if tag is not None and low <= tag.encode() < high
                )
    found.remove_range(cold.released + 1, cold.last_seq + 1)
    return found


class _DeleteEffect(NamedTuple):
    """The records of a delete. Computed before it is logged: nothing may fail after that."""

    seqs: BitMap64
    floor: int
    payload: int
    """Includes ``unsized_payload``, which is computed from averages."""
    unsized: BitMap64
    unsized_payload: int


def delete_effect(
    state: TopicState, pieces: TopicReader, message: control_messages.RecordsDeleted
) -> _DeleteEffect:
    """The records that a delete removes from a topic now. Maintenance lock held."""
    seqs = BitMap64.deserialize(message.seqs) if message.seqs else BitMap64()
    # In a replay some of them may be gone already, or were never logged.
    seqs.remove_range(0, state.floor)
    seqs.remove_range(state.head_seq + 1, SEQ_END)
    for gap in state.gaps:
        seqs.remove_range(gap.first_seq, gap.last_seq + 1)
    if state.deleted and (gone := seqs & state.deleted):
        seqs -= gone
    unsized, unsized_payload = averages_of(state, seqs)
    payload = unsized_payload + payload_of(pieces, seqs - unsized if unsized else seqs)
    floor = min(message.before, state.head_seq + 1)
    if floor > state.floor:
        payload += pieces.payload_between(state.floor, floor)
    return _DeleteEffect(seqs, floor, payload, unsized, unsized_payload)


def apply_delete(state: TopicState, hit: _DeleteEffect) -> None:
    """Make a delete visible. Maintenance lock held since ``delete_effect``."""
    with state.guard:
        if hit.seqs:
            state.deleted = hit.seqs if state.deleted is None else state.deleted | hit.seqs
        state.gone_payload += hit.payload
        if hit.unsized:
            state.unsized = hit.unsized | state.unsized if state.unsized else hit.unsized
            state.unsized_payload += hit.unsized_payload
        state.delete_floor = max(state.delete_floor, hit.floor)


def payload_of(pieces: TopicReader, seqs: BitMap64) -> int:
    """Payload bytes of these records."""
    local = seqs.copy()
    local.remove_range(0, pieces.hot_seq)  # a cold file counts until it leaves
    return pieces.payload_of(local)


def parse_tag_match(match: str) -> TagRange:
    """The range of tags of a match; Invalid when it is not a valid match."""
    if not match or "*" in match[:-1]:
        raise Invalid(f"cannot match {match!r}: give a tag, or its beginning with one * at the end")
    return tag_range(match)
