"""Retention: raises the floor, then removes points below it from the index and from the log.

    1  a record raises the floor: no point below it is visible any more, also after a replay
    2  points below are removed from the index, step by step (index_trim.py); their seqs are kept
    3  the log is trimmed by these seqs, up to the saved state of views; the others wait for the
       next run, and all of them wait if the topic has other views

A crash after any step leaves less work, or the same. Only the records of points that step 2 found
below the floor are removed, so a live record never is.
"""

from __future__ import annotations

from itertools import islice, takewhile

from pyroaring import BitMap64

from strandline.config.view_config import KINDS
from strandline.views.series import meta
from strandline.views.series.admission import due_floor
from strandline.views.series.fold import SeriesFold
from strandline.views.series.index_trim import trim_below_floor
from strandline.views.series.meta import AT_MIN, FLOOR
from strandline.views.series.point_reader import SeriesHost
from strandline.views.series.values import RetentionResult
from strandline.views.view import ViewAppend

_AT_ONCE = 100_000
"""Records that are removed with one message in the log."""


def raise_floor(host: SeriesHost, floor: int | None, step: int = 1) -> None:
    """Append a record with ``floor``, or the due one, if it is higher by at least ``step``."""

    def decide(fold: SeriesFold) -> ViewAppend | None:
        new_floor = floor
        if new_floor is None:
            new_floor = due_floor(fold.config, fold.newest, host.world.clock.now_us())
        if new_floor < fold.floor + step:
            return None
        return ViewAppend(0, (b"",), None, (meta.encode(FLOOR, 0, new_floor),))

    host.decide(decide)


def remove_below_floor(host: SeriesHost) -> RetentionResult:
    """Remove points below the floor from the index and from the log."""
    _trim_index(host)
    released = 0 if _is_shared(host) else _trim_log(host)
    with host.reading() as fold:
        floor = None if fold.floor == AT_MIN else fold.floor
        return RetentionResult(floor=floor, released=released, waiting=len(fold.gone))


def _trim_log(host: SeriesHost) -> int:
    """Remove records up to the saved state, then raise the floor of the topic."""
    released = 0
    secured = host.secured[0]
    while True:
        with host.reading() as fold:
            removable = BitMap64(takewhile(secured.__ge__, islice(fold.gone, _AT_ONCE)))
        if not removable:
            break
        released += host.release(0, removable)
        with host.reading() as fold:
            fold.gone -= removable
    if released:
        # No record remains below that, and files below the floor of a topic are deleted whole.
        host.release(0, before=host.topics[0].estimate().earliest_seq)
    return released


def _is_shared(host: SeriesHost) -> bool:
    """Whether another view may need the records: then none is removed."""
    views = host.topics[0].config.views
    return any(getattr(views, kind) is not None for kind in KINDS if kind != host.kind)


def _trim_index(host: SeriesHost) -> None:
    """The lock is released between steps; a fold that was replaced is swept from the start."""
    swept: SeriesFold | None = None
    while True:
        with host.reading() as fold:
            if fold is not swept:
                swept, steps = fold, trim_below_floor(fold)
            if next(steps, 0) == 0:
                return
