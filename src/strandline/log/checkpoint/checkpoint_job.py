"""The checkpoint job: moves the records of the log into segments, then removes log files.

    1 sync the log; everything up to here is what this checkpoint covers
    2 read that part of the log, frame by frame, and sort the records by topic; copies that the log
      only refers to are taken from memory
    3 write segments: one for each topic with many new records, one shared by all the others; and
      again, when the log has more than fits into memory: it may grow faster than it is checkpointed
    4 write a checkpoint file that lists them, with the lsns from which replay begins
      (``log/checkpoint/checkpoint_store.py``)
    5 point the topics at the segments, drop their tail entries, put a mark on the log
    6 remove log files that neither of the two newest checkpoints needs

A crash before 4 leaves segments that nothing refers to; one after 4 leaves log files whose records
are known to be covered. No step changes a file that an older checkpoint refers to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from strandline.config.settings import SegmentSettings
from strandline.log.append.append import update_fast_limit
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.checkpoint_store import CheckpointStore, covered_by, is_replayed
from strandline.log.segments import codec
from strandline.log.segments.reader import Segment
from strandline.log.segments.rows import RecordRows, in_blocks, of_block, of_singles
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.state.memory_tail import Row
from strandline.log.state.topic_state import SegmentRun, TopicState
from strandline.log.wal import block, control_messages
from strandline.log.wal.codec import data_size, split_single
from strandline.log.wal.recovery import Frame, ShardLog, SingleFrame, in_order
from strandline.log.wal.shard import Shard
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk

BLOCK_BYTES_MAX = 1 << 20


class Checkpointer:
    """Used by one thread at a time; appends, reads and deletes continue meanwhile."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        catalog: Catalog,
        library: SegmentSet,
        checkpoints: CheckpointStore,
        settings: SegmentSettings,
        *,
        shard_directory: Callable[[int], str],
        old_shards: Sequence[int],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._catalog = catalog
        self._library = library
        self._checkpoints = checkpoints
        self._settings = settings
        self._shard_directory = shard_directory
        self._old_shards = tuple(old_shards)
        self._last_s = clock.monotonic()
        self._marked: dict[int, int] = {}

    def is_due(self) -> bool:
        """Whether the log has grown or aged enough."""
        waiting = sum(self._waiting(shard.number) for shard in self._catalog.shards)
        waiting += sum(shard.copied_bytes for shard in self._catalog.shards)
        log_bytes = sum(self._log_bytes_needed(shard) for shard in self._catalog.shards)
        age_s = self._clock.monotonic() - self._last_s
        return (
            waiting >= self._settings.checkpoint_bytes
            or (waiting > 0 and age_s >= self._settings.checkpoint_interval_s)
            or (waiting > 0 and log_bytes >= 4 * self._settings.checkpoint_bytes)
        )

    def checkpoint(self) -> None:
        """Do all six steps once."""
        upto = {}
        for shard in self._catalog.shards:
            shard.flush()
            shard.copied_bytes = 0
            shard.committer.sync_now()
            upto[shard.number] = shard.committer.synced
        new_runs: dict[int, list[SegmentRun]] = {}
        payloads: dict[int, int] = {}
        copies = [each for state in self._catalog.states() if (each := copies_of(state, upto))]
        with contextlib.closing(self._gather(upto, copies)) as parts:
            for part in parts:
                self._write_segments(part.finish(), new_runs)
                for topic_id, payload in part.payloads.items():
                    payloads[topic_id] = payloads.get(topic_id, 0) + payload
        copied = {each.state.id: each.last_seq for each in copies}
        self._checkpoints.write(upto, list(self._library.segments), self._term(), payloads, copied)
        self._swap(new_runs, upto, payloads, copied)
        for shard in self._catalog.shards:
            self._mark(shard.number, upto[shard.number])
        self._checkpoints.clean()
        self._last_s = self._clock.monotonic()

    def _log_bytes_needed(self, shard: Shard) -> int:
        """Bytes of log files that a checkpoint needs, without those that are kept for backups."""
        return shard.writer.files.size_without_newest(
            self._checkpoints.previous.replay_lsn(shard.number)
        )

    def _waiting(self, shard: int) -> int:
        done = max(self._checkpoints.current.replay_lsn(shard), self._marked.get(shard, 0))
        return self._catalog.shards[shard].writer.end_lsn - done

    def _term(self) -> int:
        return max(shard.writer.term for shard in self._catalog.shards)

    def _gather(
        self, upto: dict[int, int], copies: Sequence[_MemoryCopies]
    ) -> Generator[_RecordCollector, None, None]:
        """The records below these lsns that are not yet in segments, by topic; in portions of about
        ``checkpoint_bytes``. Adds to ``upto`` the lsns of shards that are no longer used."""
        root = self._checkpoints.current
        store_id = root.store_id
        logs = []
        for shard in {*upto, *self._old_shards}:
            logs.append(ShardLog(self._disk, self._shard_directory(shard), shard, store_id))
        collector = _RecordCollector(self._catalog)
        try:
            for log, place in in_order(logs):
                shard = log.files.shard
                start = root.replay_lsn(shard)
                end = log.files.end_of(place)
                if end is not None and end <= start:
                    continue
                for frame in log.scan(place, start, until_lsn=upto.get(shard)):
                    collector.add(frame)
                    if collector.size >= self._settings.checkpoint_bytes:
                        yield collector
                        collector = _RecordCollector(self._catalog)
            for log in logs:
                known = root.replay_lsn(log.files.shard)
                upto.setdefault(log.files.shard, max(log.end_lsn, known))
        finally:
            for log in logs:
                log.files.close()
        for each in copies:
            collector.add_copies(each)
        yield collector

    def _write_segments(
        self, rows: dict[int, list[RecordRows]], new_runs: dict[int, list[SegmentRun]]
    ) -> None:
        """Write segments for these rows; add the new runs by topic to ``new_runs``."""
        large: dict[int, list[RecordRows]] = {}
        small: dict[int, list[RecordRows]] = {}
        for topic_id, parts in sorted(rows.items()):
            size = sum(part.data.nbytes for part in parts)
            count = sum(len(part.data) for part in parts)
            own = size >= self._settings.seal_bytes // 2 or count >= self._settings.seal_records
            (large if own else small)[topic_id] = parts
        for topic_id, parts in large.items():
            self.write_segment(topic_id, {topic_id: parts}, new_runs)
        if small:
            self.write_segment(codec.SHARED, small, new_runs)

    def write_segment(
        self,
        owner: int,
        parts_by_topic: dict[int, list[RecordRows]],
        new_runs: dict[int, list[SegmentRun]],
    ) -> Segment:
        """Write one segment file with the rows of these topics; add its runs to ``new_runs``."""
        first_seq = next(iter(parts_by_topic.values()))[0].first_seq
        writer, info = self._library.begin_segment(owner, first_seq)
        rows_max = self._settings.block_records
        try:
            for topic_id, parts in parts_by_topic.items():
                for rows in in_blocks(parts, rows_max, BLOCK_BYTES_MAX):
                    writer.add(topic_id, rows)
            segment = self._library.finish_segment(writer, info, self._clock.now_us())
        finally:
            writer.abandon()
        for topic_id, run in runs_of(segment):
            new_runs.setdefault(topic_id, []).append(run)
        return segment

    def _swap(
        self,
        new_runs: dict[int, list[SegmentRun]],
        replay_lsns: dict[int, int],
        payloads: dict[int, int],
        copied: dict[int, int],
    ) -> None:
        for state in self._catalog.states():
            if not (state.tail.locations or state.id in new_runs or state.id in copied):
                continue
            writer = self._catalog.shard_of(state).writer
            writer.acquire()
            try:
                last_seq = copied.get(state.id)
                covered = covered_by(state, replay_lsns) if last_seq is None else last_seq
                state.covered_payload += payloads.get(state.id, 0)
                state.runs = (*state.runs, *new_runs.get(state.id, ()))
                state.tail = state.tail.from_seq(covered + 1)
                if last_seq is not None and state.memory is not None:
                    state.memory = state.memory.after(last_seq)
                    update_fast_limit(state)
            finally:
                writer.release()

    def _mark(self, shard: int, lsn: int) -> None:
        writer = self._catalog.shards[shard].writer
        writer.acquire()
        try:
            # The mark itself does not count as waiting, unless there were other appends meanwhile.
            quiet = writer.end_lsn == lsn
            if writer.has_file:
                writer.place_control(
                    0, control_messages.Checkpointed(self._checkpoints.current.number, lsn)
                )
            if quiet:
                self._marked[shard] = writer.end_lsn
        finally:
            writer.release()


