"""One shard's log on a simulated disk: a writer, its committer, and the ways to read it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strandline.config.settings import LimitSettings, WalSettings
from strandline.log.append.batch import checked_fields, of_one
from strandline.log.wal import block
from strandline.log.wal.committer import Committer
from strandline.log.wal.log_files import ShardFiles
from strandline.log.wal.reader import Reader
from strandline.log.wal.recovery import BatchFrame, ShardLog, SingleFrame
from strandline.log.wal.writer import Writer
from strandline.testing.model import RecordValues
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

STORE_ID = bytes(range(16))
DIRECTORY = "/data/wal/shard-03"
SHARD = 3
SMALL = WalSettings(file_size_first=8192, file_size_max=32768)


class Log:
    """A shard that is open for writing. Seqs count up by themselves."""

    def __init__(self, *, settings: WalSettings = SMALL, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk()
        self.clock = SimClock()
        self.disk.make_dirs(DIRECTORY)
        self.files = ShardFiles(self.disk, DIRECTORY, SHARD)
        self.writer = Writer(
            self.files,
            self.clock,
            settings,
            store_id=STORE_ID,
            term=1,
            end_lsn=0,
            previous=0,
            last_ts=0,
        )
        self.committer = Committer(self.writer)
        self.next_seq = 1

    def locked(self, place: Callable[..., Any], *arguments: object) -> Any:
        """Call a method of the writer under its lock."""
        self.writer.acquire()
        try:
            return place(*arguments)
        finally:
            self.writer.release()

    def single(self, values: RecordValues | bytes, topic_id: int = 1) -> int:
        """Place one record as a single frame; its location."""
        values = RecordValues(data=values) if isinstance(values, bytes) else values
        fields = checked_fields(values.key, values.tag, values.node, values.meta)
        batch = of_one(values.data, fields, values.tag, LimitSettings())
        payload = b"".join(field for field in fields if field is not None) + values.data
        return int(self.locked(self._single, topic_id, batch.sizes, payload))

    def _single(self, topic_id: int, sizes: int, payload: bytes) -> int:
        ts = self.writer.stamp()
        location = self.writer.place_single(topic_id, self.next_seq, sizes, payload, ts)
        self.next_seq += 1
        return location

    def batch(self, data: list[bytes], topic_id: int = 1) -> int:
        """Place records as one batch frame; the location of its block."""
        return int(self.locked(self._batch, block.draft(data), topic_id))

    def _batch(self, draft: block.Draft, topic_id: int) -> int:
        ts = self.writer.stamp()
        location = self.writer.place_draft(draft, topic_id, self.next_seq, ts)
        self.next_seq += draft.count
        return location

    def reader(self) -> Reader:
        return Reader({SHARD: self.files}, STORE_ID)

    def scanned(self, disk: SimDisk | None = None) -> list[tuple[int, list[bytes]]]:
        """First seq and payloads of every frame that recovery finds on a disk."""
        log = ShardLog(disk or self.disk, DIRECTORY, SHARD, STORE_ID)
        found = []
        for place in range(len(log.headers)):
            if place >= len(log.headers):
                break  # behind a torn place
            for frame in log.scan(place, 0):
                found += _records(frame)
        log.files.close()
        return found

    def names(self) -> list[str]:
        return self.disk.list_dir(DIRECTORY)


def _records(frame: SingleFrame | BatchFrame) -> list[tuple[int, list[bytes]]]:
    if isinstance(frame, SingleFrame):
        return [(frame.seq, [bytes(frame.body)])]
    blocks = [block.Block(view) for _, view in frame.blocks]
    return [(found.first_seq, found.data().to_pylist()) for found in blocks if found.count]
