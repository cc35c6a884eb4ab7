"""Selects runs that a commit merges with its rows, so that many small commits are few runs. Pure.

A run has a level by its rows: level n starts at 8^n rows. When a commit would be the eighth run of
its level at the end of the list, it merges the seven before it; the merged run may be the eighth of
the next level. So a state of n rows has some 8 log n runs, and a row is
written again about once per level.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.query.materialized.manifest import FrameRun

FAN = 8


def level_of(rows: int) -> int:
    level = 0
    while rows >= FAN:
        rows //= FAN
        level += 1
    return level


def to_merge(runs: Sequence[FrameRun], rows: int) -> int:
    """The number of runs at the end of the list to merge with ``rows`` new rows."""
    count = 0
    while True:
        level = level_of(rows)
        place = len(runs) - count
        peers = 0
        while place > peers and level_of(runs[place - 1 - peers].rows) <= level:
            peers += 1
        if peers < FAN - 1:
            return count
        rows += sum(run.rows for run in runs[place - peers : place])
        count += peers
