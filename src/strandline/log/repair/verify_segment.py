"""Verifies all of one segment: header, index, every block, and the sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap64

from strandline.errors import Corrupt
from strandline.log.segments import codec
from strandline.log.segments.reader import Segment
from strandline.log.wal import block
from strandline.log.wal.block import Block
from strandline.platform.disk import Disk

Step: TypeAlias = int | Corrupt | OSError
"""The number of bytes that were read, or a problem."""


def check_segment(disk: Disk, segment: Segment) -> Iterator[Corrupt | OSError]:
    """The problems of a segment; none when it is as it was written."""
    for step in walk_segment(disk, segment):
        if not isinstance(step, int):
            yield step


def walk_segment(disk: Disk, segment: Segment) -> Iterator[Step]:
    """As ``check_segment``, block by block, with the number of bytes that were read."""
    info = segment.info
    try:
        index, packed_tags = segment.index(), segment.packed_tags()
        file = disk.open_read(segment.path)
        try:
            size = file.size()
        finally:
            file.close()
    except (Corrupt, OSError) as error:
        yield error
        return
    if size != info.file_size:
        yield Corrupt(f"the file has {size} bytes, not {info.file_size}", path=segment.path)
    if not _agrees(segment, index):
        yield Corrupt("the index is not the one that was listed", path=segment.path)
    yield info.file_size - info.footer_offset
    tags: dict[str, BitMap64] = {}
    damaged = False
    for place in range(len(index)):
        try:
            content = segment.read_block(place)
        except (Corrupt, OSError) as error:
            damaged = True
            yield error
            continue
        yield int(index.stored_size[place])
        if not _is_listed(content, index, place):
            yield _error(segment, index, place, "a block is not the one that the index lists")
        if info.topic_id != codec.SHARED:
            _add_tags(tags, content)
    if not damaged and info.topic_id != codec.SHARED:
        listed = codec.decode_tags(packed_tags)
        stored = {tag: BitMap64.deserialize(seqs) for tag, seqs in listed.items()}
        if stored != tags:
            yield Corrupt("the tags in the index are not those of the records", path=segment.path)


def _agrees(segment: Segment, index: codec.SegmentIndex) -> bool:
    """Whether checkpoint and index agree, and the blocks are in order."""
    info = segment.info
    ends = index.first_seq + index.count
    if not len(index) or int(ends.max()) - 1 != info.last_seq:
        return False
    keys = list(zip(index.topic.tolist(), index.first_seq.tolist(), strict=True))
    follows = [
        topic > before or first_seq >= end
        for (before, _), end, (topic, first_seq) in zip(keys, ends.tolist(), keys[1:], strict=False)
    ]
    sums = (int(index.count.sum()), int(index.payload_size.sum()))
    times = (int(index.ts_min.min()), int(index.ts_max.max()))
    return (
        all(follows)
        and keys == sorted(keys)
        and sums == (info.record_count, info.payload_size)
        and times == (info.ts_min, info.ts_max)
    )


def _is_listed(content: Block, index: codec.SegmentIndex, place: int) -> bool:
    stamps = content.stamps()
    sizes = (content.payload_size, int(content.sizes().sum()))
    return (
        sizes == (int(index.payload_size[place]),) * 2
        and (int(stamps.min()), int(stamps.max()))
        == (int(index.ts_min[place]), int(index.ts_max[place]))
        and bool(np.all(stamps[1:] >= stamps[:-1]))
    )


def _add_tags(tags: dict[str, BitMap64], content: Block) -> None:
    column = content.column(block.TAG)
    for row, tag in enumerate(column.to_pylist() if column is not None else ()):
        if tag is not None:
            tags.setdefault(tag, BitMap64()).add(content.first_seq + row)


def _error(segment: Segment, index: codec.SegmentIndex, place: int, reason: str) -> Corrupt:
    first_seq = int(index.first_seq[place])
    return Corrupt(
        reason,
        path=segment.path,
        offset=int(index.offset[place]),
        topic_id=int(index.topic[place]),
        first_seq=first_seq,
        last_seq=first_seq + int(index.count[place]) - 1,
    )
