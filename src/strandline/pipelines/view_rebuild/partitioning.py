"""What of a record a kind of view needs, and how its work can be divided.

    kv       by key. ``Forgotten`` records are about all keys, so every range hears them
    series   by source. Floors are about all sources, likewise
    queue    not divided: jobs wait for one another, and a word about leases names any of them. But
             the payloads, most of the bytes, stay behind where the log is read
    metrics  not divided: one record has points of many series, and rules go across measurements

Two records of different keys never meet in a fold that is divided by keys, so the keys of a range
can be folded by themselves, and what all ranges come to is what one fold would have come to.

Tables have none: they are compared by ranges of seqs (``table_verify_task.py``), and never
replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strandline.config.view_config import KvConfig, SeriesConfig
from strandline.errors import Invalid
from strandline.views.kv.key_state import INLINE_BYTES_MAX
from strandline.views.queue.fold import JOBS
from strandline.views.series.meta import FLOOR, META_BYTES
from strandline.views.view import MARKS

COLUMNS = ("seq", "ts", "key", "meta", "data")
"""What folds look at."""


class Recipe(NamedTuple):
    """How one kind of view is folded in pieces."""

    maps: int
    """Ordered maps, from the view's first space on, by which ranges are joined; 0: one range."""
    unordered: tuple[int, ...]
    """Those of them whose entries are in another order than the ranges."""
    kept: Callable[[Any, int], int]
    """Given the options and the source: data longer than this is not looked at."""
    common: Callable[[pa.Table], pa.Array]
    """Which records are for every range."""
    keyed: Callable[[pa.Table], pa.Array]
    """Which are for the range of their key. All others say nothing to the view."""
    shown: bytes
    """What is before a key where a user sees it: what is before all keys is the first range's."""
    newest: Callable[[Any], int]
    """So many records of a key count, the others are dead; 0: all count."""


def recipe_of(kind: str) -> Recipe:
    found = _RECIPES.get(kind)
    if found is None:
        raise Invalid(
            f"a {kind} view is not rebuilt by a pipeline: it can be for {', '.join(_RECIPES)}"
        )
    return found


def _has_key(table: pa.Table) -> pa.Array:
    return pc.fill_null(pc.greater(pc.binary_length(table["key"]), 0), False)


def _begins(column: pa.ChunkedArray, mark: bytes) -> pa.Array:
    return pc.fill_null(pc.starts_with(column, pattern=mark), False)


def _all(table: pa.Table) -> pa.Array:
    return pa.array(np.ones(len(table), dtype=bool))


def _none(table: pa.Table) -> pa.Array:
    return pa.array(np.zeros(len(table), dtype=bool))


def _forgotten(table: pa.Table) -> pa.Array:
    return pc.and_(pc.invert(_has_key(table)), _begins(table["meta"], MARKS["kv"]))


def _floors(table: pa.Table) -> pa.Array:
    whole = pc.fill_null(pc.equal(pc.binary_length(table["meta"]), META_BYTES), False)
    return pc.and_(whole, _begins(table["meta"], MARKS["series"] + bytes([FLOOR])))


def _points(table: pa.Table) -> pa.Array:
    return pc.and_(pc.is_valid(table["key"]), pc.invert(_floors(table)))


def _kv_kept(_config: KvConfig, _source: int) -> int:
    return INLINE_BYTES_MAX


def _series_kept(config: SeriesConfig, _source: int) -> int:
    return config.inline_bytes


def _queue_kept(_config: object, source: int) -> int:
    return 0 if source == JOBS else 1 << 62


def _every(_config: object, _source: int) -> int:
    return 1 << 62


def _history(config: KvConfig) -> int:
    return config.history


def _all_count(_config: object) -> int:
    return 0


_RECIPES = {
    "kv": Recipe(3, (2,), _kv_kept, _forgotten, _has_key, b"", _history),
    "queue": Recipe(0, (), _queue_kept, _all, _none, b"", _all_count),
    "series": Recipe(3, (), _series_kept, _floors, _points, b"s", _all_count),
    "metrics": Recipe(0, (), _every, _all, _none, b"", _all_count),
}
