"""Sequences: for each row of the first event the row of the next one, and so on, in numpy.

What a step picks is told in ``query/language/bound_ast.py``. A row's seq says which of two rows
with equal times is
earlier: a topic's ``ts`` never goes backwards, so (ts, seq) and seq are the same order.

How: links become small numbers, those of the event with the fewest rows, in the order of their
values; rows of other events whose link is not among them can be in no match and are dropped. Link
and time together are one number of 64 bits. The rows of each next event are sorted by it once, and
all matches look for theirs at the same time. Files have their rows in the order of contexts and
time, so there is little to sort. Only links and times are touched, and seqs where times are equal:
the columns of a result are taken at the end, for the rows of matches alone.

Rows with different links have nothing to do with each other. So many rows are cut into parts by
their links, and each part is matched by a thread of its own; numpy lets others run meanwhile.

The rows could be matched by DuckDB, too. Its ASOF join does not say which of two rows with equal
times it takes, and so needs a pass more.
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
from strandline.query.execute.sequence_keys import Codes, Numbered, numbered
from strandline.query.language.bound_ast import BoundStep
from strandline.views.table.evaluate import Mask

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_KEY_BITS = 64
_SAMPLE = 10_000
"""Rows by which parts are cut."""


class Side(NamedTuple):
    """The rows of one event of a sequence."""

    table: str
    link: pa.ChunkedArray
    times: Ints
    """In microseconds."""
    seqs: Ints
    kept: Mask | None = None
    """The rows that count; None for all."""


class _Keyed(NamedTuple):
    """Rows of an event with their links and times as numbers."""

    side: Side
    codes: Codes
    moments: Ints
    """Times, or numbers in their order."""
    first: int
    """The first of all moments."""
    bits: int
    """That a moment takes, counted from the first."""

    def rows(self, low: int, high: int) -> Ints:
        """Those that count with a link of this range."""
        among = self.codes >= low
        among &= self.codes < high
        if self.side.kept is not None:
            among &= self.side.kept
        return np.flatnonzero(among)

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


def matches(sides: Sequence[Side], steps: Sequence[BoundStep], *, parts: int = 1) -> list[Ints]:
    """For each event the rows that are in matches: the first of all lists are one, and so on.

    As many threads as parts work at it."""
    links = numbered([side.link for side in sides], [side.kept for side in sides])
    events = _keyed(sides, links)
    cuts = _cuts(events, links.different, parts)
    match = partial(_matched, events, steps)
    if len(cuts) == 2:
        return match(*cuts)
    with ThreadPool(len(cuts) - 1, "strandline-match") as threads:
        parts_found = [threads.submit(match, *cut) for cut in pairwise(cuts)]
        found = [part.result() for part in parts_found]
    return [np.concatenate(rows) for rows in zip(*found, strict=True)]


def in_order(side: Side, found: list[Ints]) -> list[Ints]:
    """Matches in the order of their first event: time, then seq."""
    order = np.lexsort((side.seqs[found[0]], side.times[found[0]]))
    return [each[order] for each in found]


def _keyed(sides: Sequence[Side], links: Numbered) -> list[_Keyed]:
    """Links and times fit into one number together, if need be by numbering the times."""
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
    """Links between which there are about as many rows each, of the event with the most."""
    largest = max((event.codes for event in events), key=len)
    some = np.sort(largest[:: len(largest) // _SAMPLE + 1])
    some = some[np.searchsorted(some, 0) :]
    inner = {int(some[len(some) * part // parts]) for part in range(1, parts)} if len(some) else ()
    return [0, *sorted(cut for cut in inner if cut), links]


def _matched(
    events: Sequence[_Keyed], steps: Sequence[BoundStep], low: int, high: int
) -> list[Ints]:
    """The matches with a link of this range."""
    found = [events[0].rows(low, high)]
    for step, before, after in zip(steps, events, events[1:], strict=False):
        rows = _sorted(after, after.rows(low, high))
        picked = _picked(before, found[-1], after, rows, step)
        there = picked >= 0
        found = [each[there] for each in found]
        found.append(rows.rows[picked[there]])
    return found


def _sorted(event: _Keyed, rows: Ints) -> _Sorted:
    keys = event.keys(rows)
    order = np.argsort(keys, kind="stable")
    found = _Sorted(rows[order], keys[order])
    if _is_unsettled(found, event.side.seqs):
        order = np.lexsort((event.side.seqs[rows], keys))
        found = _Sorted(rows[order], keys[order])
    return found


def _is_unsettled(found: _Sorted, seqs: Ints) -> bool:
    """Whether rows of one link and time are not in the order of their seqs."""
    equal = np.flatnonzero(found.keys[1:] == found.keys[:-1])
    return bool(np.any(seqs[found.rows[equal + 1]] < seqs[found.rows[equal]]))


def _picked(before: _Keyed, matched: Ints, after: _Keyed, rows: _Sorted, step: BoundStep) -> Ints:
    """For each match its next row, as a place in the sorted rows; -1 for none."""
    if not len(rows.rows):
        return np.full(len(matched), -1)
    wanted, bits = before.keys(matched), np.uint64(before.bits)
    places: Ints = np.searchsorted(rows.keys, wanted)
    if step.direction == "preceded":
        places -= 1
    elif before.side.table == after.side.table:
        ends: Ints = np.searchsorted(rows.keys, wanted, side="right")
        _step_behind(after.side.seqs, rows.rows, places, ends, before.side.seqs[matched])
    at = np.clip(places, 0, len(rows.rows) - 1)
    there = (places == at) & (rows.keys[at] >> bits == wanted >> bits)
    if step.within_us is not None:
        distance = after.side.times[rows.rows[at]] - before.side.times[matched]
        there &= np.abs(distance) <= step.within_us
    return np.where(there, places, -1)


def _step_behind(seqs: Ints, rows: Ints, low: Ints, high: Ints, wanted: Ints) -> None:
    """Move each place to the first one whose seq is greater, or to its end: by halving."""
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        early = seqs[rows[middle]] <= wanted[open_]
        low[open_[early]] = middle[early] + 1
        high[open_[~early]] = middle[~early]
        open_ = open_[low[open_] < high[open_]]
