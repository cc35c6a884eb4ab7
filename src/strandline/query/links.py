"""Links of a sequence as small numbers, the same for the same value, whatever file or event has it.

The values that count are those of the event with the fewest rows, numbered in their own order. A
row of another event whose link is not among them can be in no match, and neither can one without a
link: both have NO_LINK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

NO_LINK = -1
_WHOLE = pa.decimal128(20, 0)


def numbered(links: Sequence[pa.ChunkedArray]) -> list[Ints]:
    """The links of each event as numbers from 0, or NO_LINK."""
    links = [_with_one_dictionary(link) for link in _alike(links)]
    fewest = min(links, key=len)
    values = pc.unique(fewest).drop_null()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    values = values.take(pc.sort_indices(values))
    return [_codes(link, values) for link in links]


def taken(link: pa.ChunkedArray, places: Ints) -> pa.ChunkedArray:
    """The links of some rows. Of text with a dictionary only the numbers are moved."""
    if not pa.types.is_dictionary(link.type):
        return link.take(pa.array(places))
    link = _with_one_dictionary(link)
    indices = pa.chunked_array([chunk.indices for chunk in link.chunks], link.type.index_type)
    few = indices.combine_chunks().take(pa.array(places))
    return pa.chunked_array([pa.DictionaryArray.from_arrays(few, _dictionary(link))])


def _codes(link: pa.ChunkedArray, values: pa.Array) -> Ints:
    # All chunks at once: to look values up they are hashed first, at every call. And a missing link
    # is the same as one that nobody else has.
    if not pa.types.is_dictionary(link.type):
        found = pc.fill_null(pc.index_in(link, value_set=values, skip_nulls=True), NO_LINK)
        plain: Ints = found.to_numpy().astype(np.int64)
        return plain
    known = pc.index_in(_dictionary(link), value_set=values, skip_nulls=True)
    codes = np.append(pc.fill_null(known, NO_LINK).to_numpy(), NO_LINK).astype(np.int64)
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


def _alike(links: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Values of one type, equal when the values are; zero has no sign."""
    kinds = {_value_type(link) for link in links}
    if len(kinds) > 1:
        # Numbers of several kinds: those that can be the same are whole.
        return [_whole(link) for link in links]
    if kinds == {pa.float64()}:
        return [pc.add(link, 0.0) for link in links]
    return list(links)


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
