"""Reads the parts of a task on an executor, as batches with the columns of the read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

import pyarrow as pa

from strandline.pipelines.splits import record_schema, split_reader
from strandline.pipelines.splits.predicates import Condition
from strandline.spark.read.tasks import AnyPart, ServerPart, StatePart, TablePart, Task
from strandline.spark.row_mappers.mapper import select_columns


def read(
    parts: Sequence[AnyPart], names: Sequence[str], conditions: Sequence[Condition] = ()
) -> Iterator[pa.RecordBatch]:
    """Rows of parts: records with these columns, or the rows of a view."""
    for part in parts:
        if isinstance(part, ServerPart):  # their modules are imported when needed
            for table in import_module("strandline.spark.read.server_source").read(
                part, names, conditions
            ):
                yield from table.combine_chunks().to_batches()
        elif isinstance(part, StatePart):
            yield from import_module("strandline.spark.read.view_state").read(part, names)
        elif isinstance(part, TablePart):
            yield from import_module("strandline.spark.read.event_table").read(part, names)
        else:
            yield from split_reader.read([part], names, conditions)


def rows(
    task: Task, schema: pa.Schema | None, names: Sequence[str], conditions: Sequence[Condition]
) -> Iterator[pa.RecordBatch]:
    """The rows of a task: records, or rows of a view with the columns of a schema."""
    if task.shape is None:
        yield from read(task.parts, names, conditions)
        return
    assert schema is not None
    for batch in read(task.parts, record_schema.RECORD, conditions):
        mapped = task.shape.rows(batch)
        if len(mapped):
            yield select_columns(mapped, schema)
