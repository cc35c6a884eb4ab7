"""The set of a store's segments: lists, creates, opens and removes them."""

from __future__ import annotations

from strandline.config.settings import SegmentSettings
from strandline.log.segments import codec
from strandline.log.segments.reader import BlockCache, FilePool, Segment, SegmentInfo
from strandline.log.segments.writer import SegmentWriter
from strandline.platform.disk import Disk


class SegmentSet:
    """Segment files below one folder. Readers need no lock; one job adds and retires them."""

    def __init__(
        self, disk: Disk, directory: str, settings: SegmentSettings, *, store_id: bytes, seed: int
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.cache = BlockCache(settings.cache_bytes)
        self.next_number = 1
        self.segments: dict[int, Segment] = {}
        self._settings = settings
        self._store_id = store_id
        self._seed = seed
        self._pool = FilePool(disk)

    def add(self, info: SegmentInfo) -> Segment:
        """Add a segment that a checkpoint lists, or that was just written."""
        segment = Segment(
            info,
            self.directory,
            self._pool,
            self.cache,
            store_id=self._store_id,
            seed=self._seed,
        )
        self.segments[info.number] = segment
        self.next_number = max(self.next_number, info.number + 1)
        return segment

    def reopen(self, segment: Segment) -> Segment:
        """The same segment, opened again: its file and index are read again."""
        self._pool.forget(segment.path)
        return Segment(
            segment.info,
            self.directory,
            self._pool,
            self.cache,
            store_id=self._store_id,
            seed=self._seed,
        )

    def begin_segment(self, topic_id: int, first_seq: int) -> tuple[SegmentWriter, SegmentInfo]:
        """Begin a new file, for one topic or shared (id 0)."""
        number = self.next_number
        self.next_number += 1
        info = SegmentInfo(
            number=number,
            topic_id=topic_id,
            first_seq=first_seq,
            last_seq=0,
            record_count=0,
            payload_size=0,
            file_size=0,
            ts_min=0,
            ts_max=0,
            created_us=0,
            footer_checksum=0,
            footer_offset=0,
        )
        path = f"{self.directory}/{info.name()}"
        self.disk.make_dirs(path.rpartition("/")[0])
        header = codec.SegmentHeader(store_id=self._store_id, number=number, topic_id=topic_id)
        compression = self._settings.compression
        return SegmentWriter(self.disk, path, header, self._seed, compression), info

    def finish_segment(self, writer: SegmentWriter, info: SegmentInfo, created_us: int) -> Segment:
        """Make the file durable and add the segment. Nothing refers to it yet."""
        footer_offset = writer.size
        index, checksum, file_size = writer.finish()
        finished = SegmentInfo(
            number=info.number,
            topic_id=info.topic_id,
            first_seq=info.first_seq,
            last_seq=int((index.first_seq + index.count).max()) - 1,
            record_count=int(index.count.sum()),
            payload_size=int(index.payload_size.sum()),
            file_size=file_size,
            ts_min=int(index.ts_min.min()),
            ts_max=int(index.ts_max.max()),
            created_us=created_us,
            footer_checksum=checksum,
            footer_offset=footer_offset,
        )
        return self.add(finished)

    def retire(self, number: int) -> str:
        """Drop a segment; returns its path, for removal when no checkpoint needs the file."""
        segment = self.segments.pop(number)
        return segment.path

    def remove(self, path: str) -> None:
        self._pool.forget(path)
        self.disk.remove(path)

    def close(self) -> None:
        self._pool.close()
