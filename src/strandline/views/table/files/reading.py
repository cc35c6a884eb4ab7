"""Reads rows of a table's files: zones ruled out, columns from memory or decoded, hidden rows gone.

    files     those whose seqs are not wanted are left out, by what the manifest tells
    zones     those that the indexes and the bounds of seqs rule out
    columns   those that were asked for, and seq where rows must be told apart
    rows      hidden ones, those below the floor and outside of the wanted seqs are left out

Everything that fulfils the condition is there; what does not may be, when it is in the same zone.

``top`` is used only where every row counts: a condition, or a bound on seqs, could rule out just
the rows for which a zone was chosen. Hidden rows are allowed for by looking so many rows further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.env.objects import Objects
from strandline.lake.entry import LakeFile
from strandline.lake.manifest import Manifest
from strandline.schema import NO_SCHEMA, Schema
from strandline.views.table.condition import Condition
from strandline.views.table.files import sides
from strandline.views.table.files.cache import ColumnCache, Part
from strandline.views.table.files.coding import with_coding
from strandline.views.table.files.older import fitted
from strandline.views.table.files.opened import OpenFile
from strandline.views.table.snapshot import SEQ, Facts, Top
from strandline.views.table.upcast import upcast

_WHOLE_SHARE = 0.25
"""From this share of a file's zones on all of them are decoded, and kept for the next question."""
_STEP_ZONES = 64
"""Zones that are read at once where not all is read."""
_EVER = 2**64 - 1


