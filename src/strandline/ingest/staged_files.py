"""Rows on their way into a topic, as files that nobody sees yet: an Arrow stream each.

Rows have the columns of ``append_arrow``: data, and if present key, tag, node, meta. They are cut
into chunks of a size that every store takes at once, because a chunk becomes a block of the log,
all of it or nothing. A file streams out while rows come in: a task needs memory for a chunk. After
about ``FILE_BYTES`` of rows a new file begins, since whoever takes a file reads all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from xxhash import xxh3_128

from strandline.errors import Corrupt, Invalid, NotFound, StrandlineError, Unavailable
from strandline.ingest.delivery_codec import Staged
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
"""What may be staged; only ``data`` must be there."""

CHUNK_ROWS = 50_000
CHUNK_BYTES = 16 * 1024 * 1024
FILE_BYTES = 128 * 1024 * 1024
"""Of rows, before they are compressed. Larger: fewer files, more memory for the store's writer."""

_WRITING = pa.ipc.IpcWriteOptions(compression="lz4")


def stage(
    objects: Objects, key_of: Callable[[int], str], rows: Iterable[pa.RecordBatch]
) -> tuple[Staged, ...]:
    """Write rows to new files, in order; none when there are none. ``key_of`` names the n-th."""
    chunks = chunked(rows)
    staged: list[Staged] = []
    try:
        while (first := next(chunks, None)) is not None:
            staged.append(_write(objects, key_of(len(staged)), first, chunks))
    except Unavailable:
        raise  # to ask again would only take longer; what is left is removed in the end
    except BaseException:
        with contextlib.suppress(StrandlineError):
            objects.delete([file.key for file in staged])
        raise
    return tuple(staged)


def _write(
    objects: Objects, key: str, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> Staged:
    """One file, of as many chunks as it takes."""
    writing = _Stream(first, rest)
    objects.put_stream(key, writing.parts())
    return Staged(
        key=key,
        rows=writing.rows,
        chunks=writing.chunks,
        size=writing.size,
        checksum=writing.hash.hexdigest(),
    )


def read_chunks(objects: Objects, file: Staged) -> Iterator[pa.RecordBatch]:
    """The chunks of a staged file, after a check of all its bytes."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(_read(objects, file))) as stream:
            yield from stream
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(
            f"a staged file is no Arrow stream ({error})", path=_path(objects, file)
        ) from error


def _read(objects: Objects, file: Staged) -> bytes:
    """The bytes of a staged file. Some that flip on the way do not make it a damaged one."""
    for _ in range(2):
        try:
            data = objects.get(file.key)
        except NotFound:
            reason = "a staged file is gone that was delivered"
            raise Corrupt(reason, path=_path(objects, file)) from None
        if len(data) == file.size and xxh3_128(data).hexdigest() == file.checksum:
            return data
    raise Corrupt("a staged file has other bytes than were delivered", path=_path(objects, file))


def _path(objects: Objects, file: Staged) -> str:
    return f"{objects.name}/{file.key}"


def chunked(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in chunks: neither tiny nor too large for an append."""
    waiting: list[pa.RecordBatch] = []
    schema = None
    count, size = 0, 0
    for batch in rows:
        schema = schema or batch.schema
        if not batch.schema.equals(schema):
            raise Invalid(f"rows of one file have one schema, not {schema} and {batch.schema}")
        for piece in _cut(batch):
            nbytes = piece.nbytes
            if count and (count + len(piece) > CHUNK_ROWS or size + nbytes > CHUNK_BYTES):
                yield _joined(waiting)
                waiting, count, size = [], 0, 0
            waiting.append(piece)
            count, size = count + len(piece), size + nbytes
    if count:
        yield _joined(waiting)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces that are not too large; a row alone may be, and is then refused when appended."""
    if not len(batch):
        return
    if len(batch) > 1 and (len(batch) > CHUNK_ROWS or batch.nbytes > CHUNK_BYTES):
        middle = len(batch) // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
        return
    yield batch


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class _Stream:
    """An Arrow stream that is taken away piece by piece. Owned by one thread."""

    def __init__(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        self._first = first
        self._rest = rest
        self.rows = 0
        self.chunks = 0
        self.size = 0
        self.hash = xxh3_128()

    def parts(self) -> Iterator[bytes]:
        chunk: pa.RecordBatch | None = self._first
        taken = 0
        sink = _Drain()
        file = pa.PythonFile(sink, "w")
        with pa.ipc.new_stream(file, self._first.schema, options=_WRITING) as writer:
            while chunk is not None:
                writer.write_batch(chunk)
                self.rows += len(chunk)
                self.chunks += 1
                taken += chunk.nbytes
                yield self._note(sink.taken())
                chunk = next(self._rest, None) if taken < FILE_BYTES else None
        yield self._note(sink.taken())

    def _note(self, part: bytes) -> bytes:
        self.size += len(part)
        self.hash.update(part)
        return part


class _Drain:
    """A file that is written to, and emptied."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes | memoryview) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)
