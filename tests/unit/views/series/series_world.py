"""A series in a simulated store, with an index as fine as it gets: blocks after 32 points."""

from __future__ import annotations

from strandline.store import Store
from strandline.views.series.point_reader import SeriesHost
from strandline.views.series.series import Series
from strandline.views.series.values import Point

NAME = "gps"


def open_series(store: Store, *, level: int = 0, **options: object) -> Series:
    found = store.series(NAME, **options)
    host_of(store).fold.index.tuning.level = level
    return found


def host_of(store: Store) -> SeriesHost:
    return store.views.registry.host("series", store.topic(NAME))


def rebuild(store: Store) -> None:
    store.rebuild("series", NAME)


def ats(points: list[Point]) -> list[int]:
    return [point.at for point in points]


def payloads(points: list[Point]) -> list[bytes]:
    return [point.payload for point in points]


def leave_no_room(store: Store) -> None:
    """Count as much in the share of all series as would let one of them grow."""
    share = store.views.registry.budget.share("series")
    share.charge(share.spare_bytes)
