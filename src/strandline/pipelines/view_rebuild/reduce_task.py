"""A task that folds one range of keys: all its records, in order, with the fold of the store.

The fold has a scratch reservoir in memory without a limit: the driver limits the rows of a range so
that it fits. The result is staged as pages, as checksums of the visible content, or both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from xxhash import xxh3_64_digest

from strandline.config.memory_budget import MemoryShare
from strandline.errors import Corrupt
from strandline.ingest import staged_files, view_handoff_codec
from strandline.ingest.delivery_codec import StagedFile
from strandline.pipelines.lake_selection import objects_at
from strandline.pipelines.view_rebuild import range_checksums
from strandline.pipelines.view_rebuild.partitioning import partitioning_of
from strandline.pipelines.view_rebuild.range_checksums import KeyChecksum, RangeChecksum
from strandline.pipelines.view_rebuild.shuffle_task import RebuildContext, RunPiece, fetch
from strandline.platform.clock import SystemClock
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.reservoir import Reservoir
from strandline.views.lazy import load_kinds
from strandline.views.series import merge_states as series
from strandline.views.view import SPACES, EnumerableFold, FoldColumns, FoldContext

_BATCH_ROWS = 10_000
_UNLIMITED_BYTES = 1 << 40
_CHECKSUM_BYTES = 8


class FoldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A range of keys, with the locations of its records."""

    place: int
    first: bytes | None
    next: bytes | None
    pieces: tuple[RunPiece, ...]
    gone: tuple[bytes, ...]
    """By source: seqs that have left the log since it was read, as roaring bitmaps."""
    compares: bool
    replaces: bool

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


class ReduceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of folding a range."""

    state: bytes = b""
    files: tuple[StagedFile, ...] = ()
    """Its pages, numbered from space 0 on."""
    ranges: tuple[RangeChecksum, ...] = ()
    marks: str = ""
    """The object with the checksum of every part, as MessagePack after its own checksum."""
    parts: int = 0


def fold_range(
    work: RebuildContext, task: FoldTask, *, objects: Objects | None = None
) -> ReduceResult:
    """Run a task."""
    scratch = Reservoir(open_objects("memory://"), start_jobs=False)
    with closing(scratch), objects_at(work.place, objects) as lake:
        session = scratch.session()
        kind = load_kinds()[work.kind]
        fold: EnumerableFold = kind.fold(work.config, _environment())
        initial = series.initial_state(task.place) if work.kind == "series" else b""
        fold.load(session, SPACES, initial)
        for source, rows in _rows(work, lake, task):
            fold.apply(source, rows)
        folded = _checksums(work, lake, fold, task.first) if task.compares else ReduceResult()
        if not task.replaces:
            return folded
        state = fold.save(session)
        session.commit()
        files = _stage(work, lake, scratch)
        return msgspec.structs.replace(folded, state=state, files=files)


def read_marks(lake: Objects, key: str) -> list[list[KeyChecksum]]:
    """The checksums of the parts of each range, as written by a task."""
    data = lake.get(key)
    body = data[_CHECKSUM_BYTES:]
    if xxh3_64_digest(body) != data[:_CHECKSUM_BYTES]:
        raise Corrupt("the checksums of a task fail their own", path=f"{lake.name}/{key}")
    return msgspec.msgpack.decode(body, type=list[list[KeyChecksum]])


def _checksums(
    work: RebuildContext, lake: Objects, fold: EnumerableFold, first: bytes | None
) -> ReduceResult:
    ranges: list[RangeChecksum] = []
    marks: list[list[KeyChecksum]] = []
    parts = []
    for seen in fold.visible_items(
        None if first is None else partitioning_of(work.kind).name_prefix + first
    ):
        parts.append(seen)
        if len(parts) == range_checksums.RANGE_PARTS:
            ranges += range_checksums.checksums_of(parts)
            marks.append([range_checksums.key_checksum(each) for each in parts])
            parts = []
    if parts:
        ranges += range_checksums.checksums_of(parts)
        marks.append([range_checksums.key_checksum(each) for each in parts])
    key = work.key("marks")
    body = msgspec.msgpack.encode(marks)
    lake.put(key, xxh3_64_digest(body) + body)
    return ReduceResult(ranges=tuple(ranges), marks=key, parts=sum(each.count for each in ranges))


def _stage(work: RebuildContext, lake: Objects, scratch: Reservoir) -> tuple[StagedFile, ...]:
    first_page = SPACES << 32

    def pages() -> Iterator[tuple[int, bytes]]:
        for page_id in scratch.page_ids(first_page, first_page * 2):
            page = scratch.read(page_id)
            assert page is not None, "a page that was just listed"
            yield page_id - first_page, page

    # A repeated task uses new file names.
    names = work.key("pages").removesuffix(".arrow")
    batches = view_handoff_codec.batches_of(pages())
    return staged_files.stage(lake, lambda part: f"{names}-{part:05d}.arrow", batches)


def _rows(work: RebuildContext, lake: Objects, task: FoldTask) -> Iterator[tuple[int, FoldColumns]]:
    """The records of the range by source, in the order of their seqs."""
    recipe = partitioning_of(work.kind)
    for source in sorted({piece.source for piece in task.pieces}):
        pieces = [piece for piece in task.pieces if piece.source == source]
        pieces.sort(key=lambda piece: piece.first_seq)
        tables: Iterator[pa.Table] = (
            _rows_in_range(fetch(lake, piece), piece, task, source) for piece in pieces
        )
        if recipe.maps:  # sorted by key: all of them together give the order of seqs
            whole = pa.concat_tables(list(tables))
            tables = iter([whole.take(pc.sort_indices(whole["seq"]))])
        data_max = recipe.data_size_max(work.config, source)
        replacement = bytes(data_max + 1) if data_max < 1 << 30 else b""
        for table in tables:
            for first in range(0, len(table), _BATCH_ROWS):
                yield source, _as_rows(table.slice(first, _BATCH_ROWS), replacement)


def _rows_in_range(table: pa.Table, piece: RunPiece, task: FoldTask, source: int) -> pa.Table:
    """The rows of a piece that are in the range and still in the log."""
    if piece.first is not None and piece.last is not None:
        if task.first is not None and piece.first < task.first:
            table = table.filter(pc.greater_equal(table["key"], pa.scalar(task.first, pa.binary())))
        if task.next is not None and piece.last >= task.next:
            table = table.filter(pc.less(table["key"], pa.scalar(task.next, pa.binary())))
    if task.gone[source] and len(table):
        gone = pa.array(list(BitMap64.deserialize(task.gone[source])), pa.int64())
        table = table.filter(pc.invert(pc.is_in(table["seq"], value_set=gone)))
    return table


def _as_rows(table: pa.Table, replacement: bytes) -> FoldColumns:
    """Columns for a fold; data that was dropped is replaced by zeros that are too long to read."""
    data = table["data"].to_pylist()
    if table["data"].null_count:
        data = [replacement if each is None else each for each in data]
    return FoldColumns(
        table["seq"].to_pylist(),
        table["ts"].to_pylist(),
        table["key"].to_pylist(),
        (None,) * len(table),
        table["meta"].to_pylist(),
        data,
    )


def _environment() -> FoldContext:
    """The environment of a fold: memory, and no access to other records of the log."""
    return FoldContext(
        SystemClock(),
        MemoryShare(_UNLIMITED_BYTES),
        lambda _source, _seqs: [],
        None,
        _UNLIMITED_BYTES,
    )
