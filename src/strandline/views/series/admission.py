"""Which points a series takes: none before its floor, and none too far in the future. Pure.

    floor     retention has forgotten that time
    future    at is more than ``future_max`` after the clock

``future_max`` and retention by the clock need to know what the clock says in the unit of ``at``, so
they are options of series that count in a unit of time (``config/view_config.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.config.view_config import SeriesConfig
from strandline.errors import PointsRefused
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.values import RefusedPoint


def ceiling_of(config: SeriesConfig, now_us: int) -> int:
    """The greatest at that is taken."""
    if not config.future_max:
        return AT_MAX
    return min(AT_MAX, config.time_of(now_us) + config.future_max)


def due_floor(config: SeriesConfig, newest: int, now_us: int) -> int:
    """Where retention wants the floor; ``AT_MIN`` when everything is kept or nothing is there."""
    kept = config.kept
    if not kept:
        return AT_MIN
    if config.retention_by == "clock":
        return config.time_of(now_us) - kept
    # A point that came by a way without a check must not take all others with it.
    return max(AT_MIN, min(newest, ceiling_of(config, now_us)) - kept)


def refusals(ats: Sequence[int], floor: int, ceiling: int) -> list[RefusedPoint]:
    """The points that are not taken."""
    if min(ats) >= floor and max(ats) <= ceiling:
        return []
    return [
        RefusedPoint(place, at, "floor" if at < floor else "future")
        for place, at in enumerate(ats)
        if not floor <= at <= ceiling
    ]


def refusal(
    names: Sequence[bytes],
    refused: Sequence[RefusedPoint],
    floor: int,
    ceiling: int,
    *,
    too_late: bool = False,
) -> PointsRefused:
    """The error for points that are not taken, which describes the first of them.

    ``too_late``: the floor rose while they were appended, and the others of the batch are stored.
    """
    place, at, reason = refused[0]
    if reason == "floor":
        why = (
            f"is before the floor {floor}: retention has forgotten that time, so the point is too "
            "late to be kept"
        )
    else:
        why = (
            f"is in the future: the latest at that is taken now is {ceiling}; check the clock of "
            "the source, or raise future_max"
        )
    text = f"a point of source {names[place]!r} at {at} {why}"
    if len(names) > 1:
        text += f" ({len(refused)} of {len(names)} points are refused, "
        if too_late:
            text += "the floor rose while they were appended, and the others are stored)"
        else:
            text += "so none was appended: leave them out, or append with drop_refused)"
    return PointsRefused(text, refused)
