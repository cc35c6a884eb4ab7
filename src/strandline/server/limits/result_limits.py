"""Limits of a result of SQL: its columns, its rows, and its size. Pure.

Rows are sent in pieces of about one MiB, so that a query holds no more than that, or one row, while
it waits for its client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from strandline.api.errors import Refused
from strandline.config.settings import MIB
from strandline.errors import StrandlineError
from strandline.query.execute.interrupt import current
from strandline.server.settings import RequestLimits

_PIECE_BYTES = 1 * MIB


def check_text(text: str, limits: RequestLimits) -> None:
    """413 for an SQL text that is too long."""
    if len(text.encode()) > limits.sql_bytes_max:
        raise limit_error("sql_bytes_max", limits.sql_bytes_max, "pass values as parameters")


def check_columns(schema: pa.Schema, limits: RequestLimits) -> None:
    """413 for a result with too many columns."""
    if len(schema) > limits.query_columns_max:
        raise limit_error(
            "query_columns_max", limits.query_columns_max, "name the columns that you need"
        )


def limited_batches(
    batches: Iterable[pa.RecordBatch], limits: RequestLimits
) -> Iterator[pa.RecordBatch]:
    """The rows in pieces; 413 for a row, or a result, that is too large."""
    total, interrupt = 0, current()
    for batch in batches:
        interrupt.check()
        total += batch.nbytes
        if total > limits.query_bytes_max:
            raise limit_error(
                "query_bytes_max", limits.query_bytes_max, "request fewer rows or columns"
            )
        yield from _pieces(batch, limits.query_row_bytes_max)


def limit_error(limit: str, limit_max: int, advice: str) -> StrandlineError:
    """The 413 error with the limit."""
    return Refused(
        413,
        "payload_too_large",
        f"more than {limit} ({limit_max}): {advice}",
        detail={"limit": limit, "max": limit_max},
    )


def _pieces(batch: pa.RecordBatch, row_bytes_max: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= min(_PIECE_BYTES, row_bytes_max):
        yield batch
    elif batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half), row_bytes_max)
        yield from _pieces(batch.slice(half), row_bytes_max)
    elif batch.nbytes > row_bytes_max:
        raise limit_error("query_row_bytes_max", row_bytes_max, "select a part of the value")
    else:
        yield batch
