"""The aggregates, by name: what a window of points becomes.

    avg           sum / count, a float
    sum           of integers exact, an int64; a sum that does not fit is an error
    count         points, an int64
    min, max      in the field's own kind
    first, last   by time; of several series at the same time, in the order of their tags
    percentile(p) 0 to 100, with linear interpolation between the two points next to rank
                  p / 100 * (count - 1): the median of 1, 2 is 1.5
    rate          how fast a counter rises, per second: the sum of what it rises from each point to
                  the next, by the time from the first to the last. A fall means that it began again
                  from 0, so its rise is the new value. Each series by itself, then added up; a
                  window with one point of a series has no rate

Points of all series of a group are taken together, except for rate. Booleans are 0 and 1.
"""

from __future__ import annotations

import re

import msgspec

from strandline.errors import Invalid
from strandline.views.metrics.value_types import Kind

NAMES = ("avg", "sum", "count", "min", "max", "first", "last", "percentile", "rate")
SECOND_NS = 1_000_000_000

_PERCENTILE = re.compile(r"percentile\(\s*([0-9]+(?:\.[0-9]+)?)\s*\)")


class Aggregate(msgspec.Struct, frozen=True):
    """What is made of the points of a window."""

    name: str
    percent: float = 50.0
    """For percentile."""
    per_ns: int = SECOND_NS
    """For rate."""

    @property
    def label(self) -> str:
        """As the end of a field's name."""
        return f"p{self.percent:g}" if self.name == "percentile" else self.name

    @property
    def is_by_time(self) -> bool:
        """Whether it depends on which point comes first."""
        return self.name in ("first", "last")

    def kind(self, kind: Kind) -> Kind:
        """What comes out, of values of this kind."""
        if self.name == "count":
            return Kind.INT
        if self.name in ("avg", "percentile", "rate"):
            return Kind.FLOAT
        return Kind.FLOAT if kind is Kind.FLOAT else Kind.INT


def parse_aggregate(text: str) -> Aggregate:
    """An aggregate by its name: ``avg``, ``percentile(95)``."""
    found = _PERCENTILE.fullmatch(text)
    if found is not None:
        return percentile(float(found[1]))
    if text not in NAMES or text == "percentile":
        raise Invalid(
            f"there is no aggregate {text!r}: use {', '.join(NAMES[:-2])}, percentile(p) or rate"
        )
    return Aggregate(text)


def percentile(percent: float) -> Aggregate:
    if not 0 <= percent <= 100:
        raise Invalid(f"percentile({percent:g}) cannot be: give 0 to 100")
    return Aggregate("percentile", percent=percent)
