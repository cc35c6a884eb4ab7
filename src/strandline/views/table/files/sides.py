"""The file of indexes beside a file of rows, as the rest of ``files`` uses it.

It only ever saves work. One that is missing or damaged, or that a newer version wrote, rules no
zone out and is complained about; the rows are whole without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from strandline.env.objects import Objects
from strandline.errors import Corrupt, Invalid, NewerFormat, NotFound
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.snapshot import Top

try:
    from strandline.views.table.index.build import build as _build
    from strandline.views.table.index.read import Indexes as _Indexes
except ImportError:  # it is being written
    _build, _Indexes = None, None

log = logging.getLogger(__name__)

UNFIT = (Corrupt, NewerFormat, NotFound, Invalid)


class ZoneIndexes(Protocol):
    """What indexes tell of the zones of one file."""

    zones: int

    @property
    def ram(self) -> int: ...

    def prune(self, condition: Condition) -> tuple[np.ndarray, list[str]]: ...

    def top(self, top: Top, among: np.ndarray) -> np.ndarray: ...

    def seq_bounds(self) -> tuple[np.ndarray, np.ndarray]: ...


def build(table: pa.Table, schema: Schema, zone_rows: int) -> bytes:
    """The bytes of the file of indexes for these sorted rows."""
    return b"" if _build is None else _build(table, schema, zone_rows)


def open_side(objects: Objects, key: str, zones: int) -> ZoneIndexes | None:
    """The indexes of a file, None when they cannot be used."""
    if _Indexes is None:
        return None

    def fetch(start: int, length: int) -> bytes:
        return objects.get_range(key, start, length)

    try:
        found: ZoneIndexes = _Indexes(fetch, objects.head(key).size)
    except UNFIT as error:
        complain(objects, key, error)
        return None
    if found.zones != zones:
        complain(objects, key, f"it tells of {found.zones} zones, and there are {zones}")
        return None
    return found


def complain(objects: Objects, key: str, reason: object) -> None:
    log.warning(
        "the indexes in %s/%s are not used, all zones are read: %s", objects.name, key, reason
    )


Fetch = Callable[[int, int], bytes]
