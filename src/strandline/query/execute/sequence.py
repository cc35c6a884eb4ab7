"""Sequences: for each row of the first event the row of the next one, and so on, in numpy.

``query/language/bound_ast.py`` defines which row a step selects. Of two rows with equal times the
one with the smaller seq is earlier: a topic's ``ts`` never goes backwards, so (ts, seq) and seq are
the same order.

Algorithm: links are converted to small numbers, those of the event with the fewest rows, in the
order of their values; rows of other events whose link is not among them are in no match and are
dropped. Link and time together are one number of 64 bits. The rows of each next event are sorted by
it once, and the next rows of all matches are searched at once. Files have their rows in the order
of contexts and time, so there is little to sort. Only links and times are read, and seqs where
times are equal: the columns of the result are read at the end, for the rows of matches alone.

Rows with different links are independent. So many rows are split by their links, and each part is
matched by its own thread; numpy releases the GIL meanwhile.

DuckDB could match the rows, too. But its ASOF join does not define which of two rows with equal
times it selects, and so needs another pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.platform.thread_pool import ThreadPool
from strandline.query.execute.sequence_keys import Codes, LinkCodes, encode_links
from strandline.query.language.bound_ast import BoundStep
from strandline.views.table.evaluate import Mask

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_KEY_BITS = 64
_SAMPLE = 10_000
"""The number of rows in the sample that determines the parts."""


class SequenceSide(NamedTuple):
    """The rows of one event of a sequence."""

    table: str
    link: pa.ChunkedArray
    times: Ints
    """In microseconds."""
    seqs: Ints
    kept: Mask | None = None
    """The rows to match; None for all."""


class _Keyed(NamedTuple):
    """Rows of an event with their links and times as numbers."""

    side: SequenceSide
    codes: Codes
    moments: Ints
    """Times, or numbers in the same order."""
    first: int
    """The first of all times."""
    bits: int
    """The bits of a time, counted from the first."""

    def rows(self, low: int, high: int) -> Ints:
        """The rows to match that have a link of this range."""
        mask = self.codes >= low
        mask &= self.codes < high
        if self.side.kept is not None:
            mask &= self.side.kept
        return np.flatnonzero(mask)

    def keys(self, rows: Ints) -> Keys:
        """Link and time of rows as one number."""
        keys: Keys = self.codes[rows].astype(np.uint64)
        keys <<= np.uint64(self.bits)
        moments = self.moments[rows]
        moments -= self.first
        keys |= moments.view(np.uint64)
        return keys


class _Sorted(NamedTuple):
    """Rows in order of (link, time, seq)."""

    rows: Ints
    keys: Keys


def matches(
    sides: Sequence[SequenceSide], steps: Sequence[BoundStep], *, parts: int = 1
) -> list[Ints]:
    """For each event the rows of the matches: element i of all lists is one match.

    Uses a thread for each part."""
    links = encode_links([side.link for side in sides], [side.kept for side in sides])
    events = _keyed(sides, links)
    cuts = _cuts(events, links.different, parts)
    match = partial(_matched, events, steps)
    if len(cuts) == 2:
        return match(*cuts)
    with ThreadPool(len(cuts) - 1, "strandline-match") as threads:
        pending = [threads.submit(match, *cut) for cut in pairwise(cuts)]
        matched = [part.result() for part in pending]
    return [np.concatenate(rows) for rows in zip(*matched, strict=True)]


def sort_matches(side: SequenceSide, matched: list[Ints]) -> list[Ints]:
    """Matches in the order of their first event: time, then seq."""
    order = np.lexsort((side.seqs[matched[0]], side.times[matched[0]]))
    return [each[order] for each in matched]


def _keyed(sides: Sequence[SequenceSide], links: LinkCodes) -> list[_Keyed]:
    """Links and times as numbers that fit in 64 bits together; if needed, times are numbered."""
    times = [side.times for side in sides]
    spare = _KEY_BITS - max(0, links.different - 1).bit_length()
    first = min((int(each.min()) for each in times if len(each)), default=0)
    last = max((int(each.max()) for each in times if len(each)), default=0)
    bits = (last - first).bit_length()
    if bits > min(spare, _KEY_BITS - 1):
        every, ranks = np.unique(np.concatenate(times), return_inverse=True)
        times = np.split(ranks.astype(np.int64), np.cumsum([len(each) for each in times])[:-1])
        first, bits = 0, len(every).bit_length()
    return [
        _Keyed(side, codes, moments, first, bits)
        for side, codes, moments in zip(sides, links.codes, times, strict=True)
    ]


def _cuts(events: Sequence[_Keyed], links: int, parts: int) -> list[int]:
    """Links that split the rows of the largest event into parts of about equal size."""
    largest = max((event.codes for event in events), key=len)
    sample = np.sort(largest[:: len(largest) // _SAMPLE + 1])
    sample = sample[np.searchsorted(sample, 0) :]
    inner = (
        {int(sample[len(sample) * part // parts]) for part in range(1, parts)}
        if len(sample)
        else ()
    )
    return [0, *sorted(cut for cut in inner if cut), links]


def _matched(
    events: Sequence[_Keyed], steps: Sequence[BoundStep], low: int, high: int
) -> list[Ints]:
    """The matches with a link of this range."""
    matched = [events[0].rows(low, high)]
    for step, before, after in zip(steps, events, events[1:], strict=False):
        rows = _sorted(after, after.rows(low, high))
        next_rows = _next_rows(before, matched[-1], after, rows, step)
        has_next = next_rows >= 0
        matched = [each[has_next] for each in matched]
        matched.append(rows.rows[next_rows[has_next]])
    return matched


def _sorted(event: _Keyed, rows: Ints) -> _Sorted:
    keys = event.keys(rows)
    order = np.argsort(keys, kind="stable")
    result = _Sorted(rows[order], keys[order])
    if _has_unordered_seqs(result, event.side.seqs):
        order = np.lexsort((event.side.seqs[rows], keys))
        result = _Sorted(rows[order], keys[order])
    return result


def _has_unordered_seqs(rows_by_key: _Sorted, seqs: Ints) -> bool:
    """Whether rows with equal link and time are not in the order of their seqs."""
    equal = np.flatnonzero(rows_by_key.keys[1:] == rows_by_key.keys[:-1])
    return bool(np.any(seqs[rows_by_key.rows[equal + 1]] < seqs[rows_by_key.rows[equal]]))


def _next_rows(
    before: _Keyed, matched: Ints, after: _Keyed, rows: _Sorted, step: BoundStep
) -> Ints:
    """For each match the index of its next row in the sorted rows; -1 for none."""
    if not len(rows.rows):
        return np.full(len(matched), -1)
    keys, bits = before.keys(matched), np.uint64(before.bits)
    places: Ints = np.searchsorted(rows.keys, keys)
    if step.direction == "preceded":
        places -= 1
    elif before.side.table == after.side.table:
        ends: Ints = np.searchsorted(rows.keys, keys, side="right")
        _advance_past(after.side.seqs, rows.rows, places, ends, before.side.seqs[matched])
    at = np.clip(places, 0, len(rows.rows) - 1)
    is_match = (places == at) & (rows.keys[at] >> bits == keys >> bits)
    if step.within_us is not None:
        distance = after.side.times[rows.rows[at]] - before.side.times[matched]
        is_match &= np.abs(distance) <= step.within_us
    return np.where(is_match, places, -1)


def _advance_past(seqs: Ints, rows: Ints, low: Ints, high: Ints, after_seqs: Ints) -> None:
    """Move each index to the first row with a greater seq, or to its end: binary search."""
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        early = seqs[rows[middle]] <= after_seqs[open_]
        low[open_[early]] = middle[early] + 1
        high[open_[~early]] = middle[~early]
        open_ = open_[low[open_] < high[open_]]
