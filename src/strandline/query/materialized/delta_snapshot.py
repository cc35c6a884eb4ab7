"""A snapshot restricted to the rows after a mark: the new rows that engines read.

Engines run queries over it as over any snapshot. Reads report progress, since the first run of a
query over a large table takes long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from strandline.log.progress import Progress, silent
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.external_scan import ExternalScan
from strandline.views.table.snapshot import SEQ, EventTableSnapshot, ReadStatistics, TableRead, Top


class DeltaSnapshot:
    """The rows of a snapshot after a mark. Immutable; safe from many threads."""

    def __init__(self, whole: EventTableSnapshot, after: int, progress: Progress = silent) -> None:
        self._whole = whole
        self._after = after
        self._progress = progress

    @property
    def name(self) -> str:
        return self._whole.name

    @property
    def schema(self) -> Schema:
        return self._whole.schema

    @property
    def columns(self) -> pa.Schema:
        return self._whole.columns

    @property
    def position(self) -> int:
        return self._whole.position

    @property
    def rows(self) -> int:
        """The number of new rows; they are read to count them."""
        if not self._after:
            return self._whole.rows
        return sum(map(len, self._whole.read([SEQ], after=self._after).tables()))

    def read(
        self,
        columns: Sequence[str],
        where: Condition | None = None,
        *,
        after: int = 0,
        top: Top | None = None,
    ) -> TableRead:
        reading = self._whole.read(columns, where, after=max(after, self._after), top=top)
        return _ProgressReading(reading, f"reading {self.name}", self._progress)


class _ProgressReading:
    """A reading that reports progress. Owned by one thread."""

    def __init__(self, reading: TableRead, label: str, progress: Progress) -> None:
        self._reading = reading
        self._label = label
        self._progress = progress
        self.facts: ReadStatistics = reading.facts

    @property
    def rows_max(self) -> int:
        return self._reading.rows_max

    @property
    def bytes_max(self) -> int:
        return self._reading.bytes_max

    def tables(self) -> list[pa.Table]:
        total = self.rows_max
        self._progress(self._label, 0, total)
        tables = self._reading.tables()
        self._progress(self._label, total, total)
        return tables

    def external_scan(self) -> ExternalScan:
        return self._reading.external_scan()  # the process that reads the files reports progress

    def batches(self) -> Iterator[pa.RecordBatch]:
        total, done = self.rows_max, 0
        for batch in self._reading.batches():
            done += batch.num_rows
            self._progress(self._label, min(done, total), total)
            yield batch
