"""The state of a table: folds events in, keeps them in memory until they are in files.

    active      the newest rows                                 memtable.py
    passives    full memtables, to be written to files, oldest first
    segments    files, with the rows up to ``segments.flushed``  views/table/files/file_set.py
    hidden      seqs of deleted rows that are still in a file or in memory

A snapshot has every row once: if the file of a passive memtable is committed and ``settle`` has not
dropped the memtable yet, the snapshot reads the file.

**Saved** are the rows in memory, a page of columns for each chunk; the schema, counters, and the
number of the file set. Files are committed when they are written, independently of a save, so they
may be ahead of the saved state: rows up to ``flushed`` that are applied again are not added again,
and not even decoded where a file has a row for every seq. This makes it quick to open a large table
beside its writer.

**A file set is used once.** A fold that starts without state starts an empty file set with the next
number and drops the one before: files that come from another log are never mixed with these.

A delete record deletes all rows before it that fulfil the condition. Rows that files lack already
change nothing, so replaying a delete is harmless.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from strandline.config.view_config import TableConfig
from strandline.errors import Corrupt
from strandline.reservoir.session import Session
from strandline.schema import NO_SCHEMA, Schema
from strandline.views.memory_account import Account
from strandline.views.table import pages
from strandline.views.table.condition import Compare, Condition, fields_of
from strandline.views.table.control_records import MARK, change_of
from strandline.views.table.evaluate import mask
from strandline.views.table.files.file_set import TableFiles
from strandline.views.table.files.layout import OWN_ID
from strandline.views.table.memtable import ColumnChunk, MemTable
from strandline.views.table.rows import arrow_schema, misfits_among
from strandline.views.table.snapshot import SEQ, TS
from strandline.views.table.table_snapshot import PinnedTable
from strandline.views.view import FilesLost, FoldColumns, FoldContext

_RAM_MIN = 1024 * 1024


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """The saved state besides the rows."""

    number: int
    """The number of the file set."""
    applied: int
    schema: Schema
    deletes: int
    retained_us: int
    misfits: int
    pages: list[pages.PageInfo]
    next_page: int
    gone: bytes
    manifest: int = 0
    """The newest manifest of its files, 0 for none: a lake without it is another table's."""
    manifest_checksum: str = ""


