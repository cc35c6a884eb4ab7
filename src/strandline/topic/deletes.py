"""Deleting records on request: below a seq, or by tag. Silent, point in time, and final.

A delete is one control message with the seqs it hit, so that replay deletes exactly those and never
looks anything up. ``before`` moves a floor and costs the same for one record or a billion. Tags are
found through an index: in memory for the WAL's part, in the footer of sealed segments, by a scan of
the tag column in shared segments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pyroaring import BitMap64

from strandline.errors import Invalid
from strandline.lake.cold import Cold
from strandline.topic.pieces import Pieces
from strandline.topic.state import Run, TopicState
from strandline.wal import block, control


def find_tagged(state: TopicState, match: str, before: int, cold_seqs: BitMap64) -> BitMap64:
    """Live seqs below a seq whose tag is the match, or begins with it when it ends in ``*``.

    Those in the lake have been found before, by ``find_tagged_cold``.
    """
    wanted = _matcher(match)
    found = cold_seqs.copy()
    for tag, seqs in list((state.tags or {}).items()):
        if wanted(tag):
            found.update(list(seqs))
    for run in state.runs:
        found |= _in_run(run, wanted)
    found &= BitMap64(range(state.floor, max(state.floor, min(before, state.head_seq + 1))))
    if state.deleted:
        found -= state.deleted
    return found


def find_tagged_cold(state: TopicState, cold: Cold | None, match: str) -> BitMap64:
    """Seqs with such a tag that only the lake has, deleted or not. Reads files; no lock held."""
    found = BitMap64()
    if cold is None or state.lake is None:
        return found
    wanted = _matcher(match)
    floor = state.floor
    for place in range(len(cold)):
        if cold.lasts[place] < floor or cold.firsts[place] > cold.released:
            continue  # gone, or found in the local copy
        for zone in state.lake.zones(state.id, cold, place):
            tags = zone.column(block.TAG)
            if tags is not None:
                rows = [row for row, tag in enumerate(tags.to_pylist()) if wanted(tag)]
                found.update(zone.first_seq + row for row in rows)
    found.remove_range(cold.released + 1, cold.last_seq + 1)
    return found


class Hit(NamedTuple):
    """What a delete takes. Found before it is logged, because nothing may fail after that."""

    seqs: BitMap64
    floor: int
    payload: int


def hit_by(state: TopicState, pieces: Pieces, message: control.RecordsDeleted) -> Hit:
    """What a delete takes of a topic as it is now. Maintenance lock held."""
    seqs = BitMap64.deserialize(message.seqs) if message.seqs else BitMap64()
    # In a replay some of them may be gone already, or were never on the log.
    seqs &= BitMap64(range(state.floor, max(state.floor, state.head_seq + 1)))
    for gap in state.gaps:
        seqs.remove_range(gap.first_seq, gap.last_seq + 1)
    if state.deleted:
        seqs -= state.deleted
    gone = payload_of(pieces, seqs)
    floor = min(message.before, state.head_seq + 1)
    if floor > state.floor:
        gone += pieces.payload_between(state.floor, floor)
    return Hit(seqs, floor, gone)


def apply_delete(state: TopicState, hit: Hit) -> None:
    """Make a delete visible. Maintenance lock held since ``hit_by``."""
    with state.guard:
        if hit.seqs:
            state.deleted = hit.seqs if state.deleted is None else state.deleted | hit.seqs
        state.gone_payload += hit.payload
        state.delete_floor = max(state.delete_floor, hit.floor)


def payload_of(pieces: Pieces, seqs: BitMap64) -> int:
    """Payload bytes of these records."""
    total = 0
    remaining = seqs.copy()
    remaining.remove_range(0, pieces.hot_seq)  # a cold file counts until it leaves
    while remaining:
        first, sizes = pieces.all_sizes(remaining.min())
        span = BitMap64(range(first, first + len(sizes)))
        total += int(sizes[np.array(list(remaining & span), dtype="<i8") - first].sum())
        remaining = remaining - span
    return total


def _matcher(match: str) -> _Matcher:
    if not match or "*" in match[:-1]:
        raise Invalid(f"cannot match {match!r}: give a tag, or its beginning with one * at the end")
    return _Matcher(match)


class _Matcher:
    def __init__(self, match: str) -> None:
        self._exact = not match.endswith("*")
        self._text = match if self._exact else match[:-1]

    def __call__(self, tag: str | None) -> bool:
        if tag is None:
            return False
        return tag == self._text if self._exact else tag.startswith(self._text)


def _in_run(run: Run, wanted: _Matcher) -> BitMap64:
    found = BitMap64()
    if run.segment.info.topic_id:
        for tag, seqs in run.segment.index().tags.items():
            if wanted(tag):
                found |= BitMap64.deserialize(seqs)
        return found
    for place in range(run.place, run.next_place):
        source = run.segment.block(place)
        tags = source.column(block.TAG)
        if tags is not None:
            rows = [row for row, tag in enumerate(tags.to_pylist()) if wanted(tag)]
            found.update(source.first_seq + row for row in rows)
    return found
