"""Checks durations in seconds and converts them to times in microseconds. Pure."""

from __future__ import annotations

from strandline.errors import Invalid

SECONDS_MAX = 10 * 365 * 86_400
"""The longest duration: ten years."""


def time_after(now_us: int, seconds: float, name: str) -> int:
    """The time ``seconds`` from now, in microseconds; 0 for now."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise Invalid(f"{name} is a number of seconds, not {type(seconds).__name__}")
    if not 0 <= seconds <= SECONDS_MAX:
        raise Invalid(f"{name} is {seconds} s: give from 0 to {SECONDS_MAX} seconds")
    return now_us + round(seconds * 1e6) if seconds else 0


def checked_wait(seconds: float) -> float:
    """A checked waiting time, at most ``SECONDS_MAX``."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise Invalid(f"wait_s is a number of seconds from 0 on, not {seconds!r}")
    return min(float(seconds), float(SECONDS_MAX))
