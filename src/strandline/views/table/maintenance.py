"""Background work of a table: writes memtables to files, merges files, applies retention.

One file is written at a time. A thread that appends rows faster than they are written waits for
that one file, not for the files after it, and not for a merge.

One run holds the view's lock only for short operations:

1. The log is synced, then each passive memtable is written to a file, oldest first. A file's rows
   are never ahead of what is durable in the log.
2. Neighbouring files are merged, one bounded step per run.
3. Events older than the retention are deleted, by a delete record as usual: a twentieth of the
   retention at a time, so that there are few such records.
4. Records of deleted rows are trimmed from the log, up to the deletes in the saved state.
5. Files that are not referred to any more are deleted.
"""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import Conflict
from strandline.schema import Schema
from strandline.views.table.condition import Compare
from strandline.views.table.control_records import delete_draft
from strandline.views.table.dictionary import with_dictionaries
from strandline.views.table.files.row_order import sort_rows
from strandline.views.table.fold import TableFold
from strandline.views.table.memtable import MemTable
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ, TS
from strandline.views.table.upcast import upcast
from strandline.views.view_runner import ViewRunner

_SWEEP_S = 60.0
_RETENTION_STEPS = 20
"""Retention is late by up to this fraction of itself."""


class TableMaintenance:
    """The background work of one table. Safe to call from many threads."""

    def __init__(self, host: ViewRunner[TableFold]) -> None:
        self._host = host
        self._run_lock = threading.Lock()
        """Held for a run or a merge. A thread that appends rows never acquires it."""
        self._file_ended = threading.Condition()
        self._is_writing = False
        self._files_ended = 0
        """The number of files that were written, or failed."""
        self._swept_at = host.world.clock.monotonic()

    def run_once(self) -> None:
        """Do what is due, unless another thread does it."""
        if self._host.fold.segments.readonly or not self._run_lock.acquire(blocking=False):
            return
        try:
            for _ in self._host.fold.passives:  # later ones are for the next run
                self._write_oldest()
            self._merge()
            self._apply_retention()
            self._trim_records()
            self._collect_garbage()
        finally:
            self._run_lock.release()

    def flush(self) -> None:
        """Write all rows in memory to files now."""
        with self._host.reading() as fold:
            fold.make_passive()
        while self._write_oldest():
            pass

    def limit_passives(self, passives_max: int) -> None:
        """Return when at most so many passives are left; write them unless another thread does."""
        while len(self._host.fold.passives) > passives_max:
            self._write_oldest()

    def merge_all(self) -> None:
        """Merge until no merge is worthwhile."""
        with self._run_lock:
            while self._merge():
                pass

    def _write_oldest(self) -> bool:
        """Write the oldest passive, or wait for the thread that does; False without passives."""
        with self._file_ended:
            if self._is_writing:
                ended = self._files_ended
                self._file_ended.wait_for(lambda: self._files_ended != ended)
                return True
            self._is_writing = True
        try:
            return self._write_passive()
        finally:
            with self._file_ended:
                self._is_writing = False
                self._files_ended += 1
                self._file_ended.notify_all()

    def _write_passive(self) -> bool:
        host = self._host
        with host.lock:
            fold = host.fold
            passive = fold.oldest_passive()
            hidden, schema = fold.hidden, fold.schema
        if passive is None:
            return False
        host.topics[0].sync()
        table, left_out = _rows_of(passive, schema, hidden)
        first_seq = fold.segments.flushed + 1
        if table.num_rows:
            fold.segments.add(sort_rows(table), first_seq, passive.last_seq, schema)
        with host.lock:
            if host.fold is fold:  # else it was loaded again, and has the file
                fold.drop_passive(passive, left_out)
        return True

    def _merge(self) -> bool:
        host = self._host
        fold = host.fold
        if not self._save_hidden(fold):
            return False
        hidden = fold.segments.hidden
        try:
            merged = fold.segments.compact_once(fold.schema)
        except Conflict:
            return False  # another writer merged: the next run reads the newest manifest
        with host.lock:
            if merged and host.fold is fold:
                fold.forget_hidden(hidden - fold.segments.hidden)
        return merged

    def _save_hidden(self, fold: TableFold) -> bool:
        """Store the hidden seqs in the manifest: merged files lack all rows that were deleted by
        then. The log is synced first: a delete that it may lose must not reach a file."""
        with self._host.lock:
            if self._host.fold is not fold:
                return False
            hidden = fold.hidden
        if not hidden.issubset(fold.segments.hidden):
            self._host.topics[0].sync()
            fold.segments.hide(hidden)
        return True

    def _apply_retention(self) -> None:
        host = self._host
        retention_us = host.fold.config.retention_ms * 1000
        if not retention_us:
            return
        horizon = host.world.clock.now_us() - retention_us
        with host.reading() as fold:
            oldest, retained = fold.oldest_us(), fold.retained_us
        if (
            oldest is not None
            and oldest < horizon
            and retained < horizon - retention_us // _RETENTION_STEPS
        ):
            where = Compare(field=TS, op="<", value=horizon)
            host.decide(lambda _: delete_draft(where))

    def _trim_records(self) -> None:
        host = self._host
        trimmable = host.fold.gone & BitMap64(range(host.secured[0] + 1))
        if trimmable and host.release(0, trimmable):
            with host.lock:
                host.fold.forget_trimmed(trimmable)

    def _collect_garbage(self) -> None:
        now = self._host.world.clock.monotonic()
        if now - self._swept_at >= _SWEEP_S:
            self._swept_at = now
            self._host.fold.segments.sweep()


def _rows_of(passive: MemTable, schema: Schema, hidden: BitMap64) -> tuple[pa.Table, BitMap64]:
    """The rows of a passive in the newest schema without hidden ones, and the hidden ones."""
    columns = arrow_schema(schema)
    parts, left_out = [columns.empty_table()], BitMap64()
    for chunk in passive.chunks():
        table = chunk.table
        deleted = BitMap64(range(chunk.first_seq, chunk.last_seq + 1)) & hidden
        if deleted:
            left_out |= deleted
            seqs = np.fromiter(deleted, dtype=np.uint64, count=len(deleted))
            table = table.filter(pa.array(~np.isin(table[SEQ].to_numpy(), seqs)))
        table = upcast(table, chunk.schema, schema, columns.names)
        parts.append(with_dictionaries(table, ()))
    return pa.concat_tables(parts), left_out
