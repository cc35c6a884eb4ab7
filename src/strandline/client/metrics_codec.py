"""Measurements: columns on their way out, and answers as the values that users get. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from strandline.api import metrics as wire
from strandline.errors import Invalid, Unreachable
from strandline.views.metrics.query.result import Answer

HEAD = b"strandline.answer"


def answer_of(table: pa.Table) -> Answer:
    """Values of groups, from columns."""
    told = (table.schema.metadata or {}).get(HEAD)
    if told is None:
        raise Unreachable("this is not the answer of a Strandline server: it has no groups")
    head = msgspec.json.decode(told, type=wire.AnswerHead)
    group, at, values = (
        table[name].combine_chunks().to_numpy(zero_copy_only=False)
        for name in ("group", "at", "value")
    )
    return Answer(head.name, head.groups, group, at, values)


def columns_of(given: Any) -> pa.Table:
    """What a user brings as columns: an Arrow table or batch, or a map of lists or arrays."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if not isinstance(given, Mapping):
        raise Invalid(f"give an Arrow table or a dict of columns, not {type(given).__name__}")
    try:
        return pa.table(dict(given))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Invalid(f"these are no columns: {error}") from error


def line_bytes(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise Invalid(f"lines are text or bytes, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"lines are text that can be encoded as UTF-8: {error}") from error
