"""Which field gets which index: by its type, and by what was seen while building. Pure.

    every field                fence: bounds and nulls of each zone
    context                    context; a filter for the whole file
    enum, few texts            bitmap: which text is in which zones
    many texts, whole numbers  membership for each zone and for the file, when a value is in few
                               zones: otherwise a filter costs a byte a row and rules nothing out
    numbers and times          imprint; ladder
    times                      calendar, by the hour, or by the day when hours would be too many

A file of one zone has nothing to choose from inside of it: filters for the whole file are all that
can help.
"""

from __future__ import annotations

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of what an index may cost."""

    variants_max: int = 4096
    """A bitmap for texts of which there are at most so many."""
    variant_rows_min: int = 16
    """And each is in so many rows on average, unless there are very few."""
    spread_max: float = 0.5
    """A filter when a value is in at most this part of the zones on average."""
    filtered_min: int = 64
    """And there are more values than so many: fewer have a bin of an imprint each."""
    calendar_share: float = 1 / 16
    """A calendar when it has at most so many pairs of time and zone for each row."""
    rank_max: int = 1024
    """Ladders reach up to here: LIMIT is seldom above."""

    def may_be_coded(self, variants: int) -> bool:
        """Whether so many different texts are few, before it is known how often each comes."""
        return variants <= self.variants_max

    def has_bitmap(self, *, variants: int, rows: int, is_enum: bool) -> bool:
        few = max(64, rows // self.variant_rows_min)
        return is_enum or variants <= min(few, self.variants_max)

    def has_filters(self, *, pairs: int, distinct: int, zones: int) -> bool:
        """``pairs`` of a value and a zone that it is in."""
        return distinct > self.filtered_min and pairs <= distinct * max(zones * self.spread_max, 1)

    def has_calendar(self, *, pairs: int, rows: int, zones: int) -> bool:
        return zones > 1 and pairs <= max(zones, rows * self.calendar_share)
