"""Opens the file of indexes of a file of rows.

Indexes only save work. A file of indexes that is missing or damaged, belongs to other rows, or was
written by a newer version excludes no zone and is logged; the rows are complete without it.

A file of indexes has the name of the rows that it was built from. One of an earlier version does
not: it is accepted for rows that have the same bounds of seqs in every zone, since no seq is in two
files of a table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from strandline.errors import Corrupt, Invalid, NotFound, UnsupportedFormat
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.views.table.files import layout
from strandline.views.table.index.codec import RowsOrigin
from strandline.views.table.index.index_reader import Indexes

log = logging.getLogger(__name__)

UNUSABLE = (Corrupt, UnsupportedFormat, NotFound, Invalid)
"""Errors of indexes that cannot be used: when they are opened, and when they are read."""

Bounds = Callable[[], tuple[Any, Any]]
"""The smallest and the largest seq of each zone, from the file of rows."""


def origin_of(table_id: int, file: LakeFile) -> RowsOrigin:
    """The identity of a file of rows as its indexes store it."""
    return RowsOrigin(table_id, file.name(), file.content)


def open_indexes(objects: Objects, table_id: int, file: LakeFile, bounds: Bounds) -> Indexes | None:
    """The indexes of a file; None, and a log line, if they cannot be used."""
    try:
        return read_indexes(objects, table_id, file, bounds)
    except UNUSABLE as error:
        log_unusable(objects, layout.index_key(table_id, file.name()), error)
        return None


def read_indexes(objects: Objects, table_id: int, file: LakeFile, bounds: Bounds) -> Indexes:
    """The indexes of a file; raises one of ``UNUSABLE`` if they cannot be used."""
    key = layout.index_key(table_id, file.name())
    path = f"{objects.name}/{key}"

    def fetch(start: int, length: int) -> bytes:
        return objects.get_range(key, start, length)

    indexes = Indexes(fetch, objects.head(key).size, name=path)
    if indexes.origin is not None:
        if indexes.origin != origin_of(table_id, file):
            raise Corrupt(f"these are the indexes of {indexes.origin.name}", path=path)
        return indexes
    lows, highs = bounds()
    least, greatest = indexes.seq_bounds()
    if not np.array_equal(least, lows) or not np.array_equal(greatest, highs):
        raise Corrupt("these are the indexes of other rows", path=path)
    return indexes


def log_unusable(objects: Objects, key: str, reason: object) -> None:
    log.warning("indexes in %s/%s are not used, all zones are read: %s", objects.name, key, reason)
