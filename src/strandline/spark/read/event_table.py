"""An event table at a position: its files, and the rows that are not in a file.

The files are those of one manifest. Rows up to ``flushed`` are in the files or removed; later rows
come from the view. So there is no gap and no overlap. Files of older versions of the schema are
converted to the newest one, as the table does. A lake without its store has only the files.

A stream reads the log instead, and needs the version of the schema of each record: the driver
searches the column ``meta`` for the records that start a version, once for each range of seqs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import Corrupt, NotFound, UnknownTopic
from strandline.lake.files.record_columns import TABLE_ID_FIRST
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.record_schema import RECORD
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.query.sql import as_of as sql_as_of
from strandline.schema import NO_SCHEMA, Schema, shown_columns
from strandline.spark.read.executor_read import read as read_parts
from strandline.spark.read.lake_source import LakeReadLocation
from strandline.spark.read.read_location import ReadLocation, StoreReadLocation
from strandline.spark.read.tasks import AnyPart, TablePart
from strandline.spark.read.view_state import host_of
from strandline.spark.row_mappers.events import EventMapper, SchemaChange
from strandline.spark.row_mappers.mapper import select_columns
from strandline.views.table.control_records import MARK, change_of
from strandline.views.table.files.live_rows import read_live_rows

PART_ROWS = 8 * 65_536
_SEQ_MAX = 2**63 - 1


class EventTableState(msgspec.Struct, frozen=True, kw_only=True):
    """A table at a position."""

    name: str
    lake: str
    table_id: int
    manifest: int
    files: tuple[tuple[LakeFile, Schema], ...]
    """Each with the schema version that it was written in."""
    schema: Schema
    """The newest version, which rows are returned in."""
    first_seq: int
    last_seq: int
    hidden: bytes
    """Seqs that are removed although a file has them."""
    memory: tuple[pa.Table, ...] = ()
    """Rows that are not in a file, with the column names of results."""

    def hidden_seqs(self) -> BitMap64:
        return BitMap64.deserialize(self.hidden) if self.hidden else BitMap64()


def table_of(location: ReadLocation, topic: str, as_of: str = "") -> EventTableState:
    """The table of a topic, at a position or now."""
    if isinstance(location, StoreReadLocation):
        return _table_of_store(location, topic, as_of)
    assert isinstance(location, LakeReadLocation)
    return _table_of_lake(location, topic)


def parts_of(state: EventTableState) -> list[AnyPart]:
    """The files of a table as parts."""
    parts: list[AnyPart] = []
    hidden = state.hidden_seqs()
    for file, written in state.files:
        if not file.rows or file.last_seq < state.first_seq or file.first_seq > state.last_seq:
            continue
        span = BitMap64(range(file.first_seq, file.last_seq + 1)) if hidden else BitMap64()
        removed = (hidden & span).serialize() if hidden & span else b""
        shares = -(-file.rows // PART_ROWS)
        parts += [
            TablePart(
                lake=state.lake,
                table=state.name,
                table_id=state.table_id,
                file=file,
                written=written,
                schema=state.schema,
                first_seq=state.first_seq,
                last_seq=state.last_seq,
                hidden=removed,
                share=share,
                shares=shares,
            )
            for share in range(shares)
        ]
    return parts


def read(part: TablePart, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part, on an executor."""
    full_schema = EventMapper(target=part.schema).schema
    schema = pa.schema([full_schema.field(name) for name in names])
    columns = {shown: column for column, shown in shown_columns(part.schema).items()}
    tables = read_live_rows(
        _objects(part.lake),
        part.table_id,
        part.file,
        part.written,
        part.schema,
        [columns[name] for name in names],
        first_seq=part.first_seq,
        last_seq=part.last_seq,
        hidden=BitMap64.deserialize(part.hidden) if part.hidden else BitMap64(),
        share=part.share,
        shares=part.shares,
    )
    try:
        for table in tables:
            yield select_columns(table.rename_columns(list(names)), schema)
    except NotFound:
        raise NotFound(
            f"{part.file.name()} of table {part.table!r} is gone: the read took longer than "
            "lake.grace_s; read again, or raise that setting"
        ) from None


