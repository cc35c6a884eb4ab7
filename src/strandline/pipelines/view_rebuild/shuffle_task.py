"""A task that reads a part of the log, and writes what a fold needs of it, sorted by key.

A run is one object: consecutive pieces, each an Arrow stream with some thousand rows. The task
returns the offset of each piece, and its first and last key; so the fold of a range of keys fetches
only the pieces that reach into it. Records for all ranges are in pieces of their own, in the order
of their seqs.

Of a key-value topic the task writes only the newest versions of a key that the history keeps, and
returns only the seqs of the others: they are dead, whatever the rest of the log has, because newer
versions of their key exist.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from xxhash import xxh3_64_hexdigest

from strandline.config.settings import MIB
from strandline.config.view_config import ViewConfigs
from strandline.errors import Corrupt
from strandline.ingest.delivery_codec import STAGED
from strandline.pipelines.lake_selection import LakeLocation, objects_at
from strandline.pipelines.splits import split_reader
from strandline.pipelines.splits.split_reader import WORKER_STORES, Part, ThreadStores
from strandline.pipelines.view_rebuild.partitioning import COLUMNS, partitioning_of
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects

PIECE_ROWS = 4096
RUN_BYTES = 64 * MIB
"""Rows that are sorted together, before they are compressed."""
_WRITING = pa.ipc.IpcWriteOptions(compression="lz4")


class RebuildContext(msgspec.Struct, frozen=True, kw_only=True):
    """Common parameters of the tasks of a rebuild."""

    place: LakeLocation
    attempt: str
    kind: str
    views: ViewConfigs
    """The view options of the topic."""
    strangers: tuple[tuple[bytes, ...], ...]
    """By source: the meta prefixes of records of other views."""
    piece_rows: int = PIECE_ROWS

    @property
    def config(self) -> object:
        return getattr(self.views, self.kind)

    def key(self, what: str) -> str:
        """A new unique name for an object of this rebuild."""
        return f"{STAGED}/rebuild-{self.attempt}-{what}-{OsDisk().random_id().hex()}.arrow"


class GatherTask(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the log."""

    source: int
    parts: tuple[Part, ...]
    rows: int
    """Approximate number of rows."""


class RunPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a run, either in the order of their keys or for every range."""

    source: int
    key: str
    offset: int
    size: int
    rows: int
    first_seq: int
    first: bytes | None
    last: bytes | None
    """Keys; None when the rows are for every range."""
    checksum: str


class ShuffleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task."""

    pieces: tuple[RunPiece, ...]
    seqs: bytes
    """The records that were read, as a roaring bitmap."""
    dead: bytes = b""
    """Versions beyond the history, as a roaring bitmap."""


def shuffle(
    work: RebuildContext,
    task: GatherTask,
    *,
    objects: Objects | None = None,
    threads: ThreadStores | None = None,
) -> ShuffleResult:
    """Run a task."""
    stores = threads.of_this_thread() if threads else WORKER_STORES
    pieces: list[RunPiece] = []
    dead = BitMap64()
    seqs = BitMap64()
    with objects_at(work.place, objects) as lake:
        for table in _tables(split_reader.read(task.parts, COLUMNS, (), stores=stores)):
            seqs.update(table["seq"].to_numpy().astype("<u8"))
            pieces += _write_run(work, lake, task.source, table, dead)
    dead_seqs = dead.serialize() if dead else b""
    return ShuffleResult(pieces=tuple(pieces), seqs=seqs.serialize(), dead=dead_seqs)


def fetch(lake: Objects, piece: RunPiece) -> pa.Table:
    """The rows of a piece, as they were written."""
    data = lake.get_range(piece.key, piece.offset, piece.size)
    if xxh3_64_hexdigest(data) != piece.checksum:
        data = lake.get_range(piece.key, piece.offset, piece.size)
        if xxh3_64_hexdigest(data) != piece.checksum:
            path = f"{lake.name}/{piece.key}"
            raise Corrupt("a piece of a run fails its checksum", path=path, offset=piece.offset)
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return stream.read_all()


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in tables that can be sorted in memory."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= RUN_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _write_run(
    work: RebuildContext, lake: Objects, source: int, table: pa.Table, dead: BitMap64
) -> list[RunPiece]:
    recipe = partitioning_of(work.kind)
    for mark in work.strangers[source]:
        others = pc.fill_null(pc.starts_with(table["meta"], pattern=mark), False)
        table = table.filter(pc.invert(others))
    data_max = recipe.data_size_max(work.config, source)
    short = pc.less_equal(pc.binary_length(table["data"]), min(data_max, 2**31 - 1))
    data = pc.if_else(short, table["data"], pa.scalar(None, pa.binary()))
    stamps = table["ts"].cast(pa.int64())
    table = table.set_column(4, "data", data).set_column(1, "ts", stamps)
    common = table.filter(recipe.common(table))
    keyed = table.filter(recipe.keyed(table))
    if len(keyed):
        keyed = keyed.take(pc.sort_indices(keyed, [("key", "ascending"), ("seq", "ascending")]))
        keyed = _newest(keyed, recipe.newest(work.config), dead)
    run = _RunWriter(work.key("run"), source, work.piece_rows)
    run.add(common, has_keys=False)
    run.add(keyed, has_keys=True)
    return run.put(lake)


def _newest(table: pa.Table, count: int, dead: BitMap64) -> pa.Table:
    """The last ``count`` rows of each key; the seqs of the others are added to ``dead``."""
    if not count or len(table) <= count:
        return table
    keys = table["key"].combine_chunks()
    if isinstance(keys, pa.ChunkedArray):
        keys = pa.concat_arrays(keys.chunks)
    # A row has ``count`` newer ones of its key when the row ``count`` after it has the same key.
    has_newer = pc.equal(keys[: len(keys) - count], keys[count:]).to_numpy(zero_copy_only=False)
    if not has_newer.any():
        return table
    is_over = np.append(has_newer, np.zeros(count, dtype=bool))
    dead.update(table["seq"].to_numpy()[is_over].astype("<u8"))
    return table.filter(pa.array(~is_over))


class _RunWriter:
    """Builds one run. Owned by one thread."""

    def __init__(self, key: str, source: int, piece_rows: int) -> None:
        self._rows = piece_rows
        self._key = key
        self._source = source
        self._parts: list[bytes] = []
        self._pieces: list[RunPiece] = []
        self._size = 0

    def add(self, table: pa.Table, *, has_keys: bool) -> None:
        for first in range(0, len(table), self._rows):
            rows = table.slice(first, self._rows).combine_chunks()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema, options=_WRITING) as writer:
                writer.write_table(rows)
            data = sink.getvalue().to_pybytes()
            self._pieces.append(
                RunPiece(
                    source=self._source,
                    key=self._key,
                    offset=self._size,
                    size=len(data),
                    rows=len(rows),
                    first_seq=rows["seq"][0].as_py(),
                    first=rows["key"][0].as_py() if has_keys else None,
                    last=rows["key"][-1].as_py() if has_keys else None,
                    checksum=xxh3_64_hexdigest(data),
                )
            )
            self._parts.append(data)
            self._size += len(data)

    def put(self, lake: Objects) -> list[RunPiece]:
        if self._parts:
            lake.put_stream(self._key, self._parts)
        return self._pieces
