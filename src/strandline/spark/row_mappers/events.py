"""The records of an event table as rows.

``changes`` are the records that start a version of the schema, by seq. A row is parsed with the
version that was valid at its seq, then converted to the version of the read. Records that do not
match their version, that change the table, or that belong to another view are not rows.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import ARROW
from strandline.schema import Schema, shown_columns
from strandline.spark.row_mappers.mapper import (
    as_spark,
    rows_of,
    spark_schema_of,
    without_other_views,
)
from strandline.views.table.control_records import MARK
from strandline.views.table.rows import arrow_schema, fold_rows
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast


class SchemaChange(msgspec.Struct, frozen=True):
    """The schema of rows from a seq on."""

    seq: int
    schema: Schema


class EventMapper(msgspec.Struct, frozen=True, kw_only=True):
    """Maps events to rows of one version of the schema."""

    target: Schema
    changes: tuple[SchemaChange, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        names = shown_columns(self.target)
        return pa.schema([field.with_name(names[field.name]) for field in self.stored])

    @property
    def stored(self) -> pa.Schema:
        """The same columns with their names in files."""
        return spark_schema_of(arrow_schema(self.target), seqs=[SEQ])

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = arrow_schema(self.target)
        batch = without_other_views(batch, "table", self.kinds)
        tables = [columns.empty_table()]
        for schema, part in self._versions(_events(batch)):
            table, _ = fold_rows(schema, rows_of(part))
            tables.append(convert_rows(table, schema, self.target))
        return as_spark(pa.concat_tables(tables), self.stored).rename_columns(self.schema.names)

    def _versions(self, batch: pa.RecordBatch) -> Iterator[tuple[Schema, pa.RecordBatch]]:
        """Runs of records of one version; records before the first version are not rows."""
        seqs = batch["seq"].to_pylist()
        starts = [bisect.bisect_left(seqs, change.seq) for change in self.changes]
        for change, start, stop in zip(self.changes, starts, [*starts[1:], len(seqs)], strict=True):
            if start < stop:
                yield change.schema, batch.slice(start, stop - start)


def convert_rows(table: pa.Table, schema: Schema, target: Schema) -> pa.Table:
    """Convert rows of one version to another: a later one, or an earlier one with fewer fields."""
    columns = arrow_schema(target)
    if schema.version <= target.version:
        return upcast(table, schema, target, columns.names).cast(columns)
    check_known(schema, target)
    return table.select(columns.names).cast(columns)


def check_known(newer: Schema, target: Schema) -> None:
    """Raise if rows of a newer version cannot be converted to the version of a query."""
    for name, kind in target.types().items():
        if ARROW[newer.types()[name].name] != ARROW[kind.name]:
            raise type_changed(name, newer)


def type_changed(name: str, newer: Schema) -> Invalid:
    """The error for a field whose type changed: a query keeps the columns of its start."""
    return Invalid(
        f"field {name!r} of the table has another type since version {newer.version}, and this "
        "query has the columns of an earlier one: start it again, with the same checkpoint"
    )


def _events(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch["meta"].null_count == len(batch):
        return batch
    is_event = [meta is None or not meta.startswith(MARK) for meta in batch["meta"].to_pylist()]
    return batch.filter(pa.array(is_event, pa.bool_()))
