"""The aggregates by name: how a window of points becomes one value.

    avg           sum / count, a float
    sum           exact for integers, an int64; a sum that does not fit is an error
    count         points, an int64
    min, max      in the kind of the field
    first, last   by time; at equal times, in the order of the tags of their series
    percentile(p) 0 to 100, with linear interpolation between the two points next to rank
                  p / 100 * (count - 1): the median of 1, 2 is 1.5
    rate          how fast a counter rises, per second: the sum of the increases from each point to
                  the next, divided by the time from the first to the last. A fall is a counter
                  that restarted from 0, so the increase is the new value. Computed for each series,
                  then added up; a window with one point of a series has no rate

Points of all series of a group are aggregated together, except for rate. Booleans are 0 and 1.
"""

from __future__ import annotations

import re

import msgspec

from strandline.errors import Invalid
from strandline.views.metrics.value_types import ValueKind

NAMES = ("avg", "sum", "count", "min", "max", "first", "last", "percentile", "rate")
SECOND_NS = 1_000_000_000

_PERCENTILE = re.compile(r"percentile\(\s*([0-9]+(?:\.[0-9]+)?)\s*\)")


class AggregateFunction(msgspec.Struct, frozen=True):
    """An aggregate function with its parameters."""

    name: str
    percent: float = 50.0
    """For percentile."""
    per_ns: int = SECOND_NS
    """For rate."""

    @property
    def label(self) -> str:
        """The suffix of the name of an aggregated field."""
        return f"p{self.percent:g}" if self.name == "percentile" else self.name

    @property
    def is_by_time(self) -> bool:
        """Whether the result depends on the order of the points."""
        return self.name in ("first", "last")

    def kind(self, kind: ValueKind) -> ValueKind:
        """The kind of the result, for values of this kind."""
        if self.name == "count":
            return ValueKind.INT
        if self.name in ("avg", "percentile", "rate"):
            return ValueKind.FLOAT
        return ValueKind.FLOAT if kind is ValueKind.FLOAT else ValueKind.INT


def parse_aggregate(text: str) -> AggregateFunction:
    """Parse the name of an aggregate: ``avg``, ``percentile(95)``."""
    match = _PERCENTILE.fullmatch(text)
    if match is not None:
        return percentile(float(match[1]))
    if text not in NAMES or text == "percentile":
        raise Invalid(
            f"there is no aggregate {text!r}: use {', '.join(NAMES[:-2])}, percentile(p) or rate"
        )
    return AggregateFunction(text)


def percentile(percent: float) -> AggregateFunction:
    if not 0 <= percent <= 100:
        raise Invalid(f"invalid percentile({percent:g}): give 0 to 100")
    return AggregateFunction("percentile", percent=percent)
