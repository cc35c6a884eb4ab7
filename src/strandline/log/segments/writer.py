"""Writes one segment file: blocks in order, then the footer. It appears complete or not at all."""

from __future__ import annotations

import sys

import numpy as np
from pyroaring import BitMap64

from strandline.config.settings import Compression
from strandline.log.segments import codec
from strandline.log.segments.rows import RecordRows
from strandline.log.wal import block
from strandline.platform.disk import Buffer, Disk

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_ZSTD_LEVEL = 1  # level 3 gains nothing on JSON and costs twice the time


class SegmentWriter:
    """Owned by one thread. Call ``finish`` or ``abandon``."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        header: codec.SegmentHeader,
        seed: int,
        compression: Compression,
    ) -> None:
        self.path = path
        self._header = header
        self._seed = seed
        self._compress = compression == "zstd"
        self._file = disk.create(path)
        try:
            self._file.write([codec.encode_header(header)])
        except BaseException:
            self._file.abandon()
            raise
        self._offset = codec.HEADER_SIZE
        self._entries: list[tuple[int, ...]] = []
        self._tags: dict[str, BitMap64] = {}

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._offset

    def add(self, topic_id: int, rows: RecordRows) -> None:
        """Add rows as one block, after all blocks with a smaller topic and seq."""
        draft, ts_min, ts_max = rows.draft()
        header, _ = draft.finish(self._seed, topic_id, rows.first_seq, ts_max)
        payload = b"".join([header, *draft.buffers])
        if self._header.topic_id != codec.SHARED:
            self._note_tags(rows)
        fields = (topic_id, rows.first_seq, draft.count, ts_min, ts_max)
        self._store(fields, payload, draft.payload_size)

    def finish(self) -> tuple[codec.SegmentIndex, int, int]:
        """Make the file durable; returns its index, footer checksum and size."""
        columns = {}
        table = np.array(self._entries, dtype="<u8").reshape(len(self._entries), len(codec.COLUMNS))
        for place, (name, kind) in enumerate(codec.COLUMNS):
            columns[name] = table[:, place].astype(kind)
        tags = {tag: seqs.serialize() for tag, seqs in sorted(self._tags.items())}
        index, number = codec.SegmentIndex(columns), self._header.number
        footer, checksum = codec.encode_footer(index, tags, self._seed, number, self._offset)
        self._file.write([footer])
        self._file.commit()
        return index, checksum, self._offset + len(footer)

    def abandon(self) -> None:
        self._file.abandon()

    def _store(self, fields: tuple[int, ...], raw: bytes, payload_size: int) -> None:
        stored: Buffer = raw
        if self._compress:
            packed = zstd.compress(raw, _ZSTD_LEVEL)
            if len(packed) < len(raw):
                stored = packed
        checksum = codec.block_checksum(stored, self._seed, self._offset)
        sizes = (self._offset, len(stored), len(raw), payload_size, checksum)
        self._entries.append((*fields, *sizes))
        self._file.write([stored, bytes(-len(stored) % 8)])
        self._offset += len(stored) + -len(stored) % 8

    def _note_tags(self, rows: RecordRows) -> None:
        tags = rows.fields.get(block.TAG)
        if tags is None:
            return
        encoded = tags.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for code, tag in enumerate(encoded.dictionary.to_pylist()):
            places = np.flatnonzero(codes == code) + rows.first_seq
            self._tags.setdefault(tag, BitMap64()).update(places.tolist())
