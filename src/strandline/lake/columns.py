"""The columns of a record, wherever records are a table: in a page and in the lake's files."""

from __future__ import annotations

import pyarrow as pa

from strandline.wal import block

SCHEMA = pa.schema(
    [
        pa.field("seq", pa.uint64(), nullable=False),
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("tag", pa.string()),
        pa.field("node", pa.string()),
        pa.field("meta", pa.binary()),
        pa.field("data", pa.binary(), nullable=False),
    ]
)

FIELDS = {block.KEY: "key", block.TAG: "tag", block.NODE: "node", block.META: "meta"}
"""The optional columns by the bit that a block knows them by."""
