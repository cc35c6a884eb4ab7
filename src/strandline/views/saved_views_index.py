"""Page 1 of the reservoir of views: their store, and the space and position of each view."""

from __future__ import annotations

import msgspec

from strandline.errors import Conflict
from strandline.reservoir.reservoir import Reservoir
from strandline.views.view_runner import SavedView

_PAGE = 1


class SavedViewsIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Every saved view by ``key_of``."""

    store_id: str
    next_space: int
    views: dict[str, SavedView]


def key_of(kind: str, topic_id: int) -> str:
    """The key of a view in the index."""
    return f"{kind}-{topic_id}"


def read(reservoir: Reservoir, store_id: str, location: str) -> SavedViewsIndex | None:
    """The saved index, None when there is none. ``Conflict`` when it belongs to another store."""
    page = reservoir.read(_PAGE)
    if page is None:
        return None
    index = msgspec.msgpack.decode(page, type=SavedViewsIndex)
    if index.store_id != store_id:
        raise Conflict(
            f"the views in {location} belong to store {index.store_id}, not to {store_id}: set "
            "views.url to another location"
        )
    return index


def write(reservoir: Reservoir, catalogue: SavedViewsIndex) -> None:
    """Commit the index. It becomes durable with the next checkpoint."""
    with reservoir.session() as session:
        session.write(_PAGE, msgspec.msgpack.encode(catalogue))
        session.commit()
