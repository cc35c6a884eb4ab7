"""Lake files in memory: rows to write, a sink to write to, and reads that are counted."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.files.file_writer import LakeFileWriter
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.disk import Buffer

TOPIC_ID = 7
STORE_ID = bytes(range(16))
LABEL = "topics/0000000000000007/data/some.parquet"

Row = tuple[int, int, bytes | None, str | None, str | None, bytes | None, bytes]
"""seq, ts, key, tag, node, meta, data."""


class MemorySink:
    """Takes what a spool file would take."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.fails_at = 1 << 62

    def write(self, buffers: Sequence[Buffer]) -> int:
        offset = len(self.content)
        if offset >= self.fails_at:
            raise OSError(28, "no space left on device")
        for buffer in buffers:
            self.content += buffer
        return offset


class ColdFile:
    """One file as it lies in the object store, with what the manifest says of it."""

    def __init__(self, entry: LakeFile, content: bytes) -> None:
        self.entry = entry
        self.content = content
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, start: int, length: int) -> bytes:
        self.fetched.append((start, length))
        return bytes(self.content[start : start + length])

    def reader(self, topic_id: int = TOPIC_ID) -> LakeFileReader:
        return LakeFileReader(self.fetch, self.entry, topic_id, LABEL)

    def with_content(self, content: bytes) -> ColdFile:
        return ColdFile(self.entry, content)


def table_of(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def rows_of(table: pa.Table) -> list[Row]:
    numbers = table.set_column(1, "ts", table["ts"].cast(pa.int64()))
    return [tuple(row.values()) for row in numbers.select(SCHEMA.names).to_pylist()]


def plain_rows(seqs: Sequence[int], data: bytes = b"payload %d") -> list[Row]:
    """A row for each seq, a second apart, with a key, a tag, and no node or meta."""
    return [
        (seq, seq * 1_000_000, b"key %d" % seq, f"tag {seq % 3}", None, None, data % seq)
        for seq in seqs
    ]


def write(
    rows: Sequence[Row],
    *,
    first_seq: int | None = None,
    last_seq: int | None = None,
    pieces: int = 1,
    **options: object,
) -> ColdFile:
    """A file of these rows, handed over in so many pieces."""
    sink = MemorySink()
    writer = LakeFileWriter(sink, topic_id=TOPIC_ID, store_id=STORE_ID, **options)
    step = max(1, -(-len(rows) // pieces))
    for start in range(0, len(rows), step):
        writer.add(table_of(rows[start : start + step]))
    entry = writer.finish(
        rows[0][0] if first_seq is None else first_seq,
        rows[-1][0] if last_seq is None else last_seq,
    )
    return ColdFile(entry, bytes(sink.content))
