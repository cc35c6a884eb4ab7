"""Where to cut what has become too large for a page. Pure.

Sizes come added up: ``ends[i]`` is the size of everything up to and including item ``i``. A cut at
``i`` begins a new part with item ``i``. A part has at least ``least`` items.
"""

from __future__ import annotations

from bisect import bisect_right

FILL_OF_PARTS = 0.8
"""When many entries came at once into the middle, how full the parts are: room for the next."""


def full(ends: list[int], limit: int, least: int) -> list[int]:
    """Every part as large as the limit allows but the last: for keys that come in order."""
    cuts: list[int] = []
    begin, before = 0, 0
    while ends[-1] - before > limit and len(ends) - begin >= 2 * least:
        at = max(bisect_right(ends, before + limit), begin + least)
        begin = min(at, len(ends) - least)
        before = ends[begin - 1]
        cuts.append(begin)
    return cuts


def full_backwards(ends: list[int], limit: int, least: int) -> list[int]:
    """The same from the end: for keys that come in reverse order."""
    total = ends[-1]
    turned = [total - end for end in reversed(ends[:-1])] + [total]
    return [len(ends) - cut for cut in reversed(full(turned, limit, least))]


def even(ends: list[int], limit: int, least: int) -> list[int]:
    """Parts of about one size: for keys that come in any order."""
    wanted = max(2, -int(-ends[-1] // (limit * FILL_OF_PARTS)))
    parts = min(wanted, len(ends) // least)
    cuts: list[int] = []
    begin = 0
    for part in range(1, parts):
        begin = _nearest(ends, ends[-1] * part // parts)
        low = (cuts[-1] if cuts else 0) + least
        begin = min(max(begin, low), len(ends) - least * (parts - part))
        cuts.append(begin)
    return cuts


def separator(left: bytes, right: bytes) -> bytes:
    """The shortest key that is above ``left`` and not above ``right``, which is above it."""
    size = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    return right[: (len(left) if size is None else size) + 1]


def _nearest(ends: list[int], target: int) -> int:
    """The cut before which there is nearly so much."""
    at = bisect_right(ends, target)
    if at < len(ends) and ends[at] - target < target - (ends[at - 1] if at else 0):
        return at + 1
    return at
