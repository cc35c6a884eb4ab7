"""The dead letters of a queue as rows: jobs that were delivered too often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strandline.log.topic.topic import Topic
from strandline.query.sql.filters import Where
from strandline.query.sql.relations.queue import RECORDED, recorded_columns
from strandline.query.sql.relations.relation import TIME, Position, Relation
from strandline.query.sql.relations.topic import scan, snapshot_at
from strandline.records import Record
from strandline.views.queue import dead_letter_codec
from strandline.views.view_runner import ViewRunner


class DeadLetterSource:
    """The dead letters of a queue."""

    held: Sequence[ViewRunner[Any]] = ()

    def __init__(self, topic: Topic, node: str | None = None) -> None:
        """``node`` selects those of one queue, in a topic that several queues share."""
        self.topics = (topic,)
        self._node = node

    def at(self, position: Position) -> Relation:
        (topic,) = self.topics
        return DeadLetterRows(topic, position, self._node)


class DeadLetterRows:
    """Dead letters up to a seq. Safe from many threads."""

    schema = pa.schema(
        [
            pa.field("seq", pa.uint64(), nullable=False),
            pa.field("ts", TIME, nullable=False),
            pa.field("job_seq", pa.uint64()),
            pa.field("put", TIME),
            pa.field("attempts", pa.uint16()),
            pa.field("reason", pa.string()),
            *RECORDED[1:],
        ]
    )

    def __init__(self, topic: Topic, position: Position, node: str | None = None) -> None:
        self._topic = topic
        self._node = node
        self._snapshot = snapshot_at(topic, position)

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        for table in scan(self._topic, self._snapshot, where):
            own = table if self._node is None else table.filter(pc.equal(table["node"], self._node))
            for batch in own.combine_chunks().to_batches():
                yield dead_letters_of(batch).select(columns)


def dead_letters_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Records of dead letters as rows."""
    letters = [
        dead_letter_codec.decode(Record(seq=0, ts=0, data=b"", meta=meta))
        for meta in batch["meta"].to_pylist()
    ]
    columns = {
        "seq": batch["seq"].cast(pa.uint64()),
        "ts": batch["ts"],
        "job_seq": pa.array([each.job_seq or None for each in letters], pa.uint64()),
        "put": pa.array([each.put_ts or None for each in letters], TIME),
        "attempts": pa.array([each.deliveries for each in letters], pa.uint16()),
        "reason": pa.array([each.reason or None for each in letters], pa.string()),
        **recorded_columns(batch),
    }
    arrays = [columns[name] for name in DeadLetterRows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=DeadLetterRows.schema)
