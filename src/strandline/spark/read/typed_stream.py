"""What makes rows of a stream's records, batch after batch: on the driver of a stream of a view.

Of an event table the driver must know which version of the schema a record is of. It looks through
the log for the records that begin one, from the oldest there is, each stretch once; when the table
has one version and the log begins with it, that is soon done. Where retention took the record that
began a version, rows from before the next one are read in that next one, which takes all that the
earlier one took.
"""

from __future__ import annotations

import pyarrow as pa

from strandline.errors import Invalid
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.snapshot_position import Position
from strandline.schema import NO_SCHEMA, SYSTEM_PREFIX, TABLE_COLUMNS, Schema
from strandline.spark.read import view_read
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import Place
from strandline.spark.row_mappers.events import Change, EventShape, changed, check_known
from strandline.spark.row_mappers.mapper import Shape


class TypedStream:
    """The shapes of a stream's batches. Owned by one thread."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        if options.measurement:
            raise Invalid(
                "a stream of metrics has a row for each point: leave measurement out, and filter "
                "by the column of that name"
            )
        if options.view == "queue":
            view_read.shape_of(options, None, None, ())
        self._options = options
        self._schema = schema
        self._newest = NO_SCHEMA
        self._told: Schema | None = None
        self._changes: tuple[Change, ...] = ()
        self._seen: tuple[int, int] = (0, 0)
        """Of which life of the topic, and up to where, the changes are known."""

    def shape(
        self, place: Place, position: Position, snapshot: Snapshot, wanted: split_planner.Range
    ) -> Shape:
        """What makes rows of a stretch."""
        configs = view_read.check(place, self._options)
        if self._options.view != "table":
            node = view_read.log_of(place, self._options)[1]
            return view_read.shape_of(self._options, configs, None, (), node)
        if self._told is None:
            self._newest = view_read.table_schema(place, snapshot.name)
            self._told = self._known(self._newest)
        self._look(place, position, snapshot)
        changes = self._changes or (Change(0, self._newest),)
        first = changes[0]
        if first.seq > snapshot.floor and snapshot.floor > 1:
            changes = (Change(0, first.schema), *changes)
        for change in changes:
            if change.seq <= wanted.last_seq and change.schema.version > self._told.version:
                check_known(change.schema, self._told)
        return view_read.shape_of(self._options, configs, self._told, changes)

    def topic(self, place: Place) -> str:
        """Whose records are read."""
        return view_read.log_of(place, self._options)[0]

    def _look(self, place: Place, position: Position, snapshot: Snapshot) -> None:
        life, seen = self._seen
        if life != snapshot.created_us:
            self._changes, seen = (), 0
        if seen < snapshot.head_seq:
            self._changes = view_read.changes_until(place, position, snapshot, self._changes, seen)
            self._seen = (snapshot.created_us, snapshot.head_seq)

    def _known(self, newest: Schema) -> Schema:
        """The version that the query's columns are of: without fields that came since."""
        there = self._schema.names
        fields = {
            name: kind
            for name, kind in newest.fields.items()
            if name in there and (name not in TABLE_COLUMNS or f"{SYSTEM_PREFIX}{name}" in there)
        }
        told = Schema(newest.version, fields)
        now = EventShape(told=told).schema
        for name in fields:
            if now.field(name).type != self._schema.field(name).type:
                raise changed(name, newest)
        return told
