"""Links of a sequence as small numbers: equal values have equal numbers in all files and events.

The numbered values are those of the event with the fewest rows, in their own order. A row of
another event whose link is not among them is in no match, nor is a row without a link: both have
NO_LINK.

Text mostly has a dictionary for every zone. Values are looked up once for each dictionary entry,
not for each row, and dictionaries are not unified: that would copy all indexes twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline.views.table.evaluate import Mask

Codes = npt.NDArray[np.int32]

NO_LINK = -1
_WHOLE = pa.decimal128(20, 0)
_LOOKUP_ROWS = 1 << 16
"""Rows that are looked up at once: numpy copies the indexes, and the copy fits the CPU cache."""


class LinkCodes(NamedTuple):
    """Links as numbers."""

    codes: list[Codes]
    """Of each event, for all of its rows: a number from 0, or NO_LINK."""
    different: int
    """The count of different numbers."""


class _Spread(NamedTuple):
    """A column as values, and for each row the index of its value."""

    values: pa.ChunkedArray
    places: Codes | None
    """-1 for null; None when every row has its own value."""


def encode_links(links: Sequence[pa.ChunkedArray], kept: Sequence[Mask | None]) -> LinkCodes:
    """The links of each event. ``kept`` are the rows to match, None for all; a column that occurs
    twice, as the same object, is processed once."""
    different = {id(link): link for link in links}
    spreads = dict(zip(different, map(_spread, _same_type([*different.values()])), strict=True))
    counts = [
        len(link) if some is None else np.count_nonzero(some)
        for link, some in zip(links, kept, strict=True)
    ]
    fewest = counts.index(min(counts))
    values = pc.unique(_used(spreads[id(links[fewest])], kept[fewest])).drop_null()
    values = values.take(pc.sort_indices(values))
    codes = {each: _codes(spread, values) for each, spread in spreads.items()}
    return LinkCodes([codes[id(link)] for link in links], len(values))


def _spread(link: pa.ChunkedArray) -> _Spread:
    if not pa.types.is_dictionary(link.type):
        return _Spread(link, None)
    dictionaries: list[pa.Array] = []
    starts: dict[tuple[int, ...], int] = {}
    places = np.empty(len(link), np.int32)
    row = count = 0
    for chunk in link.chunks:
        dictionary = chunk.dictionary
        start = starts.setdefault(_identity(dictionary), count)
        if start == count:
            dictionaries.append(dictionary)
            count += len(dictionary)
        own = places[row : row + len(chunk)]
        own[:] = _plain(chunk.indices, -1 - start)
        own += start
        row += len(chunk)
    return _Spread(pa.chunked_array(dictionaries, link.type.value_type), places)


def _identity(values: pa.Array) -> tuple[int, ...]:
    """Equal for arrays in the same memory: zones may share a dictionary."""
    buffers = [each.address if each else 0 for each in values.buffers()]
    return (values.offset, len(values), *buffers)


def _plain(numbers: pa.Array, missing: int) -> npt.NDArray[Any]:
    if numbers.null_count:
        numbers = pc.fill_null(numbers.cast(pa.int64()), missing)
    plain: npt.NDArray[Any] = numbers.to_numpy()
    return plain


def _used(spread: _Spread, kept: Mask | None) -> pa.ChunkedArray:
    """The values that occur in rows, possibly repeated."""
    if spread.places is None:
        return spread.values if kept is None else spread.values.filter(pa.array(kept))
    used = np.zeros(len(spread.values) + 1, np.bool_)
    used[spread.places if kept is None else spread.places[kept]] = True
    return spread.values.filter(pa.array(used[:-1]))


def _codes(spread: _Spread, values: pa.Array) -> Codes:
    # All chunks at once: every call of index_in hashes the value set first. A missing link is the
    # same as one that occurs in no other event.
    indexes = pc.fill_null(pc.index_in(spread.values, value_set=values, skip_nulls=True), NO_LINK)
    known: Codes = indexes.to_numpy()
    if spread.places is None:
        return known
    known = np.append(known, np.int32(NO_LINK))
    codes = np.empty(len(spread.places), np.int32)
    for row in range(0, len(codes), _LOOKUP_ROWS):
        # Index -1 is the last element, which is NO_LINK.
        codes[row : row + _LOOKUP_ROWS] = known[spread.places[row : row + _LOOKUP_ROWS]]
    return codes


def _same_type(links: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Values of one type, equal when the values are; zero has no sign."""
    kinds = {_value_type(link) for link in links}
    if len(kinds) > 1:
        # Numbers of several types: only whole numbers can be equal.
        return [_whole(link) for link in links]
    if kinds == {pa.float64()}:
        return [pc.add(link, 0.0) for link in links]
    return list(links)


def _whole(link: pa.ChunkedArray) -> pa.ChunkedArray:
    if link.type != pa.float64():
        return link.cast(_WHOLE)
    return pa.chunked_array([_whole_part(chunk) for chunk in link.chunks], _WHOLE)


def _whole_part(chunk: pa.Array) -> pa.Array:
    """Floats that are whole and fit in 64 bits as decimals; others are null."""
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
