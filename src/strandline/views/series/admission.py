"""Decides which points a series refuses: those before its floor or too far in the future. Pure.

    floor     at is before the floor that retention has raised
    future    at is more than ``future_max`` after the clock

``future_max`` and retention by the clock need the time of the clock in the unit of ``at``, so they
are options of series whose unit is a unit of time (``config/view_config.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.config.view_config import SeriesConfig
from strandline.errors import PointsRefused
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.values import RefusedPoint


def ceiling_of(config: SeriesConfig, now_us: int) -> int:
    """The greatest at that is accepted."""
    if not config.future_max:
        return AT_MAX
    return min(AT_MAX, config.time_of(now_us) + config.future_max)


def due_floor(config: SeriesConfig, newest: int, now_us: int) -> int:
    """The floor that retention implies; ``AT_MIN`` without retention or without points."""
    retention = config.effective_retention
    if not retention:
        return AT_MIN
    if config.retention_by == "clock":
        return config.time_of(now_us) - retention
    # A point far in the future that was appended without a check must not expire all others.
    return max(AT_MIN, min(newest, ceiling_of(config, now_us)) - retention)


def refused_points(ats: Sequence[int], floor: int, ceiling: int) -> list[RefusedPoint]:
    """The points that are refused."""
    if min(ats) >= floor and max(ats) <= ceiling:
        return []
    return [
        RefusedPoint(index, at, "floor" if at < floor else "future")
        for index, at in enumerate(ats)
        if not floor <= at <= ceiling
    ]


def refused_error(
    names: Sequence[bytes],
    refused: Sequence[RefusedPoint],
    floor: int,
    ceiling: int,
    *,
    too_late: bool = False,
) -> PointsRefused:
    """The error for refused points, which describes the first of them.

    ``too_late``: the floor rose while they were appended, and the others of the batch are stored.
    """
    index, at, reason = refused[0]
    if reason == "floor":
        cause = (
            f"is before the floor {floor}: retention has removed older points, so the point is "
            "too late"
        )
    else:
        cause = (
            f"is in the future: the greatest accepted at is now {ceiling}; check the clock of "
            "the source, or raise future_max"
        )
    text = f"a point of source {names[index]!r} at {at} {cause}"
    if len(names) > 1:
        text += f" ({len(refused)} of {len(names)} points are refused, "
        if too_late:
            text += "the floor rose while they were appended, and the others are stored)"
        else:
            text += "so none was appended: leave them out, or append with drop_refused)"
    return PointsRefused(text, refused)
