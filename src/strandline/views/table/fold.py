"""The state of a table: folds events in, keeps them in memory until they are in files.

    active      rows that came last                             memtable.py
    passives    older ones, full, each on its way into a file, oldest first
    segments    files, with the rows up to ``segments.flushed``  views/table/files/file_set.py
    hidden      seqs that were deleted though a file or memory has them

Every row is seen once: when a passive's file is committed and ``settle`` has not taken the passive
away yet, a snapshot takes the file.

**What is saved**: rows in memory, a page of columns for each chunk; schema, counters, and which
files are the table's. Files are committed on their own, when they are written, so they may be ahead
of what is saved: rows up to ``flushed`` that come again are not taken again, and not looked at
where a file has a row for every seq: whoever opens a large table beside its writer is quick then.

**A file set is used once.** It begins empty whenever the fold begins with nothing, under the next
number, and the one before is dropped: files of a log that was folded in before, and is another one
now, never meet this one.

Deletes follow from the record: all rows before it that fulfil the condition. Where files already
lack some of them nothing changes, so replaying a delete is harmless.
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
from strandline.views.table.files.file_set import Segments
from strandline.views.table.files.layout import OWN_ID
from strandline.views.table.memtable import Chunk, MemTable
from strandline.views.table.rows import arrow_schema, misfits_among
from strandline.views.table.snapshot import SEQ, TS
from strandline.views.table.table_snapshot import PinnedTable
from strandline.views.view import FilesLost, Rows, World

_RAM_MIN = 1024 * 1024


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """What is saved besides the rows."""

    number: int
    """Which set of files."""
    applied: int
    schema: Schema
    deletes: int
    retained_us: int
    misfits: int
    pages: list[pages.PageInfo]
    next_page: int
    gone: bytes
    manifest: int = 0
    """The newest manifest of its files, 0 for none: a lake that lacks it is not the table's."""
    manifest_checksum: str = ""


