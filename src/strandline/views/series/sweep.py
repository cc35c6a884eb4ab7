"""Drops what is below the floor from the index, a step at a time, so that nobody waits long.

Raising the floor made these points invisible already; dropping them frees pages, and names the
records that the log may let go. After a crash the next sweep drops what is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.views.series.fold import SeriesFold

STEP = 256
"""Blocks, late arrivals or sources that are looked at in one step."""


def sweep(fold: SeriesFold) -> Iterator[None]:
    """Each step drops a little; the fold may change between them. At the end nothing is below."""
    for looked, (name, head) in enumerate(fold.sources.heads(), start=1):
        if head.oldest < fold.floor:
            while not _drop(fold, name):
                yield
        if looked % STEP == 0:
            yield


def _drop(fold: SeriesFold, name: bytes) -> bool:
    source = fold.sources.find(name)
    if source is None or source.oldest >= fold.floor:
        return True
    before = len(fold.gone), len(source.ats)
    done = fold.index.drop_below(source, fold.floor, STEP, fold.gone)
    fold.points -= len(fold.gone) - before[0]
    fold.sources.tail_points -= before[1] - len(source.ats)
    if done and source.max_at < fold.floor:
        fold.sources.forget(name)
    return done
