"""Defines for each kind of view which parts of records it needs, and how its fold is divided.

    kv       by key. ``ForgottenMeta`` records concern all keys, so every range gets them
    series   by source. Floors concern all sources, likewise
    queue    not divided: jobs wait for one another, and a lease record may name any of them. But
             the payloads, most of the bytes, are dropped where the log is read
    metrics  not divided: one record has points of many series, and rules use many measurements

Two records of different keys do not interact in a fold that is divided by keys, so the keys of a
range can be folded separately, and the results of all ranges together are those of one fold.

Tables are not listed: they are compared by ranges of seqs (``table_verify_task.py``), and never
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
"""Columns that folds read."""


class Partitioning(NamedTuple):
    """How the fold of one kind of view is divided."""

    maps: int
    """Number of ordered maps, from the view's first space on, that are merged; 0: one range."""
    unordered: tuple[int, ...]
    """Maps whose entries are in another order than the ranges."""
    data_size_max: Callable[[Any, int], int]
    """From the options and the source: the fold does not read data that is longer than this."""
    common: Callable[[pa.Table], pa.Array]
    """Selects the records that every range needs."""
    keyed: Callable[[pa.Table], pa.Array]
    """Selects the records for the range of their key. The view ignores all others."""
    name_prefix: bytes
    """Prefix of a key among visible names; names before all keys are in the first range."""
    newest: Callable[[Any], int]
    """The number of newest records of a key that count, the others are dead; 0: all count."""


def partitioning_of(kind: str) -> Partitioning:
    recipe = _RECIPES.get(kind)
    if recipe is None:
        raise Invalid(
            f"a {kind} view cannot be rebuilt by a pipeline: use one of {', '.join(_RECIPES)}"
        )
    return recipe


def _has_key(table: pa.Table) -> pa.Array:
    return pc.fill_null(pc.greater(pc.binary_length(table["key"]), 0), False)


def _starts_with(column: pa.ChunkedArray, mark: bytes) -> pa.Array:
    return pc.fill_null(pc.starts_with(column, pattern=mark), False)


def _all(table: pa.Table) -> pa.Array:
    return pa.array(np.ones(len(table), dtype=bool))


def _none(table: pa.Table) -> pa.Array:
    return pa.array(np.zeros(len(table), dtype=bool))


def _forgotten(table: pa.Table) -> pa.Array:
    return pc.and_(pc.invert(_has_key(table)), _starts_with(table["meta"], MARKS["kv"]))


def _floors(table: pa.Table) -> pa.Array:
    whole = pc.fill_null(pc.equal(pc.binary_length(table["meta"]), META_BYTES), False)
    return pc.and_(whole, _starts_with(table["meta"], MARKS["series"] + bytes([FLOOR])))


def _points(table: pa.Table) -> pa.Array:
    return pc.and_(pc.is_valid(table["key"]), pc.invert(_floors(table)))


def _kv_data_max(_config: KvConfig, _source: int) -> int:
    return INLINE_BYTES_MAX


def _series_data_max(config: SeriesConfig, _source: int) -> int:
    return config.inline_bytes


def _queue_data_max(_config: object, source: int) -> int:
    return 0 if source == JOBS else 1 << 62


def _unlimited(_config: object, _source: int) -> int:
    return 1 << 62


def _history(config: KvConfig) -> int:
    return config.history


def _all_count(_config: object) -> int:
    return 0


_RECIPES = {
    "kv": Partitioning(3, (2,), _kv_data_max, _forgotten, _has_key, b"", _history),
    "queue": Partitioning(0, (), _queue_data_max, _all, _none, b"", _all_count),
    "series": Partitioning(3, (), _series_data_max, _floors, _points, b"s", _all_count),
    "metrics": Partitioning(0, (), _unlimited, _all, _none, b"", _all_count),
}