class TableFold:
    """Rows of one table. Owned by one thread: whoever holds the host's lock."""

    def __init__(self, config: TableConfig, world: World) -> None:
        self.config = config
        self.schema = NO_SCHEMA
        self.deletes = 0
        """Deletes that were folded in: when it rises, rows of the past have gone."""
        self.retained_us = 0
        """Events before this were deleted for their age."""
        self.active = MemTable(1)
        self.passives: tuple[MemTable, ...] = ()
        self.hidden = BitMap64()
        """Never changed in place: snapshots have it."""
        self.gone = BitMap64()
        """Deleted rows whose records are still on the log."""
        self.segments: Segments
        assert world.depot is not None
        self._world = world
        self._depot = world.depot
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
            self.segments = self._begin_files()
            self.active = MemTable(1)
            return
        found = msgspec.msgpack.decode(state, type=_State)
        self._number = found.number
        self.segments = self._files(found.number)
        self._load_files(found)
        manifest = self.segments.manifest
        if manifest is not None and manifest.dropped:
            raise Corrupt("the files of a table were thrown away", path=self._depot.name)
        self.schema, self.deletes = found.schema, found.deletes
        self.retained_us = found.retained_us
        self._misfits, self._applied = found.misfits, found.applied
        self._next_page = found.next_page
        self.gone = BitMap64.deserialize(found.gone)
        self.hidden = BitMap64(self.segments.hidden)
        self.active = MemTable(self.segments.flushed + 1)
        for info in found.pages:
            self._adopt(session, info)
        self.active.last_seq = max(self.active.last_seq, found.applied)
        self._count()

    def apply(self, source: int, rows: Rows) -> None:
        del source
        if not any(meta is not None and meta.startswith(MARK) for meta in rows.metas):
            self._take(rows)
            self._applied = rows.seqs[-1]
            return
        for part, meta in _parts(rows):
            if meta is None:
                self._take(part)
            else:
                self._change(meta, part.data[0], part.seqs[0])
            self._applied = part.seqs[-1]

    def save(self, session: Session) -> bytes:
        for page in self._dead_pages:
            session.delete(self._page_id(page))
        self._dead_pages = []
        saved: list[pages.PageInfo] = []
        for memtable in (*self.passives, self.active):
            kept = []
            for chunk in memtable.chunks():
                kept.append(self._saved(session, chunk))
                saved.append(pages.info(kept[-1]))
            memtable.paged(kept)
        if not self.hidden.issubset(self.segments.hidden):
            self.segments.hide(self.hidden)
        self._count()
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
        """Records that were no event of the table."""
        return self._misfits + sum(each.misfits for each in (*self.passives, self.active))

    @property
    def memory_rows(self) -> int:
        return sum(each.rows for each in (*self.passives, self.active))

    def snapshot(self, until: int | None = None) -> PinnedTable:
        """The table as it is now, or as far as a seq."""
        files = self.segments.pin()
        chunks = [chunk for each in (*self.passives, self.active) for chunk in each.chunks()]
        return PinnedTable(
            name=self._depot.name,
            schema=self.schema,
            # A file is known before its passive is taken away.
            chunks=[chunk for chunk in chunks if chunk.last_seq > files.flushed],
            files=files,
            hidden=self.hidden,
            position=self._applied if until is None else min(until, self._applied),
            deletes=self.deletes,
            now=self._world.clock.monotonic,
        )

    def swap(self) -> None:
        """What is in memory becomes passive: it takes no more rows."""
        if self.active.rows:
            self.passives += (self.active,)
            self.active = MemTable(self._applied + 1)

    def sealed(self) -> MemTable | None:
        """The oldest passive, next to become a file."""
        return self.passives[0] if self.passives else None

    def settle(self, passive: MemTable, left_out: BitMap64) -> None:
        """A passive is in a file, but for the rows that were left out: they are no more."""
        assert self.passives[:1] == (passive,)
        self.passives = self.passives[1:]
        self._misfits += passive.misfits
        self._dead_pages += [chunk.page for chunk in passive.chunks() if chunk.page]
        self.hidden = self.hidden - left_out
        self._count()

    def purge(self, seqs: BitMap64) -> None:
        """No file has these any more."""
        self.hidden = self.hidden - seqs

    def oldest_us(self) -> int | None:
        """A time that no event is older than, None when there is none."""
        found = [file.ts_min for file in self.segments.files]
        chunks = [chunk for each in (*self.passives, self.active) for chunk in each.chunks()]
        found += [pc.min(chunk.table[TS]).value for chunk in chunks]
        return min(found, default=None)

    @property
    def columns(self) -> pa.Schema:
        """Those of every table, and the fields."""
        return arrow_schema(self.schema)

    def forget_gone(self, seqs: BitMap64) -> None:
        """Their records have left the log."""
        self.gone = self.gone - seqs

    def discard(self) -> None:
        """The table is no more, or begins anew: its files are nobody's."""
        if self.segments.exists():
            self._depot.trash(self._table_id(self._number))

    def digest(self) -> bytes:
        """A sum over rows: it does not depend on their order, nor on where they are."""
        total = 0
        view = self.snapshot()
        for batch in view.read(view.columns.names).batches():
            for row in batch.to_pylist():
                total += xxh3_128_intdigest(msgspec.msgpack.encode(row))
        seen = msgspec.msgpack.encode((self.schema, self.deletes))
        return (total % 2**128 ^ xxh3_128_intdigest(seen)).to_bytes(16, "little")

    def _take(self, rows: Rows) -> None:
        flushed = self.segments.flushed
        if rows.seqs[0] <= flushed:
            rows = self._new_ones(rows, flushed)
            if not rows.seqs:
                return
        if not self.schema.version:
            self._misfits += len(rows.seqs)  # plain records from before the first DEFINE
            return
        self.active.add(self.schema, rows, rows.seqs[-1])
        self._count()
        if self.active.rows >= self.config.flush_rows or self.active.ram >= self._ram_max:
            self._applied = rows.seqs[-1]
            self.swap()

    def _new_ones(self, rows: Rows, flushed: int) -> Rows:
        """Rows that are in no file; among the others those that are no events are counted again."""
        place = bisect.bisect_right(rows.seqs, flushed)
        known = _cut(rows, 0, place)
        if not self.segments.all_are_rows(known.seqs[0], known.seqs[-1]):
            self._misfits += misfits_among(self.schema, known)
        return _cut(rows, place, len(rows.seqs))

    def _change(self, meta: bytes, data: bytes, seq: int) -> None:
        value = change_of(meta, data, seq, self._depot.name)
        if isinstance(value, Schema):
            self.schema = value
            return
        self.deletes += 1
        if isinstance(value, Compare) and value.field == TS and value.op == "<":
            self.retained_us = max(self.retained_us, int(value.value or 0))
        self._applied = seq - 1
        found = seqs_matching(self._before_change(), value)
        if found:
            self.hidden = self.hidden | found
            self.gone = self.gone | found

    def _before_change(self) -> PinnedTable:
        """What a delete is asked of, whose condition is bound to the schema of its time.

        A file of a newer schema is there only when the log is folded in again. It was written when
        the delete was known, so it lacks those rows.
        """
        view = self.snapshot()
        view.leave_out_newer(self.schema.version)
        return view

    def _load_files(self, found: _State) -> None:
        """Read the newest manifest, which is the one that was saved or a later one."""
        try:
            self.segments.load(found.manifest, found.manifest_checksum)
        except Corrupt as error:
            name = self._depot.name
            lost = FilesLost(
                f"the lake does not have what table {name!r} has stored there: {error.reason}",
                path=f"{self._depot.objects.name}/{error.path}",
            )
            lost.add_note(
                "bring back the newest objects of the lake, or fold the table again from the log: "
                f"strandline view rebuild table {name}"
            )
            raise lost from error

    def _adopt(self, session: Session, info: pages.PageInfo) -> None:
        if info.last_seq <= self.segments.flushed:
            self._dead_pages.append(info.page)
            return
        data = session.read(self._page_id(info.page))
        if data is None:
            raise Corrupt(
                f"page {info.page} of table {self._depot.name!r} is missing", path=self._depot.name
            )
        self.active.adopt(pages.decode(info, bytes(data)))

    def _saved(self, session: Session, chunk: Chunk) -> Chunk:
        if chunk.page:
            return chunk
        chunk = msgspec.structs.replace(chunk, page=self._next_page)
        self._next_page += 1
        session.write(self._page_id(chunk.page), pages.encode(chunk))
        return chunk

    def _page_id(self, page: int) -> int:
        return self._space << 32 | page

    def _count(self) -> None:
        self._account.settle(sum(each.ram for each in (*self.passives, self.active)))

    def _begin_files(self) -> Segments:
        """A set of files that nobody ever used."""
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

    def _files(self, number: int) -> Segments:
        depot = self._depot
        return Segments(
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
    found = BitMap64()
    columns = sorted({SEQ, *fields_of(where)})
    for batch in view.read(columns, where).batches():
        table = pa.Table.from_batches([batch])
        found.update(table[SEQ].to_numpy()[mask(where, table)].tolist())
    return found


def _parts(rows: Rows) -> Iterator[tuple[Rows, bytes | None]]:
    """Runs of events, and changes one by one with their meta."""
    marked = [meta is not None and meta.startswith(MARK) for meta in rows.metas]
    start = 0
    for place, is_change in enumerate((*marked, True)):
        if not is_change:
            continue
        if start < place:
            yield _cut(rows, start, place), None
        if place < len(marked):
            yield _cut(rows, place, place + 1), rows.metas[place]
        start = place + 1


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    return Rows._make(column[start:stop] for column in rows)
