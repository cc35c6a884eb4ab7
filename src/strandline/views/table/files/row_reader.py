"""Reads rows of a table's files: columns from the cache or decoded, without hidden rows.

``zone_pruning.py`` decides which zones are read. All rows that fulfil the condition are returned;
other rows of the same zones may be returned, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.schema import FieldType, Schema
from strandline.views.table.condition import Condition
from strandline.views.table.dictionary import DICTIONARY_TYPE, ENUM_TYPE, as_enum, with_dictionaries
from strandline.views.table.external_scan import FileRows
from strandline.views.table.files.cache import ColumnPart
from strandline.views.table.files.file_snapshot import PinnedFiles
from strandline.views.table.files.layout import columns_of
from strandline.views.table.files.zone_pruning import RowRequest, SelectedZones, select_zones
from strandline.views.table.snapshot import SEQ, ReadStatistics, Top
from strandline.views.table.upcast import upcast

__all__ = ["FileRead", "PinnedFiles", "read_files"]

_DECODE_ALL_RATIO = 0.25
"""From this fraction of a file's zones on, all are decoded and cached for the next query."""
_STEP_ZONES = 64
"""Zones that are read at once when rows are returned in batches."""
_TEXT_BYTES = 32
"""Approximate bytes of a string."""
_SEQ_MAX = 2**64 - 1


def read_files(
    pinned: PinnedFiles,
    hidden: BitMap64,
    schema: Schema,
    columns: Sequence[str],
    where: Condition | None = None,
    *,
    after: int = 0,
    until: int = _SEQ_MAX,
    top: Top | None = None,
    facts: ReadStatistics | None = None,
    now: Callable[[], float] = lambda: 0.0,
) -> FileRead:
    """Rows of pinned files with a seq above ``after``, up to ``until``, in the given schema.

    ``hidden`` rows are left out, and those that are hidden in the manifest.
    """
    facts = ReadStatistics(indexes=[], seconds={}) if facts is None else facts
    request = RowRequest(
        schema=schema,
        where=where,
        first_seq=max(after + 1, pinned.floor),
        last_seq=until,
        top=top,
        hidden=hidden if pinned.hidden <= hidden else hidden | pinned.hidden,
    )
    started = now()
    chosen = select_zones(pinned, request, facts)
    facts.seconds["choose zones"] = now() - started
    return FileRead(pinned, request, list(columns), chosen, facts, now)


