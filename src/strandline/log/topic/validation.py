"""Checks cursors, counts and times given as arguments, and names the wrong one. Pure.

Appended values are checked in ``log/append/batch.py``.
"""

from __future__ import annotations

import math

from strandline.errors import Invalid


def check_whole(**numbers: object) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool):
            raise Invalid(f"{name} is a whole number, not {type(number).__name__}: give an int")


def check_expected_head(head: int | None) -> None:
    """A head that no topic can have is an Invalid request, not a Conflict that may pass."""
    if head is None:
        return
    check_whole(expected_head=head)
    if head < 0:
        raise Invalid(f"expected_head is 0 or a seq, not {head}")


def check_timeout(timeout_s: float | None) -> None:
    if timeout_s is None:
        return
    number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    if not number or math.isnan(timeout_s):
        raise Invalid(f"timeout_s is seconds or None, not {timeout_s!r}")
