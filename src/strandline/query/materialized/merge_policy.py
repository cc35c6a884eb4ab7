"""Which runs a commit merges with its own rows, so that many small commits stay few runs. Pure.

A run belongs to a level by its rows: level n has from 8^n on. When a commit would be the eighth run
of its level at the end of the list, it takes the seven before it into its own; what comes of that
may be the eighth of the next level. So a state of n rows has some 8 log n runs, and a row is
written again about once per level.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.query.materialized.manifest import Run

FAN = 8


def level_of(rows: int) -> int:
    level = 0
    while rows >= FAN:
        rows //= FAN
        level += 1
    return level


def to_merge(runs: Sequence[Run], rows: int) -> int:
    """How many runs at the end of the list go into one with so many new rows."""
    taken = 0
    while True:
        level = level_of(rows)
        place = len(runs) - taken
        peers = 0
        while place > peers and level_of(runs[place - 1 - peers].rows) <= level:
            peers += 1
        if peers < FAN - 1:
            return taken
        rows += sum(run.rows for run in runs[place - peers : place])
        taken += peers
