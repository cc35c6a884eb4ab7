"""Staged files: rows for a topic that are not visible yet, each file an Arrow stream.

Rows have the columns of ``append_arrow``: data, and optionally key, tag, node, meta. They are split
into chunks of a size that every store accepts, because a chunk becomes a block of the log,
completely or not at all. A file is uploaded while rows arrive: a task needs memory for a chunk.
After about ``FILE_BYTES`` of rows a new file begins, since the writer reads a whole file at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from xxhash import xxh3_128

from strandline.errors import Corrupt, Invalid, NotFound, StrandlineError, Unavailable
from strandline.ingest.delivery_codec import StagedFile
from strandline.platform.objectstore.protocol import Objects

COLUMNS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("tag", pa.string()),
        pa.field("node", pa.string()),
        pa.field("meta", pa.binary()),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
"""The columns of staged rows; only ``data`` is required."""

CHUNK_ROWS = 50_000
CHUNK_BYTES = 16 * 1024 * 1024
FILE_BYTES = 128 * 1024 * 1024
"""Bytes of rows before compression. Larger: fewer files, more memory for the store's writer."""

_IPC_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def stage(
    objects: Objects, key_of: Callable[[int], str], rows: Iterable[pa.RecordBatch]
) -> tuple[StagedFile, ...]:
    """Write rows to new files, in order; no file without rows. ``key_of`` names the n-th."""
    chunks = chunked(rows)
    staged: list[StagedFile] = []
    try:
        while (first := next(chunks, None)) is not None:
            staged.append(_write(objects, key_of(len(staged)), first, chunks))
    except Unavailable:
        raise  # a delete would only fail, too; leftovers are deleted by age
    except BaseException:
        with contextlib.suppress(StrandlineError):
            objects.delete([file.key for file in staged])
        raise
    return tuple(staged)


def _write(
    objects: Objects, key: str, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> StagedFile:
    """Write one file, with as many chunks as fit."""
    stream = _Stream(first, rest)
    objects.put_stream(key, stream.parts())
    return StagedFile(
        key=key,
        rows=stream.rows,
        chunks=stream.chunks,
        size=stream.size,
        checksum=stream.hash.hexdigest(),
    )


def read_chunks(objects: Objects, file: StagedFile) -> Iterator[pa.RecordBatch]:
    """The chunks of a staged file, after a check of all its bytes."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(_read(objects, file))) as stream:
            yield from stream
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(
            f"a staged file is not an Arrow stream ({error})", path=_path(objects, file)
        ) from error


def _read(objects: Objects, file: StagedFile) -> bytes:
    """The bytes of a staged file. Only the second bad response counts as damage."""
    for _ in range(2):
        try:
            data = objects.get(file.key)
        except NotFound:
            reason = "a staged file of a delivery is missing"
            raise Corrupt(reason, path=_path(objects, file)) from None
        if len(data) == file.size and xxh3_128(data).hexdigest() == file.checksum:
            return data
    raise Corrupt("a staged file has other bytes than were delivered", path=_path(objects, file))


def _path(objects: Objects, file: StagedFile) -> str:
    return f"{objects.name}/{file.key}"


def chunked(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Regroup rows into chunks: neither tiny nor too large for an append."""
    pending: list[pa.RecordBatch] = []
    schema = None
    count, size = 0, 0
    for batch in rows:
        schema = schema or batch.schema
        if not batch.schema.equals(schema):
            raise Invalid(f"rows of one file have one schema, not {schema} and {batch.schema}")
        for part in _split(batch):
            nbytes = part.nbytes
            if count and (count + len(part) > CHUNK_ROWS or size + nbytes > CHUNK_BYTES):
                yield _concat(pending)
                pending, count, size = [], 0, 0
            pending.append(part)
            count, size = count + len(part), size + nbytes
    if count:
        yield _concat(pending)


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into small enough parts; a single large row is rejected by the append."""
    if not len(batch):
        return
    if len(batch) > 1 and (len(batch) > CHUNK_ROWS or batch.nbytes > CHUNK_BYTES):
        middle = len(batch) // 2
        yield from _split(batch.slice(0, middle))
        yield from _split(batch.slice(middle))
        return
    yield batch


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class _Stream:
    """Encodes an Arrow stream part by part. Owned by one thread."""

    def __init__(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        self._first = first
        self._rest = rest
        self.rows = 0
        self.chunks = 0
        self.size = 0
        self.hash = xxh3_128()

    def parts(self) -> Iterator[bytes]:
        chunk: pa.RecordBatch | None = self._first
        written_bytes = 0
        sink = _DrainBuffer()
        file = pa.PythonFile(sink, "w")
        with pa.ipc.new_stream(file, self._first.schema, options=_IPC_OPTIONS) as writer:
            while chunk is not None:
                writer.write_batch(chunk)
                self.rows += len(chunk)
                self.chunks += 1
                written_bytes += chunk.nbytes
                yield self._count(sink.drain())
                chunk = next(self._rest, None) if written_bytes < FILE_BYTES else None
        yield self._count(sink.drain())

    def _count(self, part: bytes) -> bytes:
        self.size += len(part)
        self.hash.update(part)
        return part


class _DrainBuffer:
    """A file-like buffer that is drained after each write."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes | memoryview) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def drain(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)
