"""Writes checkpoint files and removes what no kept checkpoint needs.

The two newest checkpoints are kept. A file is removed when neither names it: log files by the lsn
from which the older checkpoint replays, segments by the number of the last checkpoint that listed
them. Removal is lazy and repeatable: a file that reappears after a crash is one that nothing refers
to. While a pin is held (``log/files/pins.py``) nothing is removed, and ``wal.retained_bytes`` of
the log stay longer.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping

from strandline.errors import Closed
from strandline.lake.cold_index import ColdEntry
from strandline.log.catalog import Catalog
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files.checkpoint_codec import GapEntry, ShardEntry, StoreCheckpoint, TopicEntry
from strandline.log.files.pins import Pins
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.state.deleted_payload import acquire_resolved
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.log_files import LOCATION_LSN, LOCATION_SHARD_BITS, first_lsn_of
from strandline.platform.disk import Disk

CHECKPOINTS_KEPT = 2
_CAPTURED_AT_ONCE = 256


class CheckpointStore:
    """The checkpoints of a store. Owned by the checkpoint job."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        catalog: Catalog,
        library: SegmentSet,
        current: StoreCheckpoint,
        *,
        shard_directory: Callable[[int], str],
        quarantine: str,
        retired_ends: Mapping[int, int],
        pins: Pins | None = None,
        log_kept: int = 0,
    ) -> None:
        """``retired_ends``: the end lsns of the logs of shards that are no longer used."""
        self.current = current
        self.previous = current
        self._disk = disk
        self._directory = directory
        self._catalog = catalog
        self._library = library
        self._shard_directory = shard_directory
        self._quarantine = quarantine
        self._retired_ends = retired_ends
        self._pins = pins
        self._log_kept = log_kept
        self._doomed: list[tuple[int, str]] = []
        self._first_number = current.number
        self._closed = False

    def close(self) -> None:
        """Write no more checkpoints: another process may open the store soon."""
        self._closed = True

    def remove_later(self, path: str, last_number: int) -> None:
        """Remove a file once no kept checkpoint refers to it; ``last_number`` is the last one."""
        self._doomed.append((last_number, path))

    def write(
        self,
        replay_lsns: dict[int, int],
        segments: list[int],
        term: int,
        sizes: dict[int, int] | None = None,
        copied: Mapping[int, int] | None = None,
    ) -> None:
        """Make a new checkpoint durable: these segments, and replay of the log from these lsns.

        ``sizes`` is the payload by topic that this checkpoint covers and the last one did not;
        ``copied`` is the seq up to which a topic's copies that were in memory are in segments.
        """
        if self._closed:
            raise Closed("the store is closed: open it again")
        topics = self._capture(replay_lsns, sizes or {}, copied or {})
        synced = {}
        for shard in self._catalog.shards:
            # The captured state may be after the checkpoint's lsn, but never after the synced end.
            shard.committer.wait_synced(shard.writer.end_lsn)
            synced[shard.number] = shard.committer.synced
        library, lake = self._library, self._catalog.lake
        # Skip the number of a damaged checkpoint, too: its file stays while it may be needed.
        numbers = checkpoint_file.numbers_in(self._disk, self._directory)
        root = StoreCheckpoint(
            number=max([self.current.number, *numbers]) + 1,
            store_id=self.current.store_id,
            term=term,
            next_topic_id=self._catalog.next_topic_id,
            next_file_number=library.next_number,
            last_ts=max((shard.writer.last_ts for shard in self._catalog.shards), default=0),
            shards=[
                ShardEntry(shard=shard, replay_lsn=lsn, durable_lsn=synced.get(shard, lsn))
                for shard, lsn in sorted(replay_lsns.items())
            ],
            segments=[library.segments[number].info for number in segments],
            topics=topics,
            lake_trash=sorted(self._catalog.lake_trash),
            lake=self.current.lake if lake is None else lake.identity.ref,
        )
        path = checkpoint_file.path_of(self._directory, root.number)
        self._disk.durable_replace(path, checkpoint_file.encode(root))
        self.previous, self.current = self.current, root

    def clean(self) -> None:
        """Remove old checkpoints, and files that only they needed."""
        if self._pins is not None and self._pins.is_held():
            return
        for number in checkpoint_file.numbers_in(self._disk, self._directory):
            if number < self.previous.number:
                self._disk.remove(checkpoint_file.path_of(self._directory, number))
        keep = []
        for last_number, path in self._doomed:
            if last_number < self.previous.number:
                self._library.remove(path)
            else:
                keep.append((last_number, path))
        self._doomed = keep
        for shard in self._catalog.shards:
            replay_lsn = self.previous.replay_lsn(shard.number)
            shard.writer.acquire()
            try:
                kept_lsn = shard.writer.end_lsn - self._log_kept
                gone = shard.writer.files.drop_below(min(replay_lsn, kept_lsn))
            finally:
                shard.writer.release()
            for path in gone:
                self._disk.remove(path)
        if self.current.number >= self._first_number + CHECKPOINTS_KEPT:
            self._remove_set_aside()
        active = {shard.number for shard in self._catalog.shards}
        for entry in self.previous.shards:
            # Some checkpoints move no records: the same lsn in both does not mean all is covered.
            end_lsn = self._retired_ends.get(entry.shard, entry.replay_lsn)
            covered = min(entry.replay_lsn, self.current.replay_lsn(entry.shard)) >= end_lsn
            if entry.shard not in active and covered:
                self._remove_shard(self._shard_directory(entry.shard))

    def _remove_set_aside(self) -> None:
        """Remove what an opening set aside: two good checkpoints did not need it."""
        for shard in self._catalog.shards:
            directory = shard.writer.files.directory
            for name in self._disk.list_dir(directory):
                if name.endswith(".cut"):
                    self._disk.remove(f"{directory}/{name}")
        for name in self._disk.list_dir(self._quarantine):
            self._disk.remove(f"{self._quarantine}/{name}")

    def _remove_shard(self, directory: str) -> None:
        """Remove the files of a shard that is no longer used and wholly covered."""
        for name in self._disk.list_dir(directory):
            if first_lsn_of(name) is not None:
                self._disk.remove(f"{directory}/{name}")

    def _capture(
        self, replay_lsns: dict[int, int], sizes: dict[int, int], copied: Mapping[int, int]
    ) -> list[TopicEntry]:
        """The entries of all topics now, a few at a time under their writers' locks."""
        states = self._catalog.states()
        entries = []
        for shard in self._catalog.shards:
            members = [state for state in states if state.shard == shard.number]
            for first in range(0, len(members), _CAPTURED_AT_ONCE):
                group = members[first : first + _CAPTURED_AT_ONCE]
                acquire_resolved(shard.writer, group)
                try:
                    entries += [
                        entry_of(state, replay_lsns, sizes.get(state.id, 0), copied.get(state.id))
                        for state in group
                        if not state.dropped
                    ]
                finally:
                    shard.writer.release()
        return entries


