"""The order of rows in a file: by context, then time, then seq. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from strandline.views.table.snapshot import CONTEXT, SEQ, TS

ORDER = (CONTEXT, TS, SEQ)


def sort_rows(table: pa.Table) -> pa.Table:
    """The same rows, sorted."""
    keys = [(name, "ascending") for name in ORDER]
    return table.take(pc.sort_indices(table, sort_keys=keys))
