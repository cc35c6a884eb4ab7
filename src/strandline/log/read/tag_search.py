"""Finds the records of a topic by tag: in its index, and in the footers of its own segments.

The index (``log/state/tag_index.py``) is built by the first delete by tag, which reads the tags of
all records that it covers, without a lock that appends or other topics need. Appends since then
add their tags to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyroaring import BitMap64

from strandline.errors import Corrupt
from strandline.log.segments.codec import SHARED
from strandline.log.state.delete_rules import SEQ_END
from strandline.log.state.locator import TopicReader
from strandline.log.state.tag_index import TagIndex, TagRange, Tags
from strandline.log.state.topic_state import SegmentRun, TopicState, spans
from strandline.log.wal import block
from strandline.platform.clock import yield_to_other_threads

_SINGLES_AT_ONCE = 256


def index_of(state: TopicState) -> TagIndex:
    """The topic's index, or a new one that appends fill from now on."""
    index = state.tags
    if index is None:
        with state.guard:
            index = state.tags = state.tags or TagIndex(state.head_seq + 1)
    return index


def prepare(state: TopicState, index: TagIndex, pieces: TopicReader) -> None:
    """Complete and trim the index, and read the footers, which may take long.

    The lock of the index is held, and no other.
    """
    edges = _edges(state)
    try:
        if not index.is_complete:
            index.add_older(_older(state, pieces, edges, index.next_seq), edges)
            index.is_complete = True
    except BaseException:
        if state.tags is index:
            state.tags = None
        raise
    index.add_waiting(edges)
    with contextlib.suppress(Corrupt, OSError):  # raised by ``find``, which needs the footers
        for run in _own_runs(state):
            run.segment.tag_directory()
    covered = sum(edges[1::2]) - SEQ_END + state.head_seq + 1 - sum(edges[::2])
    if len(index) > 2 * covered + _SINGLES_AT_ONCE:
        index.trim(edges)


def find(
    state: TopicState, index: TagIndex, wanted: TagRange, before: int, cold_seqs: BitMap64
) -> BitMap64:
    """Live seqs of these tags below a seq. Locks of index and maintenance held.

    ``cold_seqs`` are those in the lake, from ``delete_rules.find_tagged_cold``.
    """
    index.add_waiting(_edges(state))
    found = cold_seqs | index.find(wanted)
    found |= _in_footers(state, wanted)
    found.remove_range(0, state.floor)
    found.remove_range(before, SEQ_END)
    if state.deleted and (gone := found & state.deleted):
        found -= gone
    return found


def drop_tags(state: TopicState, index: TagIndex, wanted: TagRange, before: int) -> None:
    """Drop the entries of these tags below a seq: the records are gone. Lock of the index held."""
    index.drop(wanted, before)
    for run in _own_runs(state):
        if run.last_seq < before:
            run.segment.skip_tags(*wanted)


def _in_footers(state: TopicState, wanted: TagRange) -> BitMap64:
    while True:
        runs = state.runs
        try:
            found = BitMap64()
            for run in _own_runs(state):
                found |= run.segment.find_tagged(*wanted)
        except (Corrupt, OSError):
            if runs is state.runs:
                raise
        else:
            return found


def _own_runs(state: TopicState) -> list[SegmentRun]:
    return [run for run in state.runs if run.segment.info.topic_id != SHARED]


def _edges(state: TopicState) -> list[int]:
    """The seqs where the ranges that the index has to cover begin and end, alternately."""
    first_seq = state.local_next
    edges = [first_seq]
    for run in _own_runs(state):
        if run.last_seq >= first_seq:
            edges += [max(run.first_seq, first_seq), run.last_seq + 1]
    return [*edges, SEQ_END]


def _older(
    state: TopicState, pieces: TopicReader, edges: list[int], before: int
) -> Iterator[tuple[int, int, Tags]]:
    """First seq, count and tags of the records between edges that are below a seq."""
    for low, high in zip(edges[::2], edges[1::2], strict=True):
        for first_seq, last_seq in spans(state, low):
            seq, following = first_seq, min(last_seq + 1, high, before)
            while seq < following:
                try:
                    count, tags = _tags_at(pieces, seq, following - 1)
                except LookupError:
                    if seq >= state.local_next:
                        raise
                    seq = state.local_next  # the record was evicted meanwhile
                    continue
                if tags is not None:
                    yield seq, count, tags
                seq += count
                yield_to_other_threads()
            if last_seq + 1 >= min(high, before):
                break


def _tags_at(pieces: TopicReader, seq: int, last_seq: int) -> tuple[int, Tags]:
    """How many records from a seq on are in one piece, and their tags."""
    rows = pieces.singles(seq, last_seq, _SINGLES_AT_ONCE)
    if not rows:
        piece = pieces.at(seq)
        if not isinstance(piece, tuple):
            first = seq - piece.first_seq
            count = min(piece.count - first, last_seq - seq + 1)
            tags = piece.column(block.TAG)
            # A copy: the column is a view of the block, which must not stay in memory with it.
            return count, None if tags is None else tags.slice(first, count).dictionary_encode()
        rows = piece[1][seq - piece[0] : last_seq + 1 - piece[0]]
    fields = [row[1][1] for row in rows]
    if all(tag is None for tag in fields):
        return len(rows), None
    return len(rows), [None if tag is None else tag.decode() for tag in fields]