class FileRead:
    """Rows of files. Owned by one thread."""

    def __init__(
        self,
        pinned: PinnedFiles,
        request: RowRequest,
        columns: list[str],
        chosen: list[SelectedZones],
        facts: ReadStatistics,
        now: Callable[[], float],
    ) -> None:
        self.facts = facts
        self._pinned = pinned  # held so that the files are not deleted
        self._request = request
        self._columns = columns
        self._chosen = chosen
        self._now = now
        self.coded = self._mostly_coded()
        """Text columns that are returned with dictionaries (``dictionary.py``)."""

    @property
    def rows_max(self) -> int:
        return sum(each.rows for each in self._chosen)

    @property
    def bytes_max(self) -> int:
        """Approximate bytes in memory."""
        return sum(self._width(name) * self.rows_max for name in self._columns)

    def tables(self) -> list[pa.Table]:
        """All rows, a table for each file."""
        return [self._table(each, whole=True) for each in self._chosen]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows, a few zones at a time; decoded columns are not cached."""
        for each in self._chosen:
            for start in range(0, len(each.zones), _STEP_ZONES):
                zones = each.zones[start : start + _STEP_ZONES]
                part = msgspec.structs.replace(
                    each, zones=zones, checked=np.intersect1d(zones, each.checked)
                )
                yield from self._table(part, whole=False).to_batches()

    def file_rows(self) -> list[FileRows]:
        """The files, for external engines: ``wanted`` has the rows to leave out."""
        return [_file_rows(each, self._request) for each in self._chosen]

    @property
    def request(self) -> RowRequest:
        return self._request

    def _table(self, chosen: SelectedZones, *, whole: bool) -> pa.Table:
        started = self._now()
        opened = chosen.opened
        stored = [name for name in self._columns if name in opened.columns] or [SEQ]
        needed = [SEQ, *stored] if len(chosen.checked) and SEQ not in stored else stored
        table = pa.table(self._read(chosen, needed, whole=whole))
        if len(chosen.checked):
            table = table.filter(pa.array(self._visible(table[SEQ])))
        table = self._in_schema(table, chosen.schema)
        self.facts.rows += table.num_rows
        seconds_before = self.facts.seconds.get("read files", 0.0)
        self.facts.seconds["read files"] = seconds_before + self._now() - started
        return table

    def _read(
        self, chosen: SelectedZones, columns: Sequence[str], *, whole: bool
    ) -> dict[str, pa.ChunkedArray]:
        """Columns of zones, in order, from the cache where possible."""
        opened, zones = chosen.opened, chosen.zones
        content, cache = opened.file.content, self._pinned.cache
        parts = {name: cache.parts((content, name)) for name in columns}
        zones_missing = _missing_zones(parts, zones)
        if len(zones_missing):
            missing = [name for name in columns if len(_missing_zones({name: parts[name]}, zones))]
            if whole and len(zones) >= opened.zones * _DECODE_ALL_RATIO:
                all_zones = np.arange(opened.zones)
                zones_missing = (
                    all_zones if cache.fits(opened.ram_of(missing, all_zones)) else zones_missing
                )
            with cache.exclusive((content, tuple(missing), zones_missing.tobytes())):
                parts |= {name: cache.parts((content, name)) for name in missing}
                missing = [
                    name for name in missing if len(_missing_zones({name: parts[name]}, zones))
                ]
                for name, part in self._decode(chosen, missing, zones_missing):
                    parts[name].insert(0, part)
                    if whole:
                        cache.insert((content, name), part)
        return {name: _assemble(parts[name], zones) for name in columns}

    def _decode(
        self, chosen: SelectedZones, columns: list[str], zones: np.ndarray
    ) -> Iterator[tuple[str, ColumnPart]]:
        if not columns:
            return
        opened, kinds = chosen.opened, chosen.schema.columns()
        table = opened.read(columns, zones)
        self.facts.bytes_read += opened.size_of(columns, zones)
        sizes = opened.starts[zones + 1] - opened.starts[zones]
        for name in columns:
            yield name, ColumnPart(_in_memory(table[name], kinds.get(name)), zones, sizes)

    def _visible(self, seqs: pa.ChunkedArray) -> np.ndarray:
        """A mask of the visible rows."""
        numbers = seqs.to_numpy()
        first, last = np.uint64(self._request.first_seq), np.uint64(self._request.last_seq)
        keep: np.ndarray = (numbers >= first) & (numbers <= last)
        low, high = int(numbers.min()), int(numbers.max())
        deleted = self._request.hidden & BitMap64(range(low, high + 1))
        if deleted:
            seqs_deleted = np.fromiter(deleted, dtype="<u8", count=len(deleted))
            keep &= ~np.isin(numbers, seqs_deleted)
        return keep

    def _in_schema(self, table: pa.Table, written: Schema) -> pa.Table:
        """Rows in the requested schema with the requested columns."""
        schema = self._request.schema
        if written.fields != schema.fields:
            table = upcast(table, written, schema, self._columns)
        return with_dictionaries(table.select(self._columns), self.coded)

    def _mostly_coded(self) -> frozenset[str]:
        """Enums, and text that has a dictionary in the files of most rows: to build one for the
        other rows costs less than to convert all to text."""
        coded = {name for name in self._columns if self._rows_coded(name) > self.rows_max // 2}
        return frozenset(coded | self._enums)

    def _rows_coded(self, name: str) -> int:
        return sum(each.rows for each in self._chosen if name in each.opened.coded)

    @cached_property
    def _enums(self) -> set[str]:
        kinds = self._request.schema.columns()
        return {name for name in self._columns if name in kinds and kinds[name].name == "enum"}

    def _width(self, name: str) -> int:
        """Approximate bytes of a value in memory."""
        kind = ENUM_TYPE if name in self._enums else self._types.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.index_type
        elif name in self.coded:
            kind = DICTIONARY_TYPE.index_type
        return _TEXT_BYTES if pa.types.is_string(kind) else max(1, int(kind.bit_width) // 8)

    @cached_property
    def _types(self) -> pa.Schema:
        return columns_of(self._request.schema)


def _file_rows(chosen: SelectedZones, request: RowRequest) -> FileRows:
    file = chosen.opened.file
    is_cut = file.first_seq < request.first_seq or file.last_seq > request.last_seq
    hidden = request.hidden.range_cardinality(file.first_seq, file.last_seq + 1)
    return FileRows(
        lake=chosen.opened.lake,
        key=chosen.opened.key,
        schema=chosen.schema,
        first_seq=file.first_seq,
        last_seq=file.last_seq,
        is_cut=is_cut or hidden > 0,
        rows=chosen.rows,
        size=file.size,
    )


def _in_memory(column: pa.ChunkedArray, kind: FieldType | None) -> pa.ChunkedArray:
    """A decoded column as it is cached: in one chunk if that is cheap, as it is faster to read."""
    if kind is not None and kind.name == "enum":
        return as_enum(column, kind.variants)
    if pa.types.is_primitive(column.type) and column.num_chunks > 1:
        return pa.chunked_array([column.combine_chunks()])
    return column


def _missing_zones(parts: dict[str, list[ColumnPart]], zones: np.ndarray) -> np.ndarray:
    """The zones that some column lacks."""
    zones_missing = np.zeros(len(zones), dtype=bool)
    for column_parts in parts.values():
        present = np.zeros(len(zones), dtype=bool)
        for part in column_parts:
            present |= part.has(zones)
        zones_missing |= ~present
    return zones[zones_missing]


def _assemble(parts: list[ColumnPart], zones: np.ndarray) -> pa.ChunkedArray:
    """The values of a column in zones, in order, from parts that together have all zones."""
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
