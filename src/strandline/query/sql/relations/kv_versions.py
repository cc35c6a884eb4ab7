"""All versions of all keys of a map that are in the log, including deletes, in order of seq.

These are at least the history of each key (``Kv.history``), and older versions until the map is
compacted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from strandline.log.topic.topic import Topic
from strandline.query.sql.filters import Where
from strandline.query.sql.relations.relation import TIME, Position, Relation, texts
from strandline.query.sql.relations.topic import scan, snapshot_at
from strandline.views.kv import meta_codec as metas
from strandline.views.view import MARKS
from strandline.views.view_runner import ViewRunner


class VersionSource:
    """The versions in a map's log."""

    held: Sequence[ViewRunner[Any]] = ()

    def __init__(self, topic: Topic) -> None:
        self.topics = (topic,)

    def at(self, position: Position) -> Relation:
        return VersionRows(self.topics[0], position)


class VersionRows:
    """Versions up to a seq. Safe from many threads."""

    schema = pa.schema(
        [
            pa.field("key", pa.string()),
            pa.field("key_bytes", pa.binary(), nullable=False),
            pa.field("value", pa.binary()),
            pa.field("text", pa.string()),
            pa.field("version", pa.uint64(), nullable=False),
            pa.field("ts", TIME, nullable=False),
            pa.field("expires", TIME),
            pa.field("deleted", pa.bool_(), nullable=False),
        ]
    )

    def __init__(self, topic: Topic, position: Position) -> None:
        self._topic = topic
        self._snapshot = snapshot_at(topic, position)
        views = topic.config.views
        self._others = tuple(
            mark
            for kind, mark in MARKS.items()
            if kind != "kv" and getattr(views, kind, None) is not None
        )

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        for table in scan(self._topic, self._snapshot, where, seq="version"):
            for batch in table.combine_chunks().to_batches():
                yield versions_of(batch, self._others).select(columns)


def versions_of(batch: pa.RecordBatch, others: tuple[bytes, ...]) -> pa.RecordBatch:
    """Records as versions of their keys, without records that another view has marked."""
    keys, metadata = batch["key"].to_pylist(), batch["meta"].to_pylist()
    is_version = [
        bool(key) and not (meta is not None and meta.startswith(others))
        for key, meta in zip(keys, metadata, strict=True)
    ]
    batch = batch.filter(pa.array(is_version, pa.bool_()))
    decoded = [None if meta is None else metas.decode(meta) for meta in batch["meta"].to_pylist()]
    deleted = pa.array([type(each) is metas.DeletedMeta for each in decoded], pa.bool_())
    ends = [each.expires_us if type(each) is metas.ExpiryMeta else None for each in decoded]
    values = _unless(deleted, batch["data"])
    arrays = [
        texts(batch["key"]),
        batch["key"],
        values,
        texts(values),
        batch["seq"].cast(pa.uint64()),
        batch["ts"],
        pa.array(ends, TIME),
        deleted,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=VersionRows.schema)


def _unless(null: pa.Array, values: pa.Array) -> pa.Array:
    pairs = zip(null.to_pylist(), values.to_pylist(), strict=True)
    return pa.array([None if is_null else value for is_null, value in pairs], pa.binary())
