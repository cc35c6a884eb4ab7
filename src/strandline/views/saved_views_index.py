"""Page 1 of the reservoir of views: whose views these are, where each is, and how far."""

from __future__ import annotations

import msgspec

from strandline.errors import Conflict
from strandline.reservoir.reservoir import Reservoir
from strandline.views.view_runner import Saved

_PAGE = 1


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Every view that is saved, by ``key_of``."""

    store_id: str
    next_space: int
    views: dict[str, Saved]


def key_of(kind: str, topic_id: int) -> str:
    """What a view is called in the catalogue."""
    return f"{kind}-{topic_id}"


def read(reservoir: Reservoir, store_id: str, place: str) -> Catalogue | None:
    """What was saved there, None for nothing; ``Conflict`` when it is of another store."""
    page = reservoir.read(_PAGE)
    if page is None:
        return None
    found = msgspec.msgpack.decode(page, type=Catalogue)
    if found.store_id != store_id:
        raise Conflict(
            f"the views in {place} are of store {found.store_id}, not of {store_id}: name another "
            "place in views.url"
        )
    return found


def write(reservoir: Reservoir, catalogue: Catalogue) -> None:
    """Commit it; it counts with the next checkpoint."""
    with reservoir.session() as session:
        session.write(_PAGE, msgspec.msgpack.encode(catalogue))
        session.commit()
