"""Sequences: for each row of the first event the row of the next one, and so on, in numpy.

What a step picks is told in ``bound.py``. A row's seq says which of two rows with equal times is
earlier: a topic's ``ts`` never goes backwards, so (ts, seq) and seq are the same order.

How: links become small numbers, those of the event with the fewest rows; rows of other events
whose link is not among them can be in no match and are dropped. The rows of each next event are
sorted by (link, time, seq) once, and all matches look for their row at the same time, by halving
what is left of their link's rows. Only links, times and seqs are touched: the columns of a result
are taken at the end, for the rows of matches alone.

The rows could be matched by DuckDB, too. Its ASOF join does not say which of two rows with equal
times it takes, and so needs a pass more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.bound import BoundStep

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NO_LINK = -1
_WHOLE = pa.decimal128(20, 0)


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
    times: Ints
    seqs: Ints
    starts: Ints
    """Where the rows of a link begin; one more than there are links."""


def matches(sides: Sequence[Side], steps: Sequence[BoundStep]) -> list[Ints]:
    """For each event the rows that are in matches: the first of all lists are one, and so on."""
    links = _numbered([side.link for side in sides])
    count = 1 + max((int(codes.max()) for codes in links if len(codes)), default=_NO_LINK)
    found = [np.flatnonzero(links[0] != _NO_LINK)]
    for place, step in enumerate(steps, 1):
        before, last = sides[place - 1], found[-1]
        rows = _sorted(sides[place], links[place], count)
        same = sides[place].table == before.table
        picked = _picked(rows, before, links[place - 1], last, step, same=same)
        there = picked >= 0
        found = [each[there] for each in found]
        found.append(rows.rows[picked[there]])
    return found


def in_order(side: Side, found: list[Ints]) -> list[Ints]:
    """Matches in the order of their first event: time, then seq."""
    order = order_by([side.times[found[0]], side.seqs[found[0]]])
    return [each[order] for each in found]


def _picked(
    rows: _Sorted, before: Side, links: Ints, last: Ints, step: BoundStep, *, same: bool
) -> Ints:
    """For each match its next row, as a place in the sorted rows; -1 for none."""
    times, seqs, codes = before.times[last], before.seqs[last], links[last]
    first, end = rows.starts[codes], rows.starts[codes + 1]
    after_seq = seqs if same and step.direction == "followed" else None
    places = _bisected(rows, first, end, times, after_seq)
    if step.direction == "followed":
        there = places < end
    else:
        places = places - 1
        there = places >= first
    if step.within_us is not None and len(rows.times):
        distance = np.abs(rows.times[np.where(there, places, 0)] - times)
        there &= distance <= step.within_us
    return np.where(there, places, -1)


def _bisected(rows: _Sorted, first: Ints, end: Ints, times: Ints, after_seq: Ints | None) -> Ints:
    """The first place at or behind a time; with seqs, behind (time, seq)."""
    low, high = first.copy(), end.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        early = rows.times[middle] < times[open_]
        if after_seq is not None:
            level = rows.times[middle] == times[open_]
            early |= level & (rows.seqs[middle] <= after_seq[open_])
        low[open_[early]] = middle[early] + 1
        high[open_[~early]] = middle[~early]
        open_ = open_[low[open_] < high[open_]]
    return low


def _sorted(side: Side, links: Ints, count: int) -> _Sorted:
    rows = np.flatnonzero(links != _NO_LINK)
    codes, times, seqs = links[rows], side.times[rows], side.seqs[rows]
    order = order_by([codes, times, seqs])
    sizes = np.bincount(codes, minlength=count) if count else np.empty(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return _Sorted(rows[order], times[order], seqs[order], starts)


def order_by(keys: Sequence[Ints]) -> Ints:
    """The order of rows by several keys, the first of them the most important.

    From the least important key on, each is sorted without disturbing what is there; one that is
    in order already costs a look. numpy sorts 16 bits at a time in linear time, so that is how."""
    order = np.arange(len(keys[0]), dtype=np.int64)
    for key in reversed(keys):
        current = key[order]
        if len(current) < 2 or bool(np.all(current[:-1] <= current[1:])):
            continue
        rest = (current - current.min()).astype(np.uint64)
        if int(rest.max()) >> 48:
            order = order[np.argsort(rest, kind="stable")]
            continue
        for shift in range(0, int(rest.max()).bit_length(), 16):
            digits = ((key[order] - current.min()).astype(np.uint64) >> np.uint64(shift)).astype(
                np.uint16
            )
            order = order[np.argsort(digits, kind="stable")]
    return order


def _numbered(links: list[pa.ChunkedArray]) -> list[Ints]:
    """The links of each event as numbers from 0, the same for the same value; -1 for no match."""
    links = _alike(links)
    place = min(range(len(links)), key=lambda each: len(links[each]))
    if not pa.types.is_dictionary(links[place].type):
        links[place] = links[place].dictionary_encode()
    links = [_with_one_dictionary(link) for link in links]
    values = pc.unique(_dictionary(links[place]))
    return [_codes(link, values) for link in links]


def _codes(link: pa.ChunkedArray, values: pa.Array) -> Ints:
    # All chunks at once: to look values up they are hashed first, at every call. And a missing link
    # is the same as one that nobody else has.
    if not pa.types.is_dictionary(link.type):
        found = pc.fill_null(pc.index_in(link, value_set=values, skip_nulls=True), _NO_LINK)
        plain: Ints = found.to_numpy().astype(np.int64)
        return plain
    known = pc.index_in(_dictionary(link), value_set=values, skip_nulls=True)
    codes = np.append(pc.fill_null(known, _NO_LINK).to_numpy(), _NO_LINK).astype(np.int64)
    places = [np.empty(0, np.int64)]
    for chunk in link.chunks:
        places.append(pc.fill_null(chunk.indices.cast(pa.int64()), len(known)).to_numpy())
    coded: Ints = codes[np.concatenate(places)]
    return coded


def _with_one_dictionary(link: pa.ChunkedArray) -> pa.ChunkedArray:
    return link.unify_dictionaries() if pa.types.is_dictionary(link.type) else link


def _dictionary(link: pa.ChunkedArray) -> pa.Array:
    """That of all chunks."""
    if link.num_chunks:
        return link.chunk(0).dictionary
    return pa.array([], link.type.value_type)


def _alike(links: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Values of one type, equal when the values are; zero has no sign."""
    kinds = {_value_type(link) for link in links}
    if len(kinds) > 1:
        # Numbers of several kinds: those that can be the same are whole.
        return [_whole(link) for link in links]
    if kinds == {pa.float64()}:
        return [pc.add(link, 0.0) for link in links]
    return links


def _whole(link: pa.ChunkedArray) -> pa.ChunkedArray:
    if link.type != pa.float64():
        return link.cast(_WHOLE)
    return pa.chunked_array([_whole_part(chunk) for chunk in link.chunks], _WHOLE)


def _whole_part(chunk: pa.Array) -> pa.Array:
    """Floats without a fraction that fit in 64 bits, as they are; others are null."""
    values = chunk.fill_null(0.5).to_numpy(zero_copy_only=False)
    fits = (values == np.floor(values)) & (values >= -(2.0**63)) & (values < 2.0**64)
    signed = fits & (values < 2.0**63)
    low = pa.array(np.where(signed, values, 0).astype(np.int64)).cast(_WHOLE)
    high = pa.array(np.where(fits & ~signed, values, 0).astype(np.uint64)).cast(_WHOLE)
    either = pc.if_else(pa.array(signed), low, high)
    return pc.if_else(pa.array(fits), either, pa.scalar(None, _WHOLE))


def _value_type(link: pa.ChunkedArray) -> Any:
    kind = link.type
    return kind.value_type if pa.types.is_dictionary(kind) else kind
