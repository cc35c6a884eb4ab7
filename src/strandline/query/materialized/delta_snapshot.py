"""A table as if it began after a mark: what every engine reads to find out what is new.

Whatever answers a query over a snapshot answers it over news just the same. Reading tells how far
it is, since the first run of a query over a large table takes a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from strandline.log.progress import Progress, silent
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.external_scan import Apart
from strandline.views.table.snapshot import SEQ, Facts, Reading, Snapshot, Top


class News:
    """Rows of a snapshot behind a mark. Immutable; safe from many threads."""

    def __init__(self, whole: Snapshot, after: int, progress: Progress = silent) -> None:
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
        """How many are new: they have to be read to know it."""
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
    ) -> Reading:
        reading = self._whole.read(columns, where, after=max(after, self._after), top=top)
        return _Told(reading, f"reading {self.name}", self._progress)


class _Told:
    """A reading that tells how far it is. Owned by one thread."""

    def __init__(self, reading: Reading, what: str, progress: Progress) -> None:
        self._reading = reading
        self._what = what
        self._progress = progress
        self.facts: Facts = reading.facts

    @property
    def rows_max(self) -> int:
        return self._reading.rows_max

    @property
    def bytes_max(self) -> int:
        return self._reading.bytes_max

    def tables(self) -> list[pa.Table]:
        total = self.rows_max
        self._progress(self._what, 0, total)
        found = self._reading.tables()
        self._progress(self._what, total, total)
        return found

    def apart(self) -> Apart:
        return self._reading.apart()  # who reads the files tells how far he is

    def batches(self) -> Iterator[pa.RecordBatch]:
        total, done = self.rows_max, 0
        for batch in self._reading.batches():
            done += batch.num_rows
            self._progress(self._what, min(done, total), total)
            yield batch
