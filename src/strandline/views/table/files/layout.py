"""Layout of a file of a table, and the keys of files. Pure.

    topics/<table id, hex>/manifest/<number>.json                  manifests, as of a topic
    topics/<table id, hex>/data/<first>-<last>-<content>.parquet   rows
    topics/<table id, hex>/zones/<the same name>.zones             indexes of its zones

Rows are sorted by context, ts and seq. A row group is a zone: all except the last have the same
number of rows. A column gets a dictionary if values repeat within a zone: it is smaller, and text
is then read into memory as numbers, which engines group several times faster. Text that hardly
repeats has a bloom filter instead, for external engines; Strandline uses its own indexes.

docs/format/table.md has the full description.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.lake import object_keys
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.schema import Schema
from strandline.views.table.files.row_order import ORDER
from strandline.views.table.snapshot import CONTEXT, SEQ, TS

FORMAT_VERSION = 1
FORMAT_KEY = "strandline.table_format"
TABLE_KEY = "strandline.table_id"
STORE_KEY = "strandline.store_id"
ATTEMPT_KEY = "strandline.attempt"
"""A random id: no two files have the same content, so no name is ever used again."""
SCHEMA_KEY = "strandline.schema_version"
ZONES_KEY = "strandline.zones"
CODED_KEY = "strandline.coded"
"""Text columns that have a dictionary in every page, as JSON."""

_SIDE = ".zones"
_ZSTD_LEVEL = 1
_SAMPLES = 3
_DISTINCT_RATIO_MAX = 0.5
"""A dictionary is used up to this ratio of distinct values in a zone."""
_DICTIONARY_BYTES = 64 * 1024 * 1024
"""More than the values of a zone ever take, so that a whole column has a dictionary or none."""


class ColumnEncodings(msgspec.Struct, frozen=True):
    """The encodings of the columns of a file."""

    dictionary: tuple[str, ...]
    bloom: tuple[str, ...]
    coded: tuple[str, ...]
    """Text columns with a dictionary: may be read as numbers."""


OWN_ID = 1 << 63
"""A bit that is set in the id of every table, and of no topic."""


def is_table(topic_id: int) -> bool:
    """Whether a manifest under this id lists files of a table."""
    return bool(topic_id & OWN_ID)


def index_folder(table_id: int) -> str:
    return f"{object_keys.topic_folder(table_id)}/zones"


def index_key(table_id: int, name: str) -> str:
    """The key of the indexes of a file of rows, by its name."""
    return f"{index_folder(table_id)}/{name}{_SIDE}"


def data_name(side: str) -> str:
    """The name of the file of rows, by the key of its indexes."""
    return object_keys.last_part(side).removesuffix(_SIDE)


def columns_of(schema: Schema) -> pa.Schema:
    """The columns of a file, with text as plain text."""
    return typed_columns_of(schema, is_table=True).columns


def without_dictionaries(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """The columns of a file, without dictionaries."""
    return table.select(columns.names).cast(columns)


def encodings_of(table: pa.Table, zone_rows: int) -> ColumnEncodings:
    """The encodings for columns, chosen by a sample of zones."""
    starts = sorted({0, table.num_rows // 2, max(0, table.num_rows - zone_rows)})[:_SAMPLES]
    zones = [table.slice(start, zone_rows) for start in starts]
    repeated = [
        name
        for name in table.column_names
        if name not in (SEQ, TS) and _repeats([zone[name] for zone in zones])
    ]
    text = [field.name for field in table.schema if pa.types.is_string(field.type)]
    return ColumnEncodings(
        dictionary=tuple(repeated),
        bloom=tuple(name for name in text if name == CONTEXT or name not in repeated),
        coded=tuple(name for name in text if name in repeated),
    )


def _repeats(zones: Sequence[pa.ChunkedArray]) -> bool:
    kind = zones[0].type
    if pa.types.is_boolean(kind):
        return False  # a value takes one bit anyway
    values = sum(len(zone) - zone.null_count for zone in zones)
    distinct: int = sum(pc.count_distinct(zone).as_py() for zone in zones)
    return distinct <= int(values * _DISTINCT_RATIO_MAX)


def parquet_options(columns: pa.Schema, coding: ColumnEncodings, zone_rows: int) -> dict[str, Any]:
    """The options of the Parquet writer of pyarrow."""
    stamps = [field.name for field in columns if pa.types.is_timestamp(field.type)]
    deltas = [name for name in (SEQ, *stamps) if name not in coding.dictionary]
    bloom = {"ndv": zone_rows, "fpp": 0.05}
    return {
        "compression": "zstd",
        "compression_level": _ZSTD_LEVEL,
        "use_dictionary": list(coding.dictionary),
        "dictionary_pagesize_limit": _DICTIONARY_BYTES,
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        "write_statistics": True,
        "write_page_index": True,
        "write_page_checksum": True,
        "sorting_columns": [pq.SortingColumn(columns.get_field_index(name)) for name in ORDER],
        "bloom_filter_options": dict.fromkeys(coding.bloom, bloom),
    }
