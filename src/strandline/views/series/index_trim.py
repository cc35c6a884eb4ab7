"""Removes points below the floor from the index in short steps, so that other threads do not wait.

These points are invisible since the floor was raised. Removing them frees pages, and yields the
seqs of records that may be removed from the log. After a crash the next run removes the remaining
ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.views.series.fold import SeriesFold

STEP = 256
"""Blocks, late arrivals or sources that are processed in one step."""


def trim_below_floor(fold: SeriesFold) -> Iterator[None]:
    """Remove a few entries per step, until none is below. The fold may change between steps."""
    floor = fold.floor
    if fold.trimmed_floor == floor:
        return
    for count, (name, head) in enumerate(fold.sources.heads(), start=1):
        if head.oldest < floor:
            while not _drop_points(fold, name, floor):
                yield
        if count % STEP == 0:
            yield
    fold.trimmed_floor = floor


def _drop_points(fold: SeriesFold, name: bytes, floor: int) -> bool:
    """Remove points of a source in one step; True if none is below the floor any more."""
    source = fold.sources.find(name)
    if source is None or source.oldest >= floor:
        return True
    gone_before = len(fold.gone)
    try:
        with fold.sources.counting(source):
            done = fold.index.drop_below(source, floor, STEP, fold.gone)
    finally:
        fold.points -= len(fold.gone) - gone_before
    if done and source.max_at < floor:
        fold.sources.forget(name)
    return done