class TableFold:
    """Rows of one table. Owned by one thread: the one that holds the host's lock."""

    def __init__(self, config: TableConfig, world: FoldContext) -> None:
        self.config = config
        self.schema = NO_SCHEMA
        self.deletes = 0
        """Deletes that were applied: when it rises, older rows were deleted."""
        self.retained_us = 0
        """Events before this time were deleted by retention."""
        self.active = MemTable(1)
        self.passives: tuple[MemTable, ...] = ()
        self.hidden = BitMap64()
        """Never changed in place: snapshots share it."""
        self.gone = BitMap64()
        """Deleted rows whose records are still on the log."""
        self.segments: TableFiles
        assert world.storage is not None
        self._world = world
        self._depot = world.storage
        self._number = 0
        self._misfits = 0
        self._applied = 0
        self._space = 0
        self._next_page = 1
        self._dead_pages: list[int] = []
        self._account = Account(world.share)
        self._ram_max = max(_RAM_MIN, world.share.limit // 8)

    def __del__(self) -> None:
        if hasattr(self, "segments"):
            self.segments.close()

    def load(self, session: Session, space: int, state: bytes) -> None:
        self._space = space
        if not state:
            self.segments = self._new_file_set()
            self.active = MemTable(1)
            return
        saved = msgspec.msgpack.decode(state, type=_State)
        self._number = saved.number
        self.segments = self._files(saved.number)
        self._load_files(saved)
        manifest = self.segments.manifest
        if manifest is not None and manifest.dropped:
            raise Corrupt("the files of a table were deleted", path=self._depot.name)
        self.schema, self.deletes = saved.schema, saved.deletes
        self.retained_us = saved.retained_us
        self._misfits, self._applied = saved.misfits, saved.applied
        self._next_page = saved.next_page
        self.gone = BitMap64.deserialize(saved.gone)
        self.hidden = BitMap64(self.segments.hidden)
        self.active = MemTable(self.segments.flushed + 1)
        for info in saved.pages:
            self._load_page(session, info)
        self.active.last_seq = max(self.active.last_seq, saved.applied)
        self._charge_memory()

    def apply(self, source: int, rows: FoldColumns) -> None:
        del source
        if not any(meta is not None and meta.startswith(MARK) for meta in rows.metas):
            self._add_rows(rows)
            self._applied = rows.seqs[-1]
            return
        for part, meta in _split_at_changes(rows):
            if meta is None:
                self._add_rows(part)
            else:
                self._apply_change(meta, part.data[0], part.seqs[0])
            self._applied = part.seqs[-1]

    def save(self, session: Session) -> bytes:
        for page in self._dead_pages:
            session.delete(self._page_id(page))
        self._dead_pages = []
        saved: list[pages.PageInfo] = []
        for memtable in (*self.passives, self.active):
            chunks = []
            for chunk in memtable.chunks():
                chunks.append(self._save_chunk(session, chunk))
                saved.append(pages.info(chunks[-1]))
            memtable.replace_chunks(chunks)
        if not self.hidden.issubset(self.segments.hidden):
            self.segments.hide(self.hidden)
        self._charge_memory()
        state = _State(
            number=self._number,
            applied=self._applied,
            schema=self.schema,
            deletes=self.deletes,
            retained_us=self.retained_us,
            misfits=self.misfits,
            pages=saved,
            next_page=self._next_page,
            gone=self.gone.serialize(),
            manifest=0 if self.segments.manifest is None else self.segments.manifest.number,
            manifest_checksum=self.segments.newest_checksum(),
        )
        return msgspec.msgpack.encode(state)

    @property
    def misfits(self) -> int:
        """Records that are not events of the table."""
        return self._misfits + sum(each.misfits for each in (*self.passives, self.active))

    @property
    def memory_rows(self) -> int:
        return sum(each.rows for each in (*self.passives, self.active))

    def snapshot(self, until: int | None = None) -> PinnedTable:
        """The table as it is now, or up to a seq."""
        files = self.segments.pin()
        chunks = [chunk for each in (*self.passives, self.active) for chunk in each.chunks()]
        return PinnedTable(
            name=self._depot.name,
            schema=self.schema,
            # A file is in the manifest before its passive memtable is dropped: read one of them.
            chunks=[chunk for chunk in chunks if chunk.last_seq > files.flushed],
            files=files,
            hidden=self.hidden,
            position=self._applied if until is None else min(until, self._applied),
            deletes=self.deletes,
            now=self._world.clock.monotonic,
        )

    def make_passive(self) -> None:
        """Make the active memtable passive: it gets no more rows."""
        if self.active.rows:
            self.passives += (self.active,)
            self.active = MemTable(self._applied + 1)

    def oldest_passive(self) -> MemTable | None:
        """The oldest passive memtable, the next to be written."""
        return self.passives[0] if self.passives else None

    def drop_passive(self, passive: MemTable, left_out: BitMap64) -> None:
        """Drop a passive memtable that is in a file now, without the deleted rows left out."""
        assert self.passives[:1] == (passive,)
        self.passives = self.passives[1:]
        self._misfits += passive.misfits
        self._dead_pages += [chunk.page for chunk in passive.chunks() if chunk.page]
        self.hidden = self.hidden - left_out
        self._charge_memory()

    def forget_hidden(self, seqs: BitMap64) -> None:
        """Forget hidden seqs that no file has any more."""
        self.hidden = self.hidden - seqs

    def oldest_us(self) -> int | None:
        """A lower bound of the times of all events; None without events."""
        times = [file.ts_min for file in self.segments.files]
        chunks = [chunk for each in (*self.passives, self.active) for chunk in each.chunks()]
        times += [pc.min(chunk.table[TS]).value for chunk in chunks]
        return min(times, default=None)

    @property
    def columns(self) -> pa.Schema:
        """The columns of every table, and the fields."""
        return arrow_schema(self.schema)

    def forget_trimmed(self, seqs: BitMap64) -> None:
        """Forget deleted rows whose records were removed from the log."""
        self.gone = self.gone - seqs

    def discard(self) -> None:
        """Delete the files: the table was dropped, or is folded again from the start."""
        if self.segments.exists():
            self._depot.trash(self._table_id(self._number))

    def digest(self) -> bytes:
        """A checksum of the rows: independent of their order, and of the files that have them."""
        total = 0
        view = self.snapshot()
        for batch in view.read(view.columns.names).batches():
            for row in batch.to_pylist():
                total += xxh3_128_intdigest(msgspec.msgpack.encode(row))
        header = msgspec.msgpack.encode((self.schema, self.deletes))
        return (total % 2**128 ^ xxh3_128_intdigest(header)).to_bytes(16, "little")

    def _add_rows(self, rows: FoldColumns) -> None:
        flushed = self.segments.flushed
        if rows.seqs[0] <= flushed:
            rows = self._unflushed_rows(rows, flushed)
            if not rows.seqs:
                return
        if not self.schema.version:
            self._misfits += len(rows.seqs)  # plain records before the first DEFINE
            return
        self.active.add(self.schema, rows, rows.seqs[-1])
        self._charge_memory()
        if self.active.rows >= self.config.flush_rows or self.active.ram >= self._ram_max:
            self._applied = rows.seqs[-1]
            self.make_passive()

    def _unflushed_rows(self, rows: FoldColumns, flushed: int) -> FoldColumns:
        """Rows that are not in a file; misfits among the others are counted again."""
        index = bisect.bisect_right(rows.seqs, flushed)
        known = _slice(rows, 0, index)
        if not self.segments.all_are_rows(known.seqs[0], known.seqs[-1]):
            self._misfits += misfits_among(self.schema, known)
        return _slice(rows, index, len(rows.seqs))

    def _apply_change(self, meta: bytes, data: bytes, seq: int) -> None:
        value = change_of(meta, data, seq, self._depot.name)
        if isinstance(value, Schema):
            self.schema = value
            return
        self.deletes += 1
        if isinstance(value, Compare) and value.field == TS and value.op == "<":
            self.retained_us = max(self.retained_us, int(value.value or 0))
        self._applied = seq - 1
        deleted = seqs_matching(self._deletable_rows(), value)
        if deleted:
            self.hidden = self.hidden | deleted
            self.gone = self.gone | deleted

    def _deletable_rows(self) -> PinnedTable:
        """The rows that a delete applies to; its condition is bound to the schema of its time.

        A file of a newer schema exists only when the log is folded again. It was written after the
        delete, so it lacks those rows.
        """
        view = self.snapshot()
        view.exclude_newer_files(self.schema.version)
        return view

    def _load_files(self, state: _State) -> None:
        """Read the newest manifest, which is the saved one or a later one."""
        try:
            self.segments.load(state.manifest, state.manifest_checksum)
        except Corrupt as error:
            name = self._depot.name
            lost = FilesLost(
                f"the lake does not have what table {name!r} has stored there: {error.reason}",
                path=f"{self._depot.objects.name}/{error.path}",
            )
            lost.add_note(
                "restore the newest objects of the lake, or fold the table again from the log: "
                f"strandline view rebuild table {name}"
            )
            raise lost from error

    def _load_page(self, session: Session, info: pages.PageInfo) -> None:
        if info.last_seq <= self.segments.flushed:
            self._dead_pages.append(info.page)
            return
        data = session.read(self._page_id(info.page))
        if data is None:
            raise Corrupt(
                f"page {info.page} of table {self._depot.name!r} is missing", path=self._depot.name
            )
        self.active.add_chunk(pages.decode(info, bytes(data)))

    def _save_chunk(self, session: Session, chunk: ColumnChunk) -> ColumnChunk:
        if chunk.page:
            return chunk
        chunk = msgspec.structs.replace(chunk, page=self._next_page)
        self._next_page += 1
        session.write(self._page_id(chunk.page), pages.encode(chunk))
        return chunk

    def _page_id(self, page: int) -> int:
        return self._space << 32 | page

    def _charge_memory(self) -> None:
        self._account.set_charge(sum(each.ram for each in (*self.passives, self.active)))

    def _new_file_set(self) -> TableFiles:
        """A file set that was never used."""
        while True:
            segments = self._files(self._number)
            if not segments.was_used():
                return segments
            if not segments.readonly and segments.exists():
                self._depot.trash(self._table_id(self._number))
            self._number += 1

    def _table_id(self, number: int) -> int:
        seed = msgspec.msgpack.encode((*self._depot.identity, number))
        return xxh3_64_intdigest(seed) | OWN_ID

    def _files(self, number: int) -> TableFiles:
        depot = self._depot
        return TableFiles(
            depot.objects,
            depot.disk,
            self._world.clock,
            depot.settings,
            store_id=depot.store_id,
            table_id=self._table_id(number),
            name=f"{self._depot.name}:table",
            epoch=depot.identity[1],
            term=depot.term or (lambda: None),
            readonly=depot.term is None,
            spool=depot.spool,
            share=depot.cache,
            confirm=depot.confirm,
            zone_rows=self.config.zone_rows,
            flush_rows=self.config.flush_rows,
        )


def seqs_matching(view: PinnedTable, where: Condition) -> BitMap64:
    """The rows of a snapshot that fulfil a condition."""
    seqs = BitMap64()
    columns = sorted({SEQ, *fields_of(where)})
    for batch in view.read(columns, where).batches():
        table = pa.Table.from_batches([batch])
        seqs.update(table[SEQ].to_numpy()[mask(where, table)].tolist())
    return seqs


def _split_at_changes(rows: FoldColumns) -> Iterator[tuple[FoldColumns, bytes | None]]:
    """Runs of events, and single changes with their meta."""
    marked = [meta is not None and meta.startswith(MARK) for meta in rows.metas]
    start = 0
    for index, is_change in enumerate((*marked, True)):
        if not is_change:
            continue
        if start < index:
            yield _slice(rows, start, index), None
        if index < len(marked):
            yield _slice(rows, index, index + 1), rows.metas[index]
        start = index + 1


def _slice(rows: FoldColumns, start: int, stop: int) -> FoldColumns:
    return FoldColumns._make(column[start:stop] for column in rows)
