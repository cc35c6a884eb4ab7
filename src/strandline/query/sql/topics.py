"""The records of a topic as rows: what ``Topic.read().arrow()`` has, ``text``, and typed columns.

``text`` is ``data`` where that is UTF-8. A topic with a schema has its fields as columns, read from
``data`` as the lake does it (``lake/typed.py``), by the schema of now; the field ``key`` is the
column ``__data_key``, and a field that is called ``text`` takes the place of our column.

Records are read in order of seq, block by block, from the first to the last that a condition on seq
or ts allows. They are those that the topic has up to the position: records that are deleted or
evicted while a question runs are not shown any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.lake.columns import SCHEMA
from strandline.lake.typed import shape_of
from strandline.query.sql.filters import Where, bounds
from strandline.query.sql.relation import Position, Relation, texts
from strandline.schema import Schema, column_of
from strandline.topic.snapshot import Snapshot
from strandline.topic.topic import Topic
from strandline.views.host import Host

_TEXT = pa.field("text", pa.string())


class TopicSource:
    """A topic."""

    held: Sequence[Host[Any]] = ()

    def __init__(self, topic: Topic) -> None:
        self.topics = (topic,)

    def at(self, position: Position) -> Relation:
        (topic,) = self.topics
        return TopicRows(topic, snapshot_at(topic, position))


class TopicRows:
    """The records of a topic up to a seq. Safe from many threads."""

    def __init__(self, topic: Topic, snapshot: Snapshot) -> None:
        self._topic = topic
        self._snapshot = snapshot
        self._fields = topic.config.schema
        typed = shape_of(Schema(1, self._fields)).columns
        has_text = "text" in map(str.lower, self._fields)
        own = list(SCHEMA) if has_text else [*SCHEMA, _TEXT]
        self.schema = pa.schema([*own, *list(typed)[len(SCHEMA) :]])

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        chosen = {
            name: kind
            for name, kind in self._fields.items()
            if column_of(name, SCHEMA.names) in columns
        }
        shape = shape_of(Schema(1, chosen))
        with_text = "text" in columns and "text" not in chosen
        for table in scan(self._topic, self._snapshot, where):
            wide = shape.widened(table)
            if with_text:
                wide = wide.append_column(_TEXT, texts(table["data"]))
            yield from wide.select(columns).to_batches()


def snapshot_at(topic: Topic, position: Position) -> Snapshot:
    """The topic now, without what came behind the position."""
    snapshot = topic.snapshot()
    head_seq = min(snapshot.head_seq, position.heads[topic.name])
    return msgspec.structs.replace(snapshot, head_seq=head_seq)


def scan(
    topic: Topic, snapshot: Snapshot, where: Where | None, *, seq: str = "seq"
) -> Iterator[pa.Table]:
    """The records of a snapshot, without those that seq and ts rule out; seq may be renamed."""
    seqs, stamps = bounds(where, seq), bounds(where, "ts")
    first, last = max(1, snapshot.floor), snapshot.head_seq
    if seqs.low is not None:
        first = max(first, int(seqs.low))
    if seqs.high is not None:
        last = min(last, int(seqs.high))
    if stamps.low is not None:
        first = max(first, topic.cursor_at(stamps.low) + 1)
    if stamps.high is not None:
        last = min(last, topic.cursor_at(stamps.high + 1))
    return topic.scan(snapshot, first, last) if first <= last else iter(())
