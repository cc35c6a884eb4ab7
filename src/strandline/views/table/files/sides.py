"""The file of indexes beside a file of rows, as the rest of ``files`` uses it.

It only ever saves work. One that is missing or damaged, or that a newer version wrote, rules no
zone out and is complained about; the rows are whole without it.
"""

from __future__ import annotations

import logging

from strandline.env.objects import Objects
from strandline.errors import Corrupt, Invalid, NewerFormat, NotFound
from strandline.views.table.index.read import Indexes

log = logging.getLogger(__name__)

UNFIT = (Corrupt, NewerFormat, NotFound, Invalid)
"""What indexes that cannot be used raise, whenever they are asked."""


def open_side(objects: Objects, key: str, zones: int) -> Indexes | None:
    """The indexes of a file, None when they cannot be used."""

    def fetch(start: int, length: int) -> bytes:
        return objects.get_range(key, start, length)

    try:
        found = Indexes(fetch, objects.head(key).size, name=f"{objects.name}/{key}")
    except UNFIT as error:
        complain(objects, key, error)
        return None
    if found.zones != zones:
        complain(objects, key, f"they tell of {found.zones} zones, and there are {zones}")
        return None
    return found


def complain(objects: Objects, key: str, reason: object) -> None:
    log.warning("indexes in %s/%s are not used, all zones are read: %s", objects.name, key, reason)