class _MemoryCopies(NamedTuple):
    """Copies of a topic that are in memory, when everything before them is below these lsns."""

    state: TopicState
    last_seq: int
    blocks: list[block.Block]


def copies_of(state: TopicState, upto: dict[int, int]) -> _MemoryCopies | None:
    """The copies that are in memory now; None when there are none, or when some records before them
    are not below the lsns: then the topic has appends of its own, and its copies are on the log."""
    memory, shard = state.memory, state.home
    if memory is None or shard is None or state.config.durability not in ("disk", "fsync"):
        return None
    with state.guard:
        memory, tail = state.memory, state.tail
        if memory is None or (tail.locations and is_replayed(tail.locations[-1], upto)):
            return None
        blocks = [piece for piece in memory.pieces if isinstance(piece, block.Block)]
        blocks = [piece for piece in blocks if piece.last_seq <= state.head_seq]
        # Up to the head, and not only to the last copy: a gap may follow it.
        return _MemoryCopies(state, state.head_seq, blocks) if blocks else None


class _RecordCollector:
    """Sorts the records of frames by topic."""

    def __init__(self, catalog: Catalog) -> None:
        self.payloads: dict[int, int] = {}
        """Payload bytes by topic of all that was covered, kept or not."""
        self.size = 0
        """The payload bytes of all topics together."""
        self._catalog = catalog
        self._parts: dict[int, list[RecordRows]] = {}
        self._singles: dict[int, tuple[int, list[Row]]] = {}

    def add(self, frame: Frame) -> None:
        if isinstance(frame, SingleFrame):
            if self._is_needed(frame.topic_id, frame.seq, data_size(frame.body)):
                self._add_single(frame)
            return
        for _, view in frame.blocks:
            content = block.Block(view)
            if content.kind == block.RECORDS and self._is_needed(
                content.topic_id, content.last_seq, content.payload_size
            ):
                self._close(content.topic_id)
                self._add_rows(content.topic_id, of_block(content))

    def add_copies(self, copies: _MemoryCopies) -> None:
        """Add copies, which come after what the log has of their topic."""
        state = copies.state
        self._close(state.id)
        for content in copies.blocks:
            self.payloads[state.id] = self.payloads.get(state.id, 0) + content.payload_size
            if content.last_seq >= state.floor and not state.dropped:
                self._add_rows(state.id, of_block(content))

    def finish(self) -> dict[int, list[RecordRows]]:
        for topic_id in list(self._singles):
            self._close(topic_id)
        return self._parts

    def _add_single(self, frame: SingleFrame) -> None:
        topic_id, seq = frame.topic_id, frame.seq
        first_seq, rows = self._singles.setdefault(topic_id, (seq, []))
        if first_seq + len(rows) != seq:
            self._close(topic_id)
            _, rows = self._singles.setdefault(topic_id, (seq, []))
        rows.append((frame.ts, *split_single(frame.sizes, frame.body)))

    def _is_needed(self, topic_id: int, last_seq: int, payload: int) -> bool:
        state = self._catalog.by_id(topic_id)
        if state is None or not state.tail.first_seq <= last_seq <= state.head_seq:
            return False
        self.payloads[topic_id] = self.payloads.get(topic_id, 0) + payload
        self.size += payload
        return last_seq >= state.floor

    def _close(self, topic_id: int) -> None:
        waiting = self._singles.pop(topic_id, None)
        if waiting is not None:
            self._add_rows(topic_id, of_singles(*waiting))

    def _add_rows(self, topic_id: int, rows: RecordRows) -> None:
        state = self._catalog.by_id(topic_id)
        if state is not None and state.deleted:
            rows = rows.without(state.deleted)
        self._parts.setdefault(topic_id, []).append(rows)


def runs_of(segment: Segment) -> list[tuple[int, SegmentRun]]:
    """The runs in a segment: one for its owner; in a shared one, blocks without a gap between."""
    info = segment.info
    if info.topic_id != codec.SHARED:
        run = SegmentRun(segment, info.first_seq, info.last_seq, info.payload_size, 0, -1)
        return [(info.topic_id, run)]
    index = segment.index()
    topics = index.topic.tolist()
    firsts, counts = index.first_seq.tolist(), index.count.tolist()
    sizes = index.payload_size.tolist()
    runs = []
    place = 0
    while place < len(topics):
        following = place + 1
        while (
            following < len(topics)
            and topics[following] == topics[place]
            and firsts[following] == firsts[following - 1] + counts[following - 1]
        ):
            following += 1
        last_seq = firsts[following - 1] + counts[following - 1] - 1
        payload = sum(sizes[place:following])
        run = SegmentRun(segment, firsts[place], last_seq, payload, place, following)
        runs.append((topics[place], run))
        place = following
    return runs
