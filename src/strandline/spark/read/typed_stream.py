"""Row mappers for the batches of a stream of a view, on its driver.

For an event table the driver must know the schema version of each record. It searches the log for
the records that start a version, from the oldest record on, each range once; this is fast if the
table has one version. If retention removed the record that started a version, rows before the next
version are read with that next version, which accepts all rows of the earlier one.
"""

from __future__ import annotations

import pyarrow as pa

from strandline.errors import Invalid
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.schema import NO_SCHEMA, SYSTEM_PREFIX, TABLE_COLUMNS, Schema
from strandline.spark.read import view_read
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import ReadLocation
from strandline.spark.row_mappers.events import EventMapper, SchemaChange, check_known, type_changed
from strandline.spark.row_mappers.mapper import RowMapper


class StreamMappers:
    """The row mappers of the batches of a stream. Owned by one thread."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        if options.measurement:
            raise Invalid(
                "a stream of metrics has a row for each point: leave measurement out, and filter "
                "by the column of that name"
            )
        if options.view == "queue":
            view_read.mapper_of(options, None, None, ())
        self._options = options
        self._schema = schema
        self._newest = NO_SCHEMA
        self._result_schema: Schema | None = None
        self._changes: tuple[SchemaChange, ...] = ()
        self._searched: tuple[int, int] = (0, 0)
        """The creation time of the topic, and the seq up to which the changes are known."""

    def mapper(
        self,
        location: ReadLocation,
        position: StorePosition,
        snapshot: TopicSnapshot,
        seqs: split_planner.SeqRange,
    ) -> RowMapper:
        """The row mapper of a range of seqs."""
        configs = view_read.check(location, self._options)
        if self._options.view != "table":
            node = view_read.log_of(location, self._options)[1]
            return view_read.mapper_of(self._options, configs, None, (), node)
        if self._result_schema is None:
            self._newest = view_read.table_schema(location, snapshot.name)
            self._result_schema = self._query_schema(self._newest)
        self._read_changes(location, position, snapshot)
        changes = self._changes or (SchemaChange(0, self._newest),)
        first = changes[0]
        if first.seq > snapshot.floor and snapshot.floor > 1:
            changes = (SchemaChange(0, first.schema), *changes)
        for change in changes:
            if change.seq <= seqs.last_seq and change.schema.version > self._result_schema.version:
                check_known(change.schema, self._result_schema)
        return view_read.mapper_of(self._options, configs, self._result_schema, changes)

    def topic(self, location: ReadLocation) -> str:
        """The topic whose records are read."""
        return view_read.log_of(location, self._options)[0]

    def _read_changes(
        self, location: ReadLocation, position: StorePosition, snapshot: TopicSnapshot
    ) -> None:
        created_us, searched_seq = self._searched
        if created_us != snapshot.created_us:
            self._changes, searched_seq = (), 0
        if searched_seq < snapshot.head_seq:
            self._changes = view_read.changes_until(
                location, position, snapshot, self._changes, searched_seq
            )
            self._searched = (snapshot.created_us, snapshot.head_seq)

    def _query_schema(self, newest: Schema) -> Schema:
        """The schema of the columns of the query, without fields that were added since."""
        names = self._schema.names
        fields = {
            name: kind
            for name, kind in newest.fields.items()
            if name in names and (name not in TABLE_COLUMNS or f"{SYSTEM_PREFIX}{name}" in names)
        }
        schema = Schema(newest.version, fields)
        columns = EventMapper(target=schema).schema
        for name in fields:
            if columns.field(name).type != self._schema.field(name).type:
                raise type_changed(name, newest)
        return schema
