"""Reads the visible rows of one file of a table, in a newer version of the schema.

For tasks of Spark and of pipelines, which have the entry of a file and not the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import Schema
from strandline.views.table.files.table_file import TableFile
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast

_STEP_ZONES = 16


def read_live_rows(  # noqa: PLR0913 - the fields of a task
    objects: Objects,
    table_id: int,
    file: LakeFile,
    written: Schema,
    target: Schema,
    names: Sequence[str],
    *,
    first_seq: int,
    last_seq: int,
    hidden: BitMap64,
    share: int = 0,
    shares: int = 1,
) -> Iterator[pa.Table]:
    """These columns, a few zones at a time, of part ``share`` of ``shares`` parts of the zones.

    The file has the schema ``written``; rows are returned in the schema ``target``. Returned are
    rows from the first seq to the last that are not hidden.
    """
    opened = TableFile(objects, table_id, file)
    stored = [
        name for name in arrow_schema(target).names if name in opened.columns and name in names
    ]
    needed = list(dict.fromkeys([SEQ, *stored]))
    first = opened.zones * share // shares
    after = opened.zones * (share + 1) // shares
    for start in range(first, after, _STEP_ZONES):
        zones = np.arange(start, min(start + _STEP_ZONES, after))
        table = _visible_rows(opened.read(needed, zones), first_seq, last_seq, hidden)
        if len(table):
            yield upcast(table, written, target, names)


def _visible_rows(table: pa.Table, first_seq: int, last_seq: int, hidden: BitMap64) -> pa.Table:
    """The rows in the range that are not hidden. They are sorted by context, not by seq."""
    seqs = table[SEQ].to_numpy()
    is_visible = (seqs >= np.uint64(first_seq)) & (seqs <= np.uint64(last_seq))
    if hidden:
        is_visible &= ~np.isin(seqs, np.fromiter(hidden, dtype=np.uint64, count=len(hidden)))
    return table if is_visible.all() else table.filter(pa.array(is_visible))
