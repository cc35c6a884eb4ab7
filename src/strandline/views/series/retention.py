"""Retention: raise the floor, forget what is below, let the log forget it.

    1  a record raises the floor: from here on nothing below is seen, now or in any replay
    2  the index drops what is below, a step at a time (index_trim.py), and remembers its seqs
    3  the log lets those records go, as far as views are saved; the rest waits for the next turn,
       and all of them as long as the topic has other views

A crash after any of them leaves less to do, or the same. Only points that the sweep found below the
floor are let go, so a live record never is.
"""

from __future__ import annotations

from itertools import islice, takewhile

from pyroaring import BitMap64

from strandline.config.view_config import KINDS
from strandline.views.series import meta
from strandline.views.series.admission import due_floor
from strandline.views.series.fold import SeriesFold
from strandline.views.series.index_trim import sweep
from strandline.views.series.meta import AT_MIN, FLOOR
from strandline.views.series.point_reader import SeriesHost
from strandline.views.series.values import Retained
from strandline.views.view import Draft

_AT_ONCE = 100_000
"""Records that are let go with one message on the log."""


def raise_floor(host: SeriesHost, floor: int | None, step: int = 1) -> None:
    """Put a higher floor on the log, the given or the due one, if it is so much higher."""

    def decision(fold: SeriesFold) -> Draft | None:
        wanted = floor
        if wanted is None:
            wanted = due_floor(fold.config, fold.newest, host.world.clock.now_us())
        if wanted < fold.floor + step:
            return None
        return Draft(0, (b"",), None, (meta.encode(FLOOR, 0, wanted),))

    host.decide(decision)


def forget(host: SeriesHost) -> Retained:
    """Drop what is below the floor, from the index and from the log."""
    _sweep(host)
    released = 0 if _is_shared(host) else _let_go(host)
    with host.reading() as fold:
        floor = None if fold.floor == AT_MIN else fold.floor
        return Retained(floor=floor, released=released, waiting=len(fold.gone))


def _let_go(host: SeriesHost) -> int:
    """Release what the saved state has seen, then raise the topic's own floor to what is left."""
    released = 0
    secured = host.secured[0]
    while True:
        with host.reading() as fold:
            going = BitMap64(takewhile(secured.__ge__, islice(fold.gone, _AT_ONCE)))
        if not going:
            break
        released += host.release(0, going)
        with host.reading() as fold:
            fold.gone -= going
    if released:
        # Below that nothing is left, and what is below a floor goes by whole files.
        host.release(0, before=host.topics[0].estimate().earliest_seq)
    return released


def _is_shared(host: SeriesHost) -> bool:
    """Whether another view may need the records: then all of them stay."""
    views = host.topics[0].config.views
    return any(getattr(views, kind) is not None for kind in KINDS if kind != host.kind)


def _sweep(host: SeriesHost) -> None:
    """Between the steps others have their turn; a fold that was replaced is swept anew."""
    swept: SeriesFold | None = None
    while True:
        with host.reading() as fold:
            if fold is not swept:
                swept, steps = fold, sweep(fold)
            if next(steps, 0) == 0:
                return
