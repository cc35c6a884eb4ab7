"""Bounds and nulls of each zone: what every field has.

    arrays   exact u8, 1 or 0; nulls of each zone u32; least and greatest of each zone

Texts are cut to ``TEXT_MAX`` bytes and lose NULs at their end, as numpy keeps them. Cut texts stand
in the order of the whole ones, but for those that became equal: bounds are then closed, and no zone
is known to hold one text alone. ``exact`` says that no bound was changed in this way.

The bounds of a zone without values mean nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import Coded, Layout, Numbers, Texts
from strandline.views.table.index.predicate import Between, Key, NoneOf, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "fence"
TEXT_MAX = 48


def build(column: Numbers | Coded | Texts, layout: Layout) -> bytes:
    nulls = (layout.sizes() - column.present).astype("<u4")
    if isinstance(column, Numbers):
        last = np.maximum(column.present - 1, 0)
        greatest = column.sorted[np.arange(layout.zones), last]
        return _packed(nulls, column.sorted[:, 0], greatest)
    if isinstance(column, Coded):
        least, most = _coded_bounds(column)
    else:
        least, most = _text_bounds(column, layout)
    exact = all(cut(text) == text for text in least + most)
    return _packed(nulls, _fixed(least), _fixed(most), exact=exact)


class Fence:
    """Bounds of the zones. Immutable; safe from many threads."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        exact, nulls, self.least, self.greatest = arrays.unpack(data)
        self._exact = bool(exact[0])
        self.nulls: Mask = nulls > 0
        self.present: NDArray[np.int64] = layout.sizes() - nulls
        """How many values each zone has."""
        self.ram = len(data) + 9 * layout.zones

    def may(self, test: Test) -> Mask:
        """Zones that may hold a value as it is asked for."""
        there = self.present > 0
        match test:
            case OneOf((value,)):
                return there & self._overlaps(Between(value, value))
            case OneOf(values):
                keys = self._keys(values)
                first = np.searchsorted(keys, self.least, side="left")
                return there & (first < np.searchsorted(keys, self.greatest, side="right"))
            case NoneOf(values):
                return there & ~self._is_only(values)
            case Between():
                return there & self._overlaps(test)

    def keys_within(self, test: Between) -> bool:
        """Whether bounds of this test are compared as they are."""
        return self._exact and all(
            not isinstance(key, bytes) or cut(key) == key for key in (test.low, test.high)
        )

    def _is_only(self, values: tuple[Key, ...]) -> Mask:
        """Zones whose values are all equal, and one of these."""
        kept = tuple(
            value for value in values if not isinstance(value, bytes) or cut(value) == value
        )
        if not self._exact or not kept:
            return np.zeros(len(self.least), bool)
        found: Mask = (self.least == self.greatest) & np.isin(self.least, self._keys(kept))
        return found

    def _overlaps(self, test: Between) -> Mask:
        is_exact = self.keys_within(test)
        found = np.ones(len(self.least), bool)
        if test.low is not None:
            low = self._keys((test.low,))[0]
            found &= self.greatest > low if test.low_open and is_exact else self.greatest >= low
        if test.high is not None:
            high = self._keys((test.high,))[0]
            found &= self.least < high if test.high_open and is_exact else self.least <= high
        return found

    def _keys(self, values: tuple[Key, ...]) -> Array:
        """Keys as an array that compares with the bounds."""
        if self.least.dtype.kind == "S":
            return _fixed([cut(value) for value in values if isinstance(value, bytes)])
        return np.array(values, self.least.dtype)


def cut(text: bytes) -> bytes:
    """A text as a bound holds it."""
    return text[:TEXT_MAX].rstrip(b"\0")


def _coded_bounds(column: Coded) -> tuple[list[bytes], list[bytes]]:
    after = len(column.variants)
    least = np.where(column.codes < 0, after, column.codes).min(axis=1)
    most = column.codes.max(axis=1)
    texts = [*column.variants, b""]
    return [texts[place] for place in least], [texts[place] for place in most]


def _text_bounds(column: Texts, layout: Layout) -> tuple[list[bytes], list[bytes]]:
    least, most = [], []
    for zone in range(layout.zones):
        bounds = pc.min_max(column.texts.slice(zone * layout.zone_rows, layout.zone_rows))
        least.append((bounds["min"].as_py() or "").encode())
        most.append((bounds["max"].as_py() or "").encode())
    return least, most


def _fixed(texts: list[bytes]) -> Array:
    return np.array([cut(text) for text in texts] or [b""], "S")[: len(texts)]


def _packed(nulls: Array, least: Array, greatest: Array, *, exact: Any = True) -> bytes:
    return arrays.pack(np.array([exact], "<u1"), nulls, least, greatest)
