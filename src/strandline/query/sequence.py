"""Sequences: for each row of the first event the row of the next one, and so on, in numpy.

What a step picks is told in ``bound.py``. A row's seq says which of two rows with equal times is
earlier: a topic's ``ts`` never goes backwards, so (ts, seq) and seq are the same order.

How: links become small numbers, those of the event with the fewest rows, in the order of their
values; rows of other events whose link is not among them can be in no match and are dropped. Link
and time together are one number of 64 bits. The rows of each next event are sorted by it once, and
all matches look for theirs at the same time. Files have their rows in the order of contexts and
time, so there is little to sort. Only links, times and seqs are touched: the columns of a result
are taken at the end, for the rows of matches alone.

The rows could be matched by DuckDB, too. Its ASOF join does not say which of two rows with equal
times it takes, and so needs a pass more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.query.bound import BoundStep
from strandline.query.links import NO_LINK, Ints, numbered

Keys = npt.NDArray[np.uint64]

_KEY_BITS = 64


class Side(NamedTuple):
    """The rows of one event of a sequence."""

    table: str
    link: pa.ChunkedArray
    times: Ints
    """In microseconds."""
    seqs: Ints


class _Sorted(NamedTuple):
    """Rows in order of (link, time, seq)."""

    rows: Ints
    keys: Keys
    times: Ints
    seqs: Ints


def matches(sides: Sequence[Side], steps: Sequence[BoundStep]) -> list[Ints]:
    """For each event the rows that are in matches: the first of all lists are one, and so on."""
    links = numbered([side.link for side in sides])
    moments, bits = _moments([side.times for side in sides], links)
    found = [np.flatnonzero(links[0] != NO_LINK)]
    for place, step in enumerate(steps, 1):
        before, last = sides[place - 1], found[-1]
        rows = _sorted(sides[place], links[place], moments[place], bits)
        wanted = _keys(links[place - 1][last], moments[place - 1][last], bits)
        same = sides[place].table == before.table
        picked = _picked(rows, wanted, before.times[last], before.seqs[last], step, bits, same=same)
        there = picked >= 0
        found = [each[there] for each in found]
        found.append(rows.rows[picked[there]])
    return found


def in_order(side: Side, found: list[Ints]) -> list[Ints]:
    """Matches in the order of their first event: time, then seq."""
    order = np.lexsort((side.seqs[found[0]], side.times[found[0]]))
    return [each[order] for each in found]


def _moments(times: Sequence[Ints], links: Sequence[Ints]) -> tuple[list[Ints], int]:
    """Times as numbers from 0 in their order, and how many bits they have: so many at most that a
    link fits beside them."""
    link_max = max((int(each.max()) for each in links if len(each)), default=0)
    spare = _KEY_BITS - link_max.bit_length()
    first = min((int(each.min()) for each in times if len(each)), default=0)
    last = max((int(each.max()) for each in times if len(each)), default=0)
    if (last - first).bit_length() <= min(spare, _KEY_BITS - 1):
        return [each - first for each in times], (last - first).bit_length()
    every, ranks = np.unique(np.concatenate(times), return_inverse=True)
    cuts = np.cumsum([len(each) for each in times])[:-1]
    return np.split(ranks.astype(np.int64), cuts), len(every).bit_length()


def _keys(links: Ints, moments: Ints, bits: int) -> Keys:
    keys: Keys = links.view(np.uint64) << np.uint64(bits)
    keys |= moments.view(np.uint64)
    return keys


def _sorted(side: Side, links: Ints, moments: Ints, bits: int) -> _Sorted:
    rows = np.flatnonzero(links != NO_LINK)
    keys, seqs = _keys(links[rows], moments[rows], bits), side.seqs[rows]
    order = np.argsort(keys, kind="stable")
    if _is_unsettled(keys[order], seqs[order]):
        order = np.lexsort((seqs, keys))
    rows = rows[order]
    return _Sorted(rows, keys[order], side.times[rows], seqs[order])


def _is_unsettled(keys: Keys, seqs: Ints) -> bool:
    """Whether rows of one link and time are not in the order of their seqs."""
    return bool(np.any((keys[1:] == keys[:-1]) & (seqs[1:] < seqs[:-1])))


def _picked(
    rows: _Sorted,
    wanted: Keys,
    times: Ints,
    seqs: Ints,
    step: BoundStep,
    bits: int,
    *,
    same: bool,
) -> Ints:
    """For each match its next row, as a place in the sorted rows; -1 for none."""
    if not len(rows.rows):
        return np.full(len(wanted), -1)
    places: Ints = np.searchsorted(rows.keys, wanted)
    if step.direction == "preceded":
        places -= 1
    elif same:
        ends: Ints = np.searchsorted(rows.keys, wanted, side="right")
        _step_behind(rows.seqs, places, ends, seqs)
    at = np.clip(places, 0, len(rows.rows) - 1)
    there = (places == at) & (rows.keys[at] >> np.uint64(bits) == wanted >> np.uint64(bits))
    if step.within_us is not None:
        there &= np.abs(rows.times[at] - times) <= step.within_us
    return np.where(there, places, -1)


def _step_behind(seqs: Ints, low: Ints, high: Ints, wanted: Ints) -> None:
    """Move each place to the first one whose seq is greater, or to its end: by halving."""
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        early = seqs[middle] <= wanted[open_]
        low[open_[early]] = middle[early] + 1
        high[open_[~early]] = middle[~early]
        open_ = open_[low[open_] < high[open_]]
