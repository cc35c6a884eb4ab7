"""Encodes metrics as columns, and decodes the results of metrics queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from strandline.api import metrics as wire
from strandline.errors import Invalid, ObjectStoreUnreachable
from strandline.views.metrics.query.result import MetricsResult

HEAD = b"strandline.answer"


def answer_of(table: pa.Table) -> MetricsResult:
    """Decode the values of groups from columns."""
    metadata = (table.schema.metadata or {}).get(HEAD)
    if metadata is None:
        raise ObjectStoreUnreachable(
            "this is not a response of a Strandline server: it has no groups"
        )
    head = msgspec.json.decode(metadata, type=wire.MetricsResultHeader)
    group, at, values = (
        table[name].combine_chunks().to_numpy(zero_copy_only=False)
        for name in ("group", "at", "value")
    )
    return MetricsResult(head.name, head.groups, group, at, values)


def columns_of(columns: Any) -> pa.Table:
    """Columns from the caller: an Arrow table or batch, or a map of lists or arrays."""
    if isinstance(columns, pa.Table):
        return columns
    if isinstance(columns, pa.RecordBatch):
        return pa.Table.from_batches([columns])
    if not isinstance(columns, Mapping):
        raise Invalid(f"give an Arrow table or a dict of columns, not {type(columns).__name__}")
    try:
        return pa.table(dict(columns))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Invalid(f"these are not columns: {error}") from error


def line_bytes(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise Invalid(f"lines are text or bytes, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"lines must be encodable as UTF-8: {error}") from error
