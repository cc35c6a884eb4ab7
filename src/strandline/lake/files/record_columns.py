"""The columns of records in Arrow tables: in a page and in the lake's files.

The lake also has files of event tables, under ids that no topic has. Those have other columns.
"""

from __future__ import annotations

import pyarrow as pa

from strandline.records import KEY, META, NODE, TAG

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

FIELDS = {KEY: "key", TAG: "tag", NODE: "node", META: "meta"}
"""The optional columns by their bit in a block."""

TABLE_ID_FIRST = 1 << 63
"""Ids from here on belong to event tables."""

TABLE = pa.schema(
    [SCHEMA.field("seq"), SCHEMA.field("ts"), pa.field("context", pa.string(), nullable=False)]
)
"""The columns of the files of an event table before their typed columns."""


def own_columns(topic_id: int) -> pa.Schema:
    """The columns that all files of a topic, or of a table, have."""
    return SCHEMA if topic_id < TABLE_ID_FIRST else TABLE
