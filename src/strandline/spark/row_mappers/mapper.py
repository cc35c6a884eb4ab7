"""Row mappers: convert batches of records into batches of rows of a view.

A row mapper is data: it is sent to executors with the task. Spark has no unsigned numbers, so seqs
are ``bigint`` and fields of u64 ``decimal(20, 0)``, as in Spark's own reader of Parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from strandline.errors import Invalid
from strandline.pipelines.splits.record_schema import LOST, arrow_schema
from strandline.schema import name_key
from strandline.views.view import MARKS, FoldColumns

TIME = pa.timestamp("us", tz="UTC")
_WIDE = pa.decimal128(20, 0)
_SEQS = ("seq", "version", "job_seq", "lease")
_SMALL = (pa.uint8(), pa.uint16(), pa.int8(), pa.int16(), pa.uint32())


class RowMapper(Protocol):
    """Maps records to rows. Immutable."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows, in types of Spark."""
        ...

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch of records, whose seq is signed."""
        ...


def spark_schema_of(schema: pa.Schema, seqs: Sequence[str] = _SEQS) -> pa.Schema:
    """The same columns in types of Spark, all nullable; ``seqs`` are columns of seqs."""
    return pa.schema([pa.field(field.name, _spark_type(field, seqs)) for field in schema])


def as_spark(batch: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, cast to its types; other columns are dropped."""
    arrays = []
    for field in schema:
        column = batch[field.name]
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def choose_columns(schema: pa.Schema, requested: Sequence[str] | None, *, lost: bool) -> pa.Schema:
    """The requested columns, or all."""
    if lost and LOST in map(name_key, schema.names):
        raise Invalid(
            f"onLoss=report reports losses in the column {LOST}, and the table has a field of that "
            "name: read it without onLoss=report"
        )
    available = pa.schema([*schema, *(arrow_schema([LOST]) if lost else ())])
    if requested is None:
        return available
    for name in requested:
        if name not in available.names:
            raise Invalid(f"there is no column {name!r}: columns are {', '.join(available.names)}")
    if not requested or len(set(requested)) < len(requested):
        raise Invalid("name each column once, and at least one: columns='key,value'")
    if lost and LOST not in requested:
        raise Invalid("onLoss=report reports losses in the column lost: add it to columns")
    return pa.schema([available.field(name) for name in requested])


def select_columns(batch: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with exactly these columns; missing ones are null."""
    names = batch.schema.names
    empty = [field for field in schema if field.name not in names]
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    for field in empty:
        table = table.append_column(field, pa.nulls(len(table), field.type))
    return as_spark(table, schema)


def rows_of(batch: pa.RecordBatch) -> FoldColumns:
    """A batch of records in the form that views fold."""
    return FoldColumns(
        batch["seq"].to_pylist(),
        batch["ts"].cast(pa.int64()).to_pylist(),
        batch["key"].to_pylist(),
        batch["tag"].to_pylist(),
        batch["meta"].to_pylist(),
        batch["data"].to_pylist(),
    )


def without_other_views(batch: pa.RecordBatch, kind: str, kinds: Sequence[str]) -> pa.RecordBatch:
    """The records without the internal records of other views of the topic."""
    others = tuple(mark for name, mark in MARKS.items() if name != kind and name in kinds)
    if not others or batch["meta"].null_count == len(batch):
        return batch
    metas = batch["meta"].to_pylist()
    is_kept = [meta is None or not meta.startswith(others) for meta in metas]
    return batch if all(is_kept) else batch.filter(pa.array(is_kept, pa.bool_()))


def _spark_type(field: pa.Field, seqs: Sequence[str]) -> pa.DataType:
    if field.type == pa.uint64():
        return pa.int64() if field.name in seqs else _WIDE
    return pa.int32() if field.type in _SMALL else field.type