def schema_changes(
    location: ReadLocation,
    position: StorePosition,
    snapshot: TopicSnapshot,
    span: split_planner.SeqRange,
) -> list[SchemaChange]:
    """The records of a range of seqs that start a version of the schema."""
    changes = []
    for batch in _records(location, position, snapshot, span, ("seq", "meta")):
        if batch["meta"].null_count == len(batch):
            continue
        pairs = zip(batch["seq"].to_pylist(), batch["meta"].to_pylist(), strict=True)
        marked = [seq for seq, meta in pairs if meta is not None and meta.startswith(MARK + b"S")]
        for seq in marked:
            single = split_planner.SeqRange(seq, seq)
            for row in _records(location, position, snapshot, single, RECORD):
                schema = change_of(
                    row["meta"][0].as_py(), row["data"][0].as_py(), seq, snapshot.name
                )
                assert isinstance(schema, Schema)
                changes.append(SchemaChange(seq, schema))
    return changes


def _records(
    location: ReadLocation,
    position: StorePosition,
    snapshot: TopicSnapshot,
    span: split_planner.SeqRange,
    names: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    if span.first_seq > span.last_seq:
        return
    files = split_planner.file_parts(position, snapshot, span, ())[0]
    hot = location.hot_parts(position, snapshot, span, names)
    for batch in read_parts([*files, *hot], names):
        if len(batch):
            yield batch


def _table_of_store(location: StoreReadLocation, topic: str, as_of: str) -> EventTableState:
    store = location.store
    host = host_of(store, "table", topic)
    log = host.topics[0]
    with host.reading() as fold:
        until = _SEQ_MAX
        if as_of:
            until = sql_as_of.past_of(store, as_of, {log.name: log}).heads[log.name]
        pinned = fold.segments.pin()
        manifest = fold.segments.manifest
        view = fold.snapshot(until if as_of else None)
        rest = view.read(view.columns.names, after=pinned.flushed)
        return EventTableState(
            name=topic,
            lake=location.lake,
            table_id=0 if manifest is None else manifest.topic_id,
            manifest=0 if manifest is None else manifest.number,
            files=tuple((file, pinned.schema_of(file)) for file in pinned.files),
            schema=fold.schema,
            first_seq=pinned.floor,
            last_seq=view.position,
            hidden=_bytes(fold.hidden | pinned.hidden),
            memory=tuple(
                _with_result_names(table, fold.schema) for table in rest.tables() if len(table)
            ),
        )


def _with_result_names(table: pa.Table, schema: Schema) -> pa.Table:
    names = shown_columns(schema)
    return table.rename_columns([names[name] for name in table.column_names])


def _table_of_lake(location: LakeReadLocation, topic: str) -> EventTableState:
    manifest = manifest_of(location, topic)
    if manifest is None:
        raise UnknownTopic(
            f"there is no event table {topic!r} in the lake {location.url}: its rows get there "
            "when the table writes its first file"
        )
    schemas = {each.version: each for each in manifest.schemas}
    return EventTableState(
        name=topic,
        lake=location.url,
        table_id=manifest.topic_id,
        manifest=manifest.number,
        files=tuple((file, schemas.get(file.schema_version, NO_SCHEMA)) for file in manifest.files),
        schema=manifest.schema,
        first_seq=manifest.floor,
        last_seq=manifest.last_seq,
        hidden=_bytes(manifest.deleted or BitMap64()),
    )


def manifest_of(location: LakeReadLocation, topic: str) -> Manifest | None:
    """The newest manifest of a table in a lake, None if there is none."""
    try:
        selection = location.lake.manifests([f"{topic}:table"])
    except UnknownTopic:
        return None
    for name, reason in selection.damaged.values():
        raise Corrupt(f"table {name!r} cannot be read ({reason})", path=location.url)
    tables = [each for each in selection.manifests if each.topic_id >= TABLE_ID_FIRST]
    return tables[-1] if tables else None


def _bytes(seqs: BitMap64) -> bytes:
    return seqs.serialize() if seqs else b""


@lru_cache(maxsize=8)
def _objects(lake: str) -> Objects:
    return open_objects(lake)
