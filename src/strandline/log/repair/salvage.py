"""Finds records of damaged files: in intact blocks of those files, and in other files.

A record is often on the disk more than once. A checkpoint copies the log into segments and keeps
the log until the next one; sealing copies shared segments. So the records of a damaged file are
searched block by block in that file, then in every other segment, also in those that no checkpoint
lists any more, then in the log, and last in the lake. A block has its topic and seqs under its own
checksum: the file in which it is found does not matter.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence

from strandline.errors import Corrupt
from strandline.lake.lake import Lake
from strandline.log.files.layout import Layout
from strandline.log.segments import codec
from strandline.log.segments.rows import RecordRows, of_block, of_singles
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import block
from strandline.log.wal.codec import split_single, store_seed
from strandline.log.wal.recovery import ShardLog, SingleFrame, in_order
from strandline.platform.disk import Disk

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_READ_SIZE = 64 * 1024

Span = tuple[int, int]
"""First and last seq."""
SalvagedRows = Iterator[tuple[int, RecordRows]]
"""Topic ids and rows."""


class MissingSeqs:
    """Seqs to find, by topic. ``take`` removes those that were found."""

    def __init__(self) -> None:
        self.spans: dict[int, list[Span]] = {}

    def __bool__(self) -> bool:
        return any(self.spans.values())

    def remove_found(self, topic_id: int, rows: RecordRows) -> list[RecordRows]:
        """The parts of these rows that are to be found; they are removed from the spans."""
        parts, left = [], []
        for first_seq, last_seq in self.spans.get(topic_id, ()):
            low, high = max(first_seq, rows.first_seq), min(last_seq + 1, rows.next_seq)
            if low >= high:
                left.append((first_seq, last_seq))
                continue
            parts.append(rows.slice(low, high))
            left += [(first_seq, low - 1)] if first_seq < low else []
            left += [(high, last_seq)] if high <= last_seq else []
        if parts:
            self.spans[topic_id] = left
        return parts


def search(wanted: MissingSeqs, places: Sequence[SalvagedRows]) -> SalvagedRows:
    """Search the places in order until everything is found or there are no more."""
    for place in places:
        if not wanted:
            return
        for topic_id, rows in place:
            for part in wanted.remove_found(topic_id, rows):
                yield topic_id, part


def segment_files(disk: Disk, layout: Layout) -> list[str]:
    """Every segment file on the disk, listed or not."""
    folders = [f"{layout.segments}/{name}" for name in disk.list_dir(layout.segments)]
    return [
        f"{folder}/{name}"
        for folder in [*folders, layout.quarantine]
        for name in disk.list_dir(folder)
        if name.endswith(".seg")
    ]


def in_segment(disk: Disk, path: str, store_id: bytes) -> SalvagedRows:
    """Rows of every intact block of a segment file."""
    content = memoryview(read_around(disk, path))
    seed = store_seed(store_id)
    index = index_of(content, seed)
    if index is None:
        yield from _in_blocks(content, seed)
        return
    for offset, size, raw_size in zip(
        index.offset.tolist(), index.stored_size.tolist(), index.raw_size.tolist(), strict=True
    ):
        stored = content[offset : offset + size]
        raw = stored if size == raw_size else _unpacked(stored)[0]
        if block.verify(raw, seed):
            intact = block.Block(raw)
            yield intact.topic_id, of_block(intact)


def in_logs(logs: Sequence[ShardLog]) -> SalvagedRows:
    """Rows of every frame of the log, also of those that are already in segments."""
    for log, place in in_order(logs):
        if place >= len(log.headers):
            continue
        for frame in log.scan(place, log.headers[place].first_lsn):
            if isinstance(frame, SingleFrame):
                fields, data = split_single(frame.sizes, frame.body)
                yield frame.topic_id, of_singles(frame.seq, [(frame.ts, fields, data)])
                continue
            for _, view in frame.blocks:
                intact = block.Block(view)
                if intact.kind == block.RECORDS:
                    yield intact.topic_id, of_block(intact)


def in_lake(lake: Lake, states: Sequence[TopicState], wanted: MissingSeqs) -> SalvagedRows:
    """Rows of the lake's zones with seqs to find."""
    for state in states:
        for first_seq, last_seq in list(wanted.spans.get(state.id, ())):
            seq = first_seq
            while state.cold is not None and seq <= last_seq:
                place = state.cold.find(seq)
                if place < 0:
                    break
                try:
                    zone = lake.zone_uncached(state.id, state.cold, place, seq)
                except Corrupt as error:
                    seq = max(seq, error.last_seq or last_seq) + 1
                    continue
                yield state.id, of_block(zone)
                seq = zone.last_seq + 1


def index_of(content: memoryview, seed: int) -> codec.SegmentIndex | None:
    """The index of a segment by the file alone, None when a checksum fails."""
    header = codec.decode_header(bytes(content[: codec.HEADER_SIZE]))
    trailer = codec.decode_trailer(bytes(content[-codec.TRAILER_SIZE :]))
    if not isinstance(header, codec.SegmentHeader) or trailer is None:
        return None
    offset, size, checksum = trailer
    footer = bytes(content[offset : offset + size])
    if len(footer) != size:
        return None
    return codec.decode_footer(footer, checksum, seed, header.number)


def read_around(disk: Disk, path: str) -> bytes:
    """The bytes of a file, with zeros where it cannot be read; empty when it cannot be opened."""
    try:
        return disk.read(path)
    except OSError:
        pass
    try:
        file = disk.open_read(path)
    except OSError:
        return b""
    parts = []
    try:
        for offset in range(0, file.size(), _READ_SIZE):
            try:
                parts.append(file.pread(_READ_SIZE, offset))
            except OSError:
                parts.append(bytes(min(_READ_SIZE, file.size() - offset)))
    finally:
        file.close()
    return b"".join(parts)


def _in_blocks(content: memoryview, seed: int) -> SalvagedRows:
    """Rows of intact blocks, found without an index."""
    offset = codec.HEADER_SIZE
    while offset + 8 <= len(content):
        raw, used = content[offset:], 0
        if bytes(content[offset : offset + 4]) == _ZSTD_MAGIC:
            raw, used = _unpacked(content[offset:])
        if not block.verify(raw, seed):
            offset += 8
            continue
        size = struct.unpack_from("<I", raw, 8)[0]
        intact = block.Block(raw[:size])
        yield intact.topic_id, of_block(intact)
        used = used or size
        offset += used + -used % 8


def _unpacked(stored: memoryview) -> tuple[memoryview, int]:
    """The content of a compressed block and its stored size; empty and 0 when it is damaged."""
    unpacker = zstd.ZstdDecompressor()
    try:
        content = unpacker.decompress(stored)
    except zstd.ZstdError:
        return memoryview(b""), 0
    if not unpacker.eof:
        return memoryview(b""), 0
    return memoryview(content), len(stored) - len(unpacker.unused_data)
