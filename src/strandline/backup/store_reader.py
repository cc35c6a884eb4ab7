"""Reads a store's files for a backup: a root, and the log after it.

It works on a closed store, beside a writer in another process, and inside the writer's process. It
changes nothing. The root and its files stay while a pin is held (``log/files/pins.py``); without a
pin a file may be deleted meanwhile, and the backup begins again (``create.py``).

**The end of a backup.** The store's own process passes it (``BackupReach``): the ends of all shards
at one time, synced. Another process reads each shard to its end and syncs the files, so that no
record of a backup is lost from the store by a power loss. Shards are read one after another; with
several shards, frames that were committed after the read began are left out, because they may
depend on a commit of another shard that was read before.

**The begin of a backup.** The end of the last backup, if the log contains its last frame with an
identical header, or the first file names it as the frame before. Otherwise the begin of the root's
replay, and a new timeline begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from strandline.backup.descriptor import BackupDescriptor, ShardReach, TopicReach
from strandline.errors import Corrupt
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.wal import block, control_messages
from strandline.log.wal.codec import FILE_HEADER_SIZE, HEADER_SIZE
from strandline.log.wal.log_files import LOCATION_LSN
from strandline.log.wal.recovery import Frame, ScratchMemory, ShardLog, SingleFrame, in_order
from strandline.platform.disk import Disk, ReadFile
from strandline.platform.system_errors import as_unavailable


class BackupReach(msgspec.Struct, frozen=True):
    """The end of a backup."""

    until_us: int
    ends: Mapping[int, int] | None = None
    """Synced ends by shard; None: read to the end."""


class LogRange(msgspec.Struct, kw_only=True):
    """Frames of one WAL file that are to be copied."""

    shard: int
    term: int
    first_lsn: int
    end_lsn: int
    last_lsn: int
    """Where the last frame begins."""
    ts_first: int
    ts_last: int
    file: ReadFile
    offset: int


class LogRangeReader:
    """The logs of all shards after a root. Owned by one thread; close it."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        root: StoreCheckpoint,
        reach: BackupReach,
        before: BackupDescriptor | None,
    ) -> None:
        self.ranges: list[LogRange] = []
        self.shards: list[ShardReach] = []
        self.until_us = reach.until_us
        self._disk = disk
        self._root = root
        self._ends = reach.ends
        self._logs = self._open(disk, layout)
        try:
            self._closed = layout.read_closed(disk)
            self.continues = before is not None and self._continues(before)
            self._before = before if self.continues else None
            self._topics = _Topics(root, self._before)
            self._read()
        except BaseException:
            self.close()
            raise

    @property
    def topics(self) -> list[TopicReach]:
        return self._topics.reaches()

    def close(self) -> None:
        for log in self._logs.values():
            log.files.close()

    def _open(self, disk: Disk, layout: Layout) -> dict[int, ShardLog]:
        logs: dict[int, ShardLog] = {}
        scratch = ScratchMemory()
        shards = {*layout.shards_on(disk), *(entry.shard for entry in self._root.shards)}
        try:
            for shard in sorted(shards):
                logs[shard] = ShardLog(
                    disk,
                    layout.shard(shard),
                    shard,
                    self._root.store_id,
                    tolerate=True,  # the frame that a writer is writing looks like damage
                    scratch=scratch,
                )
        except BaseException:
            for log in logs.values():
                log.files.close()
            raise
        return logs

    def _continues(self, before: BackupDescriptor) -> bool:
        if any(reach.end_lsn and reach.shard not in self._logs for reach in before.shards):
            return False
        return all(
            continues_backup(log, before.reach(shard), self._root)
            for shard, log in self._logs.items()
        )

    def _read(self) -> None:
        root = self._root
        ends = {shard: self._start(shard) for shard in self._logs}
        several = len(self._logs) > 1 and self._ends is None
        bound_us = max(self.until_us, root.last_ts) if several else None
        for shard, log in self._logs.items():
            log.durable_upto = max(root.durable_lsn(shard), self._closed.get(shard, 0))
        for log, index in in_order(list(self._logs.values())):
            end_lsn = ends[log.files.shard]
            if index >= len(log.headers) or (log.files.end_of(index) or end_lsn + 1) <= end_lsn:
                continue
            log_range = self._read_range(log, index, end_lsn, bound_us)
            if log_range is None:
                continue
            if log_range.first_lsn > end_lsn:
                raise _missing(log, end_lsn)
            self.ranges.append(log_range)
            ends[log_range.shard] = log_range.end_lsn
            self.until_us = max(self.until_us, log_range.ts_last)
        for shard, log in self._logs.items():
            if log.damage:
                raise log.damage[0].error()
            if ends[shard] < root.durable_lsn(shard):
                raise _missing(log, ends[shard])
            self.shards.append(self._reach(log, ends[shard]))
        if self._ends is None:
            self._sync_ranges(ends)

    def _reach(self, log: ShardLog, end_lsn: int) -> ShardReach:
        shard = log.files.shard
        last_lsn, last_header = self._last_frame(log, end_lsn)
        return ShardReach(
            shard=shard,
            replay_lsn=self._root.replay_lsn(shard),
            exact_lsn=self._root.durable_lsn(shard),
            end_lsn=end_lsn,
            last_lsn=last_lsn,
            last_header=last_header,
        )

    def _start(self, shard: int) -> int:
        """Where the copy begins: at the end of the last backup, or where the replay begins."""
        if self._before is not None:
            return self._before.reach(shard).end_lsn
        return self._root.replay_lsn(shard)

    def _read_range(
        self, log: ShardLog, index: int, start: int, bound_us: int | None
    ) -> LogRange | None:
        """The complete frames of a file from an lsn on, up to the end of the backup."""
        header, entry = log.headers[index], log.files.entries[index]
        shard = log.files.shard
        until = None if self._ends is None else self._ends.get(shard, self._root.replay_lsn(shard))
        if until is not None and until <= max(start, header.first_lsn):
            return None
        first = max(start, header.first_lsn)
        log_range = LogRange(
            shard=shard,
            term=header.term,
            first_lsn=first,
            end_lsn=first,
            last_lsn=first,
            ts_first=0,
            ts_last=0,
            file=entry.file,
            offset=FILE_HEADER_SIZE + first - header.first_lsn,
        )
        for frame in log.scan(index, first, until_lsn=until):
            if bound_us is not None and frame.ts > bound_us:
                break
            lsn = frame.location & LOCATION_LSN
            if lsn != log_range.end_lsn:
                break  # after damage, which is reported
            log_range.last_lsn = lsn
            log_range.end_lsn = lsn + (log.previous & 0xFFFF_FFFF)
            log_range.ts_first = log_range.ts_first or frame.ts
            log_range.ts_last = frame.ts
            self._topics.apply(frame)
        return log_range if log_range.end_lsn > first else None

    def _last_frame(self, log: ShardLog, end_lsn: int) -> tuple[int, str]:
        """The begin of the frame before an lsn, and its header in hex; empty if it is missing."""
        known = self._before.reach(log.files.shard) if self._before is not None else None
        if known is not None and known.end_lsn == end_lsn:
            return known.last_lsn, known.last_header
        for log_range in reversed(self.ranges):
            if log_range.shard == log.files.shard:
                offset = log_range.offset + log_range.last_lsn - log_range.first_lsn
                return log_range.last_lsn, log_range.file.pread(HEADER_SIZE, offset).hex()
        for index in reversed(range(len(log.headers))):
            entry = log.files.entries[index]
            if entry.first_lsn >= end_lsn:
                continue
            last_lsn = entry.first_lsn
            for frame in log.scan(index, entry.first_lsn, until_lsn=end_lsn):
                last_lsn = frame.location & LOCATION_LSN
            header = entry.file.pread(HEADER_SIZE, FILE_HEADER_SIZE + last_lsn - entry.first_lsn)
            return last_lsn, header.hex()
        return 0, ""

    def _sync_ranges(self, ends: Mapping[int, int]) -> None:
        """Sync the frames that may not be synced."""
        for shard, log in self._logs.items():
            if ends[shard] <= log.durable_upto:
                continue
            for log_range in self.ranges:
                if log_range.shard == shard:
                    _sync(self._disk, log_range.file.path)
            self._disk.sync_dir(log.files.directory)