def covered_by(state: TopicState, replay_lsns: dict[int, int]) -> int:
    """The last seq of a topic that is below the lsns from which replay begins."""
    tail = state.tail
    place = bisect.bisect_left(
        tail.locations, True, key=lambda location: is_replayed(location, replay_lsns)
    )
    if place < len(tail.locations):
        return tail.firsts[place] - 1
    if state.memory is not None and state.memory.pieces:
        return state.memory.first_seq - 1
    return state.head_seq


def is_replayed(location: int, replay_lsns: dict[int, int]) -> bool:
    """Whether a frame is at or after the lsn from which replay begins."""
    # A shard that was added and removed since the last checkpoint is in none: replay all of it.
    return location & LOCATION_LSN >= replay_lsns.get(location >> LOCATION_SHARD_BITS, 0)


def entry_of(
    state: TopicState, replay_lsns: dict[int, int], payload: int, copied: int | None = None
) -> TopicEntry:
    """The entry of a topic in a checkpoint."""
    if state.deleted and state.deleted.min() < state.floor:
        state.deleted = state.deleted.copy()
        state.deleted.remove_range(0, state.floor)
    state.gaps = tuple(gap for gap in state.gaps if gap.last_seq >= state.floor)
    covered = covered_by(state, replay_lsns) if copied is None else copied
    deleted = state.deleted
    if deleted and state.config.durability == "ephemeral":
        deleted = deleted.copy()
        deleted.remove_range(covered + 1, deleted.max() + 1)  # those will be lost anyway
    return TopicEntry(
        id=state.id,
        name=state.name,
        config=state.config,
        epoch=state.epoch,
        created_us=state.created_us,
        covered=covered,
        covered_payload=state.covered_payload + payload,
        last_ts=state.last_ts,
        evict_floor=state.evict_floor,
        evict_reason=state.evict_reason,
        delete_floor=state.delete_floor,
        gone_payload=_gone_payload(state),
        ceiling=state.ceiling_requested,
        deleted=deleted.serialize() if deleted else b"",
        gaps=[GapEntry(gap.first_seq, gap.last_seq, gap.reason) for gap in state.gaps],
        idempotency=_idempotency(state),
        cold=state.cold.encode() if state.cold is not None else ColdEntry(),
        producers=[(name, *newest) for name, newest in (state.producers or {}).items()],
    )


def _idempotency(state: TopicState) -> list[tuple[bytes, int, int, int]]:
    if state.idempotency is None:
        return []
    writer = None if state.home is None else state.home.writer
    return state.idempotency.dump(0 if writer is None else writer.elapsed.lag_us(writer.last_ts))


def _gone_payload(state: TopicState) -> int:
    """The removed payload without that of an ephemeral tail, which a restart never counted."""
    if state.config.durability == "ephemeral" and state.memory is not None:
        return state.gone_payload - state.memory.gone_payload(state.floor, state.deleted)
    return state.gone_payload
