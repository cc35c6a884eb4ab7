"""Decides which field gets which index, by its kind and by counts of its values. Pure.

    every field                fence: bounds and nulls of each zone
    context                    context; a filter for the whole file
    enum, few texts            bitmap: which text is in which zones
    many texts, integers       membership for each zone and for the file, if a value is in few
                               zones: otherwise a filter costs a byte per row and excludes nothing
    numbers and times          imprint; ladder
    times                      calendar, by hour, or by day if there would be too many hours

In a file of one zone, only filters for the whole file can help.
"""

from __future__ import annotations

import msgspec


class IndexPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the cost of indexes."""

    variants_max: int = 4096
    """A bitmap is built for at most so many distinct texts,"""
    variant_rows_min: int = 16
    """if each is in so many rows on average, or there are very few."""
    spread_max: float = 0.5
    """A filter is built if a value is in at most this fraction of the zones on average,"""
    filtered_min: int = 64
    """and there are more distinct values than this: fewer have a bin of an imprint each."""
    calendar_share: float = 1 / 16
    """A calendar is built if it has at most so many pairs of time and zone per row."""
    rank_max: int = 1024
    """The largest rank of ladders: LIMIT is seldom above."""

    def may_be_coded(self, variants: int) -> bool:
        """Whether so many distinct texts may get a bitmap, before their rows are counted."""
        return variants <= self.variants_max

    def has_bitmap(self, *, variants: int, rows: int, is_enum: bool) -> bool:
        texts_max = max(64, rows // self.variant_rows_min)
        return is_enum or variants <= min(texts_max, self.variants_max)

    def has_filters(self, *, pairs: int, distinct: int, zones: int) -> bool:
        """``pairs`` is the number of pairs of a value and a zone that it is in."""
        return distinct > self.filtered_min and pairs <= distinct * max(zones * self.spread_max, 1)

    def has_calendar(self, *, pairs: int, rows: int, zones: int) -> bool:
        return zones > 1 and pairs <= max(zones, rows * self.calendar_share)
