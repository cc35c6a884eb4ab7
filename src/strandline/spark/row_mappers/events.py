"""The records of an event table as rows: those that fit the schema of their time.

``changes`` are the records that begin a version of the schema, by seq. A row is read in the version
that was in force when it came, then told in the version of the read. Records that fit none, that
change the table or are of another view are no rows.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import ARROW
from strandline.schema import Schema, shown_columns
from strandline.spark.row_mappers.mapper import as_spark, rows_of, spark_form, without_others
from strandline.views.table.control_records import MARK
from strandline.views.table.rows import arrow_schema, fold_rows
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast


class Change(msgspec.Struct, frozen=True):
    """From this seq on rows are of this version."""

    seq: int
    schema: Schema


class EventShape(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, told in a version of the table's schema."""

    told: Schema
    changes: tuple[Change, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        names = shown_columns(self.told)
        return pa.schema([field.with_name(names[field.name]) for field in self.stored])

    @property
    def stored(self) -> pa.Schema:
        """The same columns by their names in files."""
        return spark_form(arrow_schema(self.told), seqs=[SEQ])

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = arrow_schema(self.told)
        batch = without_others(batch, "table", self.kinds)
        made = [columns.empty_table()]
        for schema, part in self._versions(_events(batch)):
            found, _ = fold_rows(schema, rows_of(part))
            made.append(told_in(found, schema, self.told))
        return as_spark(pa.concat_tables(made), self.stored).rename_columns(self.schema.names)

    def _versions(self, batch: pa.RecordBatch) -> Iterator[tuple[Schema, pa.RecordBatch]]:
        """Runs of records of one version; those from before the first are no rows."""
        seqs = batch["seq"].to_pylist()
        starts = [bisect.bisect_left(seqs, change.seq) for change in self.changes]
        for change, start, stop in zip(self.changes, starts, [*starts[1:], len(seqs)], strict=True):
            if start < stop:
                yield change.schema, batch.slice(start, stop - start)


def told_in(table: pa.Table, schema: Schema, told: Schema) -> pa.Table:
    """Rows of one version in another: a later one, or an earlier one that has less fields."""
    columns = arrow_schema(told)
    if schema.version <= told.version:
        return upcast(table, schema, told, columns.names).cast(columns)
    check_known(schema, told)
    return table.select(columns.names).cast(columns)


def check_known(newer: Schema, told: Schema) -> None:
    """Raise when rows of a newer version cannot be told in the version that a query has."""
    for name, kind in told.kinds().items():
        if ARROW[newer.kinds()[name].name] != ARROW[kind.name]:
            raise changed(name, newer)


def changed(name: str, newer: Schema) -> Invalid:
    """A query goes on with the columns that it began with."""
    return Invalid(
        f"field {name!r} of the table has another type since version {newer.version}, and this "
        "query has the columns of an earlier one: start it again, with the same checkpoint"
    )


def _events(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch["meta"].null_count == len(batch):
        return batch
    plain = [meta is None or not meta.startswith(MARK) for meta in batch["meta"].to_pylist()]
    return batch.filter(pa.array(plain, pa.bool_()))
