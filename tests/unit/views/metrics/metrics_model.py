"""What a metrics view should say, the plainest way: lists and dicts of points."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from tests.unit.views.metrics.metrics_world import SECOND


class Column(NamedTuple):
    """One field of one series, in the model."""

    host: str
    zone: str
    field: str


def tags_in_order(column: Column) -> tuple[tuple[str, str], ...]:
    tags = {"zone": column.zone}
    if column.host:
        tags["host"] = column.host
    return tuple(sorted(tags.items()))


def line_of(row, values, at: int) -> str:
    host, zone = row[0], row[1]
    head = f"m,host={host},zone={zone}" if host else f"m,zone={zone}"
    return f"{head} {','.join(f'{name}={_raw(value)}' for name, value in values.items())} {at}"


def _raw(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "F"
    return f"{value}i" if isinstance(value, int) else repr(value)


def first_at_of(how: str, columns) -> int:
    several = [points for points in columns.values() if how != "rate" or len(points) > 1]
    return min(points[0][0] for points in several)


def outcome_of(how: str, columns):
    """The plainest way to say what an aggregate is."""
    if how == "rate":
        rates = [_rate(points) for points in columns.values() if len(points) > 1]
        return sum(rates) if rates else None
    ranked = sorted(columns.items(), key=lambda item: tags_in_order(item[0]))
    together = [
        (at, rank, value) for rank, (_, points) in enumerate(ranked) for at, value in points
    ]
    values = sorted(value for _, _, value in together)
    if how.startswith("percentile"):
        rank = 0.25 * (len(values) - 1)
        low = values[math.floor(rank)]
        return low + (values[math.ceil(rank)] - low) * (rank - math.floor(rank))
    return {
        "avg": lambda: math.fsum(values) / len(values),
        "sum": lambda: sum(values) if isinstance(values[0], int) else math.fsum(values),
        "count": lambda: len(values),
        "min": lambda: values[0],
        "max": lambda: values[-1],
        "first": lambda: min(together)[2],
        "last": lambda: max(together)[2],
    }[how]()


def _rate(points) -> float:
    rise = 0.0
    for (_, before), (_, value) in pairwise(points):
        rise += value if value < before else value - before
    return rise / ((points[-1][0] - points[0][0]) / SECOND)


Outcomes = dict[tuple[tuple[tuple[str, str], ...], int], float]
"""By the tags of a group and a time."""


def aggregated(columns, how: str, width: int | None, by) -> Outcomes:
    """What columns of points come to: for each group and window one value."""
    groups: dict[tuple, dict[int, dict[Column, list]]] = {}
    for column, points in columns.items():
        own = dict(tags_in_order(column))
        chosen = own if by == "*" else {tag: own.get(tag, "") for tag in by}
        group = groups.setdefault(tuple(sorted(chosen.items())), {})
        for at, value in points:
            window = 0 if width is None else at // (width * SECOND)
            group.setdefault(window, {}).setdefault(column, []).append((at, value))
    found: Outcomes = {}
    for tags, windows in groups.items():
        for window, inside in windows.items():
            value = outcome_of(how, inside)
            if value is not None:
                at = first_at_of(how, inside) if width is None else window * width * SECOND
                found[tags, at] = value
    return found
