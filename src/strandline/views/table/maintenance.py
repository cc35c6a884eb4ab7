"""What a table does when nobody waits: rows become files, files are merged, what is gone goes.

One file is written at a time, and a writer that brings rows faster than they are written waits for
that file alone: not for the files after it, and not for a merge.

One turn, without the view's lock but for moments:

1. The log is synced, then each passive that is there becomes a file, oldest first. A file's rows
   are never ahead of what is durable on the log.
2. Neighbouring files are merged, one bounded step a turn.
3. Events older than the retention are deleted, by a record as any delete is: a twentieth of the
   retention at a time, so that there are few such records.
4. Records of deleted rows leave the log, as far as the saved state has seen the delete.
5. Files that have left are swept.
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
from strandline.views.table.dictionary import with_coding
from strandline.views.table.files.row_order import in_order
from strandline.views.table.fold import TableFold
from strandline.views.table.memtable import MemTable
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ, TS
from strandline.views.table.upcast import upcast
from strandline.views.view_runner import Host

_SWEEP_S = 60.0
_STEPS = 20
"""Retention lags behind by up to this part of itself."""


class Upkeep:
    """The background work of one table. Safe from many threads."""

    def __init__(self, host: Host[TableFold]) -> None:
        self._host = host
        self._working = threading.Lock()
        """Held for a turn or a merge. No thread that brings rows takes it."""
        self._file_ended = threading.Condition()
        self._is_writing = False
        self._files_ended = 0
        """Files that were written, or failed."""
        self._swept_at = host.world.clock.monotonic()

    def turn(self) -> None:
        """What is due, unless somebody is at it."""
        if self._host.fold.segments.readonly or not self._working.acquire(blocking=False):
            return
        try:
            for _ in self._host.fold.passives:  # those that come meanwhile are for the next turn
                self._write_oldest()
            self._merge()
            self._retain()
            self._release()
            self._sweep()
        finally:
            self._working.release()

    def flush(self) -> None:
        """Everything that is in memory becomes a file, now."""
        with self._host.reading() as fold:
            fold.swap()
        while self._write_oldest():
            pass

    def relieve(self, passives_max: int) -> None:
        """Return when at most so many passives are left; writes them unless another thread does."""
        while len(self._host.fold.passives) > passives_max:
            self._write_oldest()

    def merge_all(self) -> None:
        """Merge as long as there is something to merge."""
        with self._working:
            while self._merge():
                pass

    def _write_oldest(self) -> bool:
        """Write the oldest passive, or wait for the thread that does; False when there is none."""
        with self._file_ended:
            if self._is_writing:
                ended = self._files_ended
                self._file_ended.wait_for(lambda: self._files_ended != ended)
                return True
            self._is_writing = True
        try:
            return self._write()
        finally:
            with self._file_ended:
                self._is_writing = False
                self._files_ended += 1
                self._file_ended.notify_all()

    def _write(self) -> bool:
        host = self._host
        with host.lock:
            fold = host.fold
            passive = fold.sealed()
            hidden, schema = fold.hidden, fold.schema
        if passive is None:
            return False
        host.topics[0].secure()
        table, left_out = _rows_of(passive, schema, hidden)
        first_seq = fold.segments.flushed + 1
        if table.num_rows:
            fold.segments.add(in_order(table), first_seq, passive.last_seq, schema)
        with host.lock:
            if host.fold is fold:  # else it was loaded anew, and finds the file
                fold.settle(passive, left_out)
        return True

    def _merge(self) -> bool:
        host = self._host
        fold = host.fold
        if not self._hide(fold):
            return False
        hidden = fold.segments.hidden
        try:
            merged = fold.segments.compact_once(fold.schema)
        except Conflict:
            return False  # somebody else has merged: the newest manifest tells at the next turn
        with host.lock:
            if merged and host.fold is fold:
                fold.purge(hidden - fold.segments.hidden)
        return merged

    def _hide(self, fold: TableFold) -> bool:
        """Tell the manifest what is hidden: files that come of a merge lack all that was deleted
        by then. Only deletes that the log will not lose count."""
        with self._host.lock:
            if self._host.fold is not fold:
                return False
            hidden = fold.hidden
        if not hidden.issubset(fold.segments.hidden):
            self._host.topics[0].secure()
            fold.segments.hide(hidden)
        return True

    def _retain(self) -> None:
        host = self._host
        kept_us = host.fold.config.retention_ms * 1000
        if not kept_us:
            return
        horizon = host.world.clock.now_us() - kept_us
        with host.reading() as fold:
            oldest, retained = fold.oldest_us(), fold.retained_us
        if oldest is not None and oldest < horizon and retained < horizon - kept_us // _STEPS:
            where = Compare(field=TS, op="<", value=horizon)
            host.decide(lambda _: delete_draft(where))

    def _release(self) -> None:
        host = self._host
        gone = host.fold.gone & BitMap64(range(host.secured[0] + 1))
        if gone and host.release(0, gone):
            with host.lock:
                host.fold.forget_gone(gone)

    def _sweep(self) -> None:
        now = self._host.world.clock.monotonic()
        if now - self._swept_at >= _SWEEP_S:
            self._swept_at = now
            self._host.fold.segments.sweep()


def _rows_of(passive: MemTable, schema: Schema, hidden: BitMap64) -> tuple[pa.Table, BitMap64]:
    """The rows of a passive in the newest schema, without those that are hidden by now."""
    columns = arrow_schema(schema)
    parts, left_out = [columns.empty_table()], BitMap64()
    for chunk in passive.chunks():
        table = chunk.table
        some = BitMap64(range(chunk.first_seq, chunk.last_seq + 1)) & hidden
        if some:
            left_out |= some
            seqs = np.fromiter(some, dtype=np.uint64, count=len(some))
            table = table.filter(pa.array(~np.isin(table[SEQ].to_numpy(), seqs)))
        told = upcast(table, chunk.schema, schema, columns.names)
        parts.append(with_coding(told, ()))
    return pa.concat_tables(parts), left_out
