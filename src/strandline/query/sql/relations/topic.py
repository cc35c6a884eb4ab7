"""The records of a topic as rows: columns of ``Topic.read().arrow()``, ``text``, typed columns.

``text`` is ``data`` where that is UTF-8. A topic with a schema has its fields as columns, read from
``data`` as in the lake (``lake/files/typed_columns.py``), by the current schema; the field ``key``
is the column ``__data_key``, and a field with the name ``text`` replaces the column ``text``.
Values that do not fit their type are null, and counted: the result has a note about them. A plan
that reads a topic several times counts them once.

Records are read in order of seq, block by block, from the first to the last that a condition on seq
or ts allows. They are those that the topic has up to the position: records that are deleted or
evicted while a query runs are missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.files.typed_columns import TypedColumns, typed_columns_of
from strandline.log.read.snapshot import TopicSnapshot
from strandline.log.topic.topic import Topic
from strandline.query.sql.filters import Where, bounds
from strandline.query.sql.relations.relation import Position, Relation, texts
from strandline.schema import Schema, column_of
from strandline.views.view_runner import ViewRunner

_TEXT = pa.field("text", pa.string())


class TopicSource:
    """A topic."""

    held: Sequence[ViewRunner[Any]] = ()

    def __init__(self, topic: Topic) -> None:
        self.topics = (topic,)

    def at(self, position: Position) -> Relation:
        (topic,) = self.topics
        return _TopicRows(topic, snapshot_at(topic, position))


class _TopicRows:
    """The records of a topic up to a seq. Safe from many threads."""

    def __init__(self, topic: Topic, snapshot: TopicSnapshot) -> None:
        self._topic = topic
        self._snapshot = snapshot
        self._fields = topic.config.schema
        typed = typed_columns_of(Schema(1, self._fields)).columns
        has_text = "text" in map(str.lower, self._fields)
        own = list(SCHEMA) if has_text else [*SCHEMA, _TEXT]
        self.schema = pa.schema([*own, *list(typed)[len(SCHEMA) :]])
        self._counting = threading.Lock()
        self._misfits: dict[str, _Misfits] = {}

    def notes(self) -> list[str]:
        """Values that did not fit their column in the rows that were read."""
        with self._counting:
            return [misfits.note(self._topic.name) for misfits in self._misfits.values()]

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        chosen = {
            name: kind
            for name, kind in self._fields.items()
            if column_of(name, SCHEMA.names) in columns
        }
        shape = typed_columns_of(Schema(1, chosen))
        with_text = "text" in columns and "text" not in chosen
        misfits: dict[str, _Misfits] = {}
        try:
            for table in scan(self._topic, self._snapshot, where):
                wide = shape.add_typed_columns(table)
                _count_misfits(misfits, shape, wide)
                if with_text:
                    wide = wide.append_column(_TEXT, texts(table["data"]))
                yield from wide.select(columns).to_batches()
        finally:
            self._merge_misfits(misfits)

    def _merge_misfits(self, misfits: dict[str, _Misfits]) -> None:
        """Store the misfits of one scan; of several scans, those with the largest count stay."""
        with self._counting:
            for name, more in misfits.items():
                largest = self._misfits.get(name)
                if largest is None or largest.count < more.count:
                    self._misfits[name] = more


class _Misfits(msgspec.Struct):
    """Values of one field that did not fit their type, in one scan."""

    field: str
    type: str
    count: int
    seq: int
    example: str

    def note(self, topic: str) -> str:
        place = f"{self.example} of seq {self.seq}"
        if self.count == 1:
            return f"1 value of {topic}.{self.field} is not {self.type} and is null here: {place}"
        values = f"{self.count} values of {topic}.{self.field}"
        return f"{values} are not {self.type} and are null here, the first is {place}"


def _count_misfits(misfits: dict[str, _Misfits], shape: TypedColumns, wide: pa.Table) -> None:
    """Add the misfits of some rows."""
    columns = [wide[name].combine_chunks() for name in shape.kinds]
    if not any(column.null_count for column in columns):
        return
    for each in shape.type_mismatches(wide["data"], columns):
        known = misfits.get(each.field)
        if known is None:
            seq = wide["seq"][each.first].as_py()
            misfits[each.field] = _Misfits(each.field, each.type, each.count, seq, each.example)
        else:
            known.count += each.count


def snapshot_at(topic: Topic, position: Position) -> TopicSnapshot:
    """The topic now, without the records after the position."""
    snapshot = topic.snapshot()
    head_seq = min(snapshot.head_seq, position.heads[topic.name])
    return msgspec.structs.replace(snapshot, head_seq=head_seq)


def scan(
    topic: Topic, snapshot: TopicSnapshot, where: Where | None, *, seq: str = "seq"
) -> Iterator[pa.Table]:
    """The records of a snapshot that conditions on seq and ts allow; seq may have another name."""
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
