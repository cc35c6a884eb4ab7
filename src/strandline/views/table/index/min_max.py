"""Min/max index: bounds and nulls of each zone. Every field has one.

    arrays   exact u8, 1 or 0; nulls of each zone u32; least and greatest of each zone

Texts are cut to ``TEXT_MAX`` bytes and lose NULs at their end, as numpy stores them. Cut texts have
the order of the whole ones, except those that became equal: bounds are then closed, and a zone is
never known to have only one text. ``exact`` is 1 if no bound was cut.

The bounds of a zone without values are undefined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import (
    CodedTextColumn,
    NumberColumn,
    TextColumn,
    ZoneLayout,
)
from strandline.views.table.index.predicate import Between, Key, NoneOf, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "fence"
TEXT_MAX = 48


def build(column: NumberColumn | CodedTextColumn | TextColumn, layout: ZoneLayout) -> bytes:
    nulls = (layout.sizes() - column.present).astype("<u4")
    if isinstance(column, NumberColumn):
        last = np.maximum(column.present - 1, 0)
        greatest = column.sorted[np.arange(layout.zones), last]
        return _pack(nulls, column.sorted[:, 0], greatest)
    if isinstance(column, CodedTextColumn):
        least, most = _coded_bounds(column)
    else:
        least, most = _text_bounds(column, layout)
    exact = all(cut(text) == text for text in least + most)
    return _pack(nulls, _text_array(least), _text_array(most), exact=exact)


class MinMaxIndex:
    """Bounds of the zones. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        exact, nulls, self.least, self.greatest = arrays.unpack(data)
        self._exact = bool(exact[0])
        self.nulls: Mask = nulls > 0
        self.present: NDArray[np.int64] = layout.sizes() - nulls
        """The number of values of each zone."""
        self.ram = len(data) + 9 * layout.zones

    def may(self, test: Test) -> Mask:
        """Zones that may hold a value that passes the test."""
        has_values = self.present > 0
        match test:
            case OneOf((value,)):
                return has_values & self._overlaps(Between(value, value))
            case OneOf(values):
                keys = self._keys(values)
                first = np.searchsorted(keys, self.least, side="left")
                return has_values & (first < np.searchsorted(keys, self.greatest, side="right"))
            case NoneOf(values):
                return has_values & ~self._is_only(values)
            case Between():
                return has_values & self._overlaps(test)

    def keys_within(self, test: Between) -> bool:
        """Whether the bounds of this test and of the zones are compared without cutting."""
        return self._exact and all(
            not isinstance(key, bytes) or cut(key) == key for key in (test.low, test.high)
        )

    def _is_only(self, values: tuple[Key, ...]) -> Mask:
        """Zones whose values are all equal to one of these."""
        whole = tuple(
            value for value in values if not isinstance(value, bytes) or cut(value) == value
        )
        if not self._exact or not whole:
            return np.zeros(len(self.least), bool)
        zones: Mask = (self.least == self.greatest) & np.isin(self.least, self._keys(whole))
        return zones

    def _overlaps(self, test: Between) -> Mask:
        is_exact = self.keys_within(test)
        zones = np.ones(len(self.least), bool)
        if test.low is not None:
            low = self._keys((test.low,))[0]
            zones &= self.greatest > low if test.low_open and is_exact else self.greatest >= low
        if test.high is not None:
            high = self._keys((test.high,))[0]
            zones &= self.least < high if test.high_open and is_exact else self.least <= high
        return zones

    def _keys(self, values: tuple[Key, ...]) -> Array:
        """Keys as an array that is comparable with the bounds."""
        if self.least.dtype.kind == "S":
            return _text_array([cut(value) for value in values if isinstance(value, bytes)])
        return np.array(values, self.least.dtype)


def cut(text: bytes) -> bytes:
    """A text in the form of a bound."""
    return text[:TEXT_MAX].rstrip(b"\0")


def _coded_bounds(column: CodedTextColumn) -> tuple[list[bytes], list[bytes]]:
    after = len(column.variants)
    least = np.where(column.codes < 0, after, column.codes).min(axis=1)
    most = column.codes.max(axis=1)
    texts = [*column.variants, b""]
    return [texts[code] for code in least], [texts[code] for code in most]


def _text_bounds(column: TextColumn, layout: ZoneLayout) -> tuple[list[bytes], list[bytes]]:
    least, most = [], []
    for zone in range(layout.zones):
        bounds = pc.min_max(column.texts.slice(zone * layout.zone_rows, layout.zone_rows))
        least.append((bounds["min"].as_py() or "").encode())
        most.append((bounds["max"].as_py() or "").encode())
    return least, most


def _text_array(texts: list[bytes]) -> Array:
    return np.array([cut(text) for text in texts] or [b""], "S")[: len(texts)]


def _pack(nulls: Array, least: Array, greatest: Array, *, exact: Any = True) -> bytes:
    return arrays.pack(np.array([exact], "<u1"), nulls, least, greatest)
