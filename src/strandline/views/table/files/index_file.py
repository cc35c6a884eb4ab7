"""The file of indexes beside a file of rows, as the rest of ``files`` uses it.

It only ever saves work. One that is missing or damaged, that belongs to other rows, or that a newer
version wrote, excludes no zone and is reported; the rows are whole without it.

A file of indexes names the rows that it was made from. One of an earlier version does not: it is
taken for that of the rows when both have the same bounds of seqs in every zone, since no seq is in
two files of a table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from strandline.errors import Corrupt, Invalid, NewerFormat, NotFound
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.views.table.files import layout
from strandline.views.table.index.codec import Origin
from strandline.views.table.index.index_reader import Indexes

log = logging.getLogger(__name__)

UNFIT = (Corrupt, NewerFormat, NotFound, Invalid)
"""What indexes that cannot be used raise, whenever they are asked."""

Bounds = Callable[[], tuple[Any, Any]]
"""The smallest and the largest seq of each zone, from the rows' own file."""


def origin_of(table_id: int, file: LakeFile) -> Origin:
    """How the indexes of a file of rows name it."""
    return Origin(table_id, file.name(), file.content)


def open_side(objects: Objects, table_id: int, file: LakeFile, bounds: Bounds) -> Indexes | None:
    """The indexes of a file, None when they cannot be used."""
    try:
        return read_side(objects, table_id, file, bounds)
    except UNFIT as error:
        complain(objects, layout.side_key(table_id, file.name()), error)
        return None


def read_side(objects: Objects, table_id: int, file: LakeFile, bounds: Bounds) -> Indexes:
    """The indexes of a file, or what is wrong with them."""
    key = layout.side_key(table_id, file.name())
    path = f"{objects.name}/{key}"

    def fetch(start: int, length: int) -> bytes:
        return objects.get_range(key, start, length)

    found = Indexes(fetch, objects.head(key).size, name=path)
    if found.origin is not None:
        if found.origin != origin_of(table_id, file):
            raise Corrupt(f"these are the indexes of {found.origin.name}", path=path)
        return found
    lows, highs = bounds()
    least, greatest = found.seq_bounds()
    if not np.array_equal(least, lows) or not np.array_equal(greatest, highs):
        raise Corrupt("these are the indexes of other rows", path=path)
    return found


def complain(objects: Objects, key: str, reason: object) -> None:
    log.warning("indexes in %s/%s are not used, all zones are read: %s", objects.name, key, reason)
