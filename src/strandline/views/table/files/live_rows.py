"""The rows of one file of a table that are to be seen, told in a newer version of the schema.

For whoever has a file by its name and not the table: tasks of Spark and of pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import Schema
from strandline.views.table.files.table_file import OpenFile
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast

_STEP_ZONES = 16


def visible(  # noqa: PLR0913 - what a task knows of a file, by name
    objects: Objects,
    table_id: int,
    file: LakeFile,
    written: Schema,
    told: Schema,
    names: Sequence[str],
    *,
    first_seq: int,
    last_seq: int,
    hidden: BitMap64,
    share: int = 0,
    shares: int = 1,
) -> Iterator[pa.Table]:
    """These columns, some zones at a time; ``share`` of ``shares`` of the zones.

    The file was ``written`` in one version and is ``told`` in another. Rows are from the first seq
    to the last, and not among the hidden ones.
    """
    opened = OpenFile(objects, table_id, file)
    there = [name for name in arrow_schema(told).names if name in opened.columns and name in names]
    needed = list(dict.fromkeys([SEQ, *there]))
    first = opened.zones * share // shares
    following = opened.zones * (share + 1) // shares
    for start in range(first, following, _STEP_ZONES):
        zones = np.arange(start, min(start + _STEP_ZONES, following))
        table = _seen(opened.read(needed, zones), first_seq, last_seq, hidden)
        if len(table):
            yield upcast(table, written, told, names)


def _seen(table: pa.Table, first_seq: int, last_seq: int, hidden: BitMap64) -> pa.Table:
    """They are sorted by context, not by seq."""
    seqs = table[SEQ].to_numpy()
    keep = (seqs >= np.uint64(first_seq)) & (seqs <= np.uint64(last_seq))
    if hidden:
        keep &= ~np.isin(seqs, np.fromiter(hidden, dtype=np.uint64, count=len(hidden)))
    return table if keep.all() else table.filter(pa.array(keep))
