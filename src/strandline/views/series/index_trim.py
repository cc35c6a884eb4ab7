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
    floor = fold.floor
    if fold.swept == floor:
        return
    for looked, (name, head) in enumerate(fold.sources.heads(), start=1):
        if head.oldest < floor:
            while not _drop(fold, name, floor):
                yield
        if looked % STEP == 0:
            yield
    fold.swept = floor


def _drop(fold: SeriesFold, name: bytes, floor: int) -> bool:
    """Whether nothing of this source is below any more."""
    source = fold.sources.find(name)
    if source is None or source.oldest >= floor:
        return True
    gone = len(fold.gone)
    try:
        with fold.sources.counted(source):
            done = fold.index.drop_below(source, floor, STEP, fold.gone)
    finally:
        fold.points -= len(fold.gone) - gone
    if done and source.max_at < floor:
        fold.sources.forget(name)
    return done
