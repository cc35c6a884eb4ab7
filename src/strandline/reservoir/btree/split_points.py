"""Split points of a node that is too large for a page. Pure.

Sizes are cumulative: ``ends[i]`` is the size of all items up to and including item ``i``. A cut at
``i`` begins a new part with item ``i``. A part has at least ``least`` items.
"""

from __future__ import annotations

from bisect import bisect_right

FILL_OF_PARTS = 0.8
"""Fill of the parts after many inserts in the middle at once, to leave space for more."""


def full_parts(ends: list[int], limit: int, least: int) -> list[int]:
    """Parts as large as the limit allows, except the last: for keys in ascending order."""
    cuts: list[int] = []
    begin, previous = 0, 0
    while ends[-1] - previous > limit and len(ends) - begin >= 2 * least:
        at = max(bisect_right(ends, previous + limit), begin + least)
        begin = min(at, len(ends) - least)
        previous = ends[begin - 1]
        cuts.append(begin)
    return cuts


def full_parts_backwards(ends: list[int], limit: int, least: int) -> list[int]:
    """Parts as large as the limit allows, except the first: for keys in descending order."""
    total = ends[-1]
    reversed_ends = [total - end for end in reversed(ends[:-1])] + [total]
    return [len(ends) - cut for cut in reversed(full_parts(reversed_ends, limit, least))]


def even_parts(ends: list[int], limit: int, least: int) -> list[int]:
    """Parts of about equal size: for keys in any order."""
    target_parts = max(2, -int(-ends[-1] // (limit * FILL_OF_PARTS)))
    parts = min(target_parts, len(ends) // least)
    cuts: list[int] = []
    begin = 0
    for part in range(1, parts):
        begin = _nearest(ends, ends[-1] * part // parts)
        low = (cuts[-1] if cuts else 0) + least
        begin = min(max(begin, low), len(ends) - least * (parts - part))
        cuts.append(begin)
    return cuts


def separator(left: bytes, right: bytes) -> bytes:
    """The shortest key that is above ``left`` and not above ``right``; ``left < right``."""
    size = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    return right[: (len(left) if size is None else size) + 1]


def _nearest(ends: list[int], target: int) -> int:
    """The cut whose left side is nearest to this size."""
    at = bisect_right(ends, target)
    if at < len(ends) and ends[at] - target < target - (ends[at - 1] if at else 0):
        return at + 1
    return at