def continues_backup(log: ShardLog, reach: ShardReach, root: StoreCheckpoint) -> bool:
    """Whether this log continues where a backup of the shard ended."""
    if not log.headers:
        return root.replay_lsn(log.files.shard) == reach.end_lsn
    first_lsn = log.headers[0].first_lsn
    if not reach.end_lsn or not reach.last_header:
        return first_lsn == reach.end_lsn == 0
    header = bytes.fromhex(reach.last_header)
    if first_lsn == reach.end_lsn:
        return log.headers[0].previous == int.from_bytes(header[:8], "little")
    if first_lsn > reach.last_lsn:
        return False
    entry, offset = log.files.locate(reach.last_lsn)
    return entry.file.pread(HEADER_SIZE, offset) == header


class _Topics:
    """The heads of the topics at the end of a backup, from the root and the log."""

    def __init__(self, root: StoreCheckpoint, before: BackupDescriptor | None) -> None:
        if before is None:
            known = [TopicReach(entry.id, entry.name, entry.covered) for entry in root.topics]
        else:
            known = [topic for topic in before.topics if not topic.dropped]
        self._names = {topic.id: topic.name for topic in known}
        self._heads = {topic.id: topic.head_seq for topic in known}
        self._dropped: set[int] = set()

    def reaches(self) -> list[TopicReach]:
        return [
            TopicReach(each, name, self._heads[each], each in self._dropped)
            for each, name in self._names.items()
        ]

    def apply(self, frame: Frame) -> None:
        for topic_id, _, last_seq, message in frame_seqs(frame):
            if isinstance(message, control_messages.TopicCreated):
                self._names[topic_id] = message.name
                self._heads.setdefault(topic_id, 0)
            elif isinstance(message, control_messages.TopicDeleted):
                self._dropped.add(topic_id)
            elif topic_id in self._heads:
                self._heads[topic_id] = max(self._heads[topic_id], last_seq)


def frame_seqs(frame: Frame) -> Iterator[tuple[int, int, int, control_messages.Message | None]]:
    """For each block of a frame: topic id, first and last seq, and the control message if any."""
    if isinstance(frame, SingleFrame):
        yield frame.topic_id, frame.seq, frame.seq, None
        return
    for _, view in frame.blocks:
        content = block.Block(view)
        if content.kind == block.CONTROL:
            yield content.topic_id, 0, 0, control_messages.decode(content.control_payload())
        else:
            yield content.topic_id, content.first_seq, content.last_seq, None


def _missing(log: ShardLog, lsn: int) -> Corrupt:
    shard = log.files.shard
    reason = f"WAL files of shard {shard} from lsn {lsn} on are missing"
    return Corrupt(reason, path=log.files.directory)


def _sync(disk: Disk, path: str) -> None:
    try:
        file = disk.open_log(path)
        try:
            file.sync()
        finally:
            file.close()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise as_unavailable(error, "the log's last bytes") from error
