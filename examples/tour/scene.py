"""The size of the demo: full, and quick for tests."""

from __future__ import annotations

import msgspec


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Folders of the demo, and the amount of data of each chapter."""

    store: str
    scratch: str
    picture: str
    """File of the chart."""
    crash_records: int = 600_000
    crash_s_max: float = 8.0
    live_records: int = 2000
    orders: int = 20_000
    sales_s: float = 8.0
    measure_s: float = 1.5
    rate_records: int = 100_000


def quick(store: str, scratch: str, picture: str) -> Scene:
    """The same chapters with little data."""
    return Scene(
        store=store,
        scratch=scratch,
        picture=picture,
        crash_records=20_000,
        crash_s_max=2.0,
        live_records=200,
        orders=2000,
        sales_s=2.0,
        measure_s=0.1,
        rate_records=30_000,
    )
