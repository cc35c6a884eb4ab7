"""The jobs of a queue as rows: their state, and their records.

A queue has only its present state. So its columns, a few bytes for each job, are copied while the
position is determined; the content of the records (key, payload, tag, time) is read later, if it is
requested. A job whose record is removed from the log meanwhile is left out, as after any delete.

    state      waiting, delayed (for its time), blocked (by an older job of its group), claimed,
               lapsed (claimed, but the lease has expired: may be claimed again), dying (being
               moved to the dead letters)
    due        when it may be claimed, if it was delayed
    worker     the worker that has it, or had it when it lapsed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from strandline.query.sql.filters import Where, bounds
from strandline.query.sql.relations.relation import TIME, Position, Relation, texts
from strandline.views.queue.fold import JOBS, QueueFold
from strandline.views.queue.state.job_chunk import BLOCKED, JobChunk
from strandline.views.view_runner import ViewRunner

_STATES = ["", "", "blocked", "delayed", "dying", "claimed", "waiting", "lapsed"]
"""The names of the states of a chunk in SQL."""
_BATCH_ROWS = 8192

_KNOWN = [
    pa.field("seq", pa.uint64(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("priority", pa.uint8(), nullable=False),
    pa.field("attempts", pa.uint16(), nullable=False),
    pa.field("due", TIME),
    pa.field("expires", TIME),
    pa.field("worker", pa.string()),
    pa.field("lease", pa.int64()),
]
RECORDED = [
    pa.field("ts", TIME),
    pa.field("key", pa.string()),
    pa.field("key_bytes", pa.binary()),
    pa.field("tag", pa.string()),
    pa.field("data", pa.binary()),
    pa.field("text", pa.string()),
]


class QueueSource:
    """A queue."""

    def __init__(self, host: ViewRunner[QueueFold], *, apart: bool = False) -> None:
        """``apart``: some records cannot be read here; their jobs are included all the same."""
        self._host = host
        self._apart = apart
        self.topics = host.topics
        self.held = (host,)

    def at(self, position: Position) -> Relation:
        clock, fold = self._host.world.clock, self._host.fold
        fold.advance_time(clock.monotonic(), clock.now_us())
        parts = [_known(fold, chunk) for _, chunk in sorted(fold.jobs.table.chunks.items())]
        shape = pa.schema(_KNOWN)
        known = pa.Table.from_batches(parts, shape).combine_chunks()
        return QueueRows(self._host, known, apart=self._apart)


class QueueRows:
    """Jobs as they were at a position. Safe from many threads."""

    schema = pa.schema([*_KNOWN, *RECORDED])

    def __init__(
        self, host: ViewRunner[QueueFold], known: pa.Table, *, apart: bool = False
    ) -> None:
        self._host = host
        self._known = known
        self._apart = apart

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        seqs = bounds(where, "seq")
        known = self._known
        numbers = known["seq"].to_numpy()
        first = 0 if seqs.low is None else int(np.searchsorted(numbers, seqs.low))
        end = len(known) if seqs.high is None else int(np.searchsorted(numbers, seqs.high, "right"))
        known = known.slice(first, max(0, end - first))
        recorded = any(field.name in columns for field in RECORDED)
        for batch in known.to_batches(max_chunksize=_BATCH_ROWS):
            wide = self._with_records(batch) if recorded else batch
            yield wide.select(columns)

    def _with_records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        page = self._host.topics[JOBS].get_many(batch["seq"].to_pylist())
        records = page.arrow().combine_chunks()
        is_found = np.isin(batch["seq"].to_numpy(), records["seq"].to_numpy())
        if not is_found.all():
            if self._apart:
                records = records.take(pa.array(is_found.cumsum() - 1, mask=~is_found))
            else:
                batch = batch.filter(pa.array(is_found))
        return _joined(batch, records)


def _known(fold: QueueFold, chunk: JobChunk) -> pa.RecordBatch:
    """A copy of the state of the jobs of a chunk."""
    rows = (chunk.state >= BLOCKED).nonzero()[0]
    states = pa.DictionaryArray.from_arrays(chunk.state[rows].astype("i4"), pa.array(_STATES))
    grants = chunk.values("grant", rows)
    leases = chunk.values("lease", rows)
    columns = [
        pa.array(chunk.seqs(rows).astype("u8")),
        states.cast(pa.string()),
        pa.array(chunk.priority[rows]),
        pa.array(chunk.deliveries[rows]),
        _moments(chunk.values("not_before", rows)),
        _moments(chunk.values("expires", rows)),
        _workers(fold, grants),
        pa.array(leases, mask=leases == 0),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(_KNOWN))


def _moments(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values.astype("i8"), mask=values == 0).cast(TIME)


def _workers(fold: QueueFold, grants: np.ndarray[Any, Any]) -> pa.Array:
    numbers, places = np.unique(grants, return_inverse=True)
    leases = fold.jobs.leases
    names = [
        leases.terms(number).worker.decode(errors="replace") if number in leases else None
        for number in numbers.tolist()
    ]
    return pa.array(names, pa.string()).take(pa.array(places.reshape(-1)))


def _joined(batch: pa.RecordBatch, records: pa.Table) -> pa.RecordBatch:
    """Jobs with their records, which are as many and in the same order."""
    columns = {name: batch[name] for name in batch.schema.names}
    columns["ts"] = records["ts"]
    columns.update(recorded_columns(records))
    arrays = [_flat(columns[name]) for name in QueueRows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=QueueRows.schema)


def recorded_columns(records: pa.Table | pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of the records of jobs."""
    return {
        "key": texts(records["key"]),
        "key_bytes": records["key"],
        "tag": records["tag"],
        "data": records["data"],
        "text": texts(records["data"]),
    }


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column
