"""What an executor does with a task: its parts become batches, with the columns of the read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

import pyarrow as pa

from strandline.pipelines.splits import record_schema, split_reader
from strandline.pipelines.splits.predicates import Condition
from strandline.spark.read.tasks import AnyPart, ServedPart, StatePart, TablePart, Task
from strandline.spark.row_mappers.mapper import selected


def read(
    some: Sequence[AnyPart], names: Sequence[str], conditions: Sequence[Condition] = ()
) -> Iterator[pa.RecordBatch]:
    """Rows of parts: records with these columns, or what the part itself has."""
    for part in some:
        if isinstance(part, ServedPart):  # what is behind these is loaded when it is needed
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
    """The rows of a task: records, or those of a view with the columns of a schema."""
    if task.shape is None:
        yield from read(task.parts, names, conditions)
        return
    assert schema is not None
    for batch in read(task.parts, record_schema.RECORD, conditions):
        found = task.shape.rows(batch)
        if len(found):
            yield selected(found, schema)