class Pinned:
    """The files of a table at one moment, which stay as long as this is held. Safe from many
    threads.

    Let go by ``close``, or with the last reference to it.
    """

    def __init__(
        self,
        objects: Objects,
        manifest: Manifest | None,
        cache: ColumnCache,
        release: Callable[[], None],
    ) -> None:
        self.manifest = manifest
        self.files: tuple[LakeFile, ...] = manifest.files if manifest is not None else ()
        self.floor = manifest.floor if manifest is not None else 1
        self.hidden: BitMap64 = BitMap64()
        if manifest is not None and manifest.deleted is not None:
            self.hidden = manifest.deleted
        self.cache = cache
        self._schemas = {each.version: each for each in manifest.schemas} if manifest else {}
        self._objects = objects
        self._release: Callable[[], None] | None = release

    def close(self) -> None:
        """The files may go. Closing twice is fine."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        self.close()

    def schema_of(self, file: LakeFile) -> Schema:
        return self._schemas.get(file.schema_version, NO_SCHEMA)

    def open(self, file: LakeFile) -> OpenFile:
        """A file, from the cache if it is open already."""
        assert self.manifest is not None
        table_id = self.manifest.topic_id
        return self.cache.file(file.content, lambda: OpenFile(self._objects, table_id, file))


class _Chosen(msgspec.Struct, frozen=True):
    """Zones of one file that are to be read."""

    opened: OpenFile
    schema: Schema
    zones: np.ndarray
    checked: np.ndarray
    """Zones of which rows must be left out, among them."""

    @property
    def rows(self) -> int:
        starts = self.opened.starts
        return int((starts[self.zones + 1] - starts[self.zones]).sum())


def file_reading(
    pinned: Pinned,
    hidden: BitMap64,
    schema: Schema,
    columns: Sequence[str],
    where: Condition | None = None,
    *,
    after: int = 0,
    until: int = _EVER,
    top: Top | None = None,
    facts: Facts | None = None,
    now: Callable[[], float] = lambda: 0.0,
) -> FileReading:
    """Rows of pinned files, told in a schema: with a seq above ``after``, up to ``until``."""
    if not pinned.hidden <= hidden:
        hidden = hidden | pinned.hidden
    if facts is None:
        facts = Facts(indexes=[], seconds={})
    started = now()
    first = max(after + 1, pinned.floor)
    choice = _Choice(pinned, hidden, schema, where, first, until, top, facts)
    chosen = [each for file in pinned.files if (each := choice.of(file)) is not None]
    facts.seconds["choose zones"] = now() - started
    return FileReading(pinned, hidden, schema, list(columns), chosen, (first, until), facts, now)


class _Choice:
    """Decides on zones. Owned by one thread."""

    def __init__(
        self,
        pinned: Pinned,
        hidden: BitMap64,
        schema: Schema,
        where: Condition | None,
        first: int,
        until: int,
        top: Top | None,
        facts: Facts,
    ) -> None:
        self._pinned = pinned
        self._hidden = hidden
        self._schema = schema
        self._where = where
        self._first = first
        self._until = until
        self._top = top
        self._facts = facts

    def of(self, file: LakeFile) -> _Chosen | None:
        """What to read of a file; None when there is nothing."""
        if not file.rows:
            return None
        self._facts.files += 1
        if file.last_seq < self._first or file.first_seq > self._until:
            return None
        opened = self._pinned.open(file)
        written = self._pinned.schema_of(file)
        self._facts.zones += opened.zones
        keep = self._pruned(opened, written)
        hidden = self._hidden.range_cardinality(file.first_seq, file.last_seq + 1)
        cut = file.first_seq < self._first or file.last_seq > self._until
        checked = np.zeros(opened.zones, dtype=bool)
        if cut or hidden:
            lows, highs = opened.seq_bounds()
            keep &= (highs >= np.uint64(self._first)) & (lows <= np.uint64(self._until))
            checked = (lows < np.uint64(self._first)) | (highs > np.uint64(self._until))
            if hidden:
                checked |= _meets(self._hidden, lows, highs)
        if not cut:
            keep &= self._best(opened, written, keep, hidden)
        self._pinned.cache.recount(file.content)
        if not keep.any():
            return None
        zones = np.flatnonzero(keep)
        self._facts.files_kept += 1
        self._facts.zones_kept += len(zones)
        return _Chosen(opened, written, zones, np.flatnonzero(keep & checked))

    def _pruned(self, opened: OpenFile, written: Schema) -> np.ndarray:
        """Zones that may hold rows which fulfil the condition."""
        where = fitted(self._where, written, self._schema)
        if where is None or opened.indexes is None:
            return np.ones(opened.zones, dtype=bool)
        try:
            keep, used = opened.indexes.prune(where)
        except sides.UNFIT as error:
            opened.give_up_indexes(error)
            return np.ones(opened.zones, dtype=bool)
        if not keep.all():
            self._facts.indexes += [each for each in used if each not in self._facts.indexes]
        return np.array(keep, dtype=bool)

    def _best(
        self, opened: OpenFile, written: Schema, among: np.ndarray, hidden: int
    ) -> np.ndarray:
        """Zones that may hold one of the first rows by a column."""
        top = self._top
        everywhere = np.ones(opened.zones, dtype=bool)
        if top is None or self._where is not None or opened.indexes is None:
            return everywhere
        if written.fields.get(top.field) != self._schema.fields.get(top.field):
            return everywhere
        try:
            keep = opened.indexes.top(msgspec.structs.replace(top, rows=top.rows + hidden), among)
        except sides.UNFIT as error:
            opened.give_up_indexes(error)
            return everywhere
        if not keep.all():
            self._facts.indexes += [f"{top.field}: ladder"]
        return keep


def _meets(hidden: BitMap64, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """The zones in whose range of seqs there is a hidden one."""
    pairs = zip(lows.tolist(), highs.tolist(), strict=True)
    return np.array([hidden.range_cardinality(low, high + 1) > 0 for low, high in pairs], bool)


class FileReading:
    """Rows of files. Owned by one thread."""

    def __init__(
        self,
        pinned: Pinned,
        hidden: BitMap64,
        schema: Schema,
        columns: list[str],
        chosen: list[_Chosen],
        seqs: tuple[int, int],
        facts: Facts,
        now: Callable[[], float],
    ) -> None:
        self.facts = facts
        self._pinned = pinned  # held, so that files stay
        self._hidden = hidden
        self._schema = schema
        self._columns = columns
        self._chosen = chosen
        self._seqs = seqs
        self._now = now
        self.coded = self._coded_everywhere()
        """Columns of text that come with dictionaries (``coding.py``)."""

    @property
    def rows_max(self) -> int:
        return sum(each.rows for each in self._chosen)

    def tables(self) -> list[pa.Table]:
        """All rows, a table for each file."""
        return [self._table(each, whole=True) for each in self._chosen]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same, a few zones at a time; nothing is kept that was not here before."""
        for each in self._chosen:
            for start in range(0, len(each.zones), _STEP_ZONES):
                zones = each.zones[start : start + _STEP_ZONES]
                part = msgspec.structs.replace(
                    each, zones=zones, checked=np.intersect1d(zones, each.checked)
                )
                yield from self._table(part, whole=False).to_batches()

    def _table(self, chosen: _Chosen, *, whole: bool) -> pa.Table:
        started = self._now()
        opened = chosen.opened
        wanted = [name for name in self._columns if name in opened.columns] or [SEQ]
        needed = [SEQ, *wanted] if len(chosen.checked) and SEQ not in wanted else wanted
        table = pa.table(self._read(opened, needed, chosen.zones, whole=whole))
        if len(chosen.checked):
            table = table.filter(pa.array(self._seen(table[SEQ])))
        table = self._told(table, chosen.schema)
        self.facts.rows += table.num_rows
        spent = self.facts.seconds.get("read files", 0.0)
        self.facts.seconds["read files"] = spent + self._now() - started
        return table

    def _read(
        self, opened: OpenFile, columns: Sequence[str], zones: np.ndarray, *, whole: bool
    ) -> dict[str, pa.ChunkedArray]:
        """Columns of zones, in order, from memory as far as they are there."""
        content, cache = opened.file.content, self._pinned.cache
        parts = {name: cache.parts((content, name)) for name in columns}
        lacking = _lacking(parts, zones)
        if len(lacking):
            missing = [name for name in columns if len(_lacking({name: parts[name]}, zones))]
            if whole and len(zones) >= opened.zones * _WHOLE_SHARE:
                every = np.arange(opened.zones)
                lacking = every if cache.fits(opened.ram_of(missing, every)) else lacking
            with cache.flight((content, tuple(missing), lacking.tobytes())):
                parts |= {name: cache.parts((content, name)) for name in missing}
                missing = [name for name in missing if len(_lacking({name: parts[name]}, zones))]
                for name, part in self._decoded(opened, missing, lacking):
                    parts[name].insert(0, part)
                    if whole:
                        cache.keep((content, name), part)
        return {name: _assembled(parts[name], zones) for name in columns}

    def _decoded(
        self, opened: OpenFile, columns: list[str], zones: np.ndarray
    ) -> Iterator[tuple[str, Part]]:
        if not columns:
            return
        table = opened.read(columns, zones)
        self.facts.bytes_read += opened.size_of(columns, zones)
        sizes = opened.starts[zones + 1] - opened.starts[zones]
        for name in columns:
            yield name, Part(table[name], zones, sizes)

    def _seen(self, seqs: pa.ChunkedArray) -> np.ndarray:
        """Which rows are to be seen."""
        numbers = seqs.to_numpy()
        first, until = self._seqs
        keep: np.ndarray = (numbers >= np.uint64(first)) & (numbers <= np.uint64(until))
        low, high = int(numbers.min()), int(numbers.max())
        some = self._hidden & BitMap64(range(low, high + 1))
        if some:
            gone = np.fromiter(some, dtype="<u8", count=len(some))
            keep &= ~np.isin(numbers, gone)
        return keep

    def _told(self, table: pa.Table, written: Schema) -> pa.Table:
        """Rows in the schema and with the columns that were asked for."""
        if written.fields != self._schema.fields:
            table = upcast(table, written, self._schema, self._columns)
        return with_coding(table.select(self._columns), self.coded)

    def _coded_everywhere(self) -> frozenset[str]:
        """Text that has a dictionary in every file that has it."""
        having = {
            name: [
                name in each.opened.coded for each in self._chosen if name in each.opened.columns
            ]
            for name in self._columns
        }
        return frozenset(name for name, coded in having.items() if coded and all(coded))


def _lacking(parts: dict[str, list[Part]], zones: np.ndarray) -> np.ndarray:
    """The zones of which some column is not there."""
    lacking = np.zeros(len(zones), dtype=bool)
    for some in parts.values():
        there = np.zeros(len(zones), dtype=bool)
        for part in some:
            there |= part.has(zones)
        lacking |= ~there
    return zones[lacking]


def _assembled(parts: list[Part], zones: np.ndarray) -> pa.ChunkedArray:
    """The values of a column in zones, in order, out of parts which together have them."""
    for part in parts:
        if part.has(zones).all():
            return pa.chunked_array(part.slices(zones), part.column.type)
    owners = np.full(len(zones), -1)
    for number, part in enumerate(parts):
        owners[part.has(zones) & (owners < 0)] = number
    chunks: list[pa.Array] = []
    for run in np.split(np.arange(len(zones)), np.flatnonzero(np.diff(owners)) + 1):
        chunks += parts[owners[run[0]]].slices(zones[run])
    return pa.chunked_array(chunks, parts[0].column.type)
