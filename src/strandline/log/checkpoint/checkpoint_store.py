"""Writes checkpoint roots and removes what no kept root needs.

The two newest roots are kept. A file leaves when neither names it: WAL files by the lsn from which
the older root replays, segments by the number of the last root that listed them. Removing is lazy
and repeatable: a file that comes back after a crash is one that nothing refers to. While a pin is
held (``log/files/pins.py``) nothing leaves, and of the log ``wal.keep_bytes`` stay longer.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping

from strandline.errors import Closed
from strandline.lake.cold_index import ColdEntry
from strandline.log.catalog import Catalog
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files.checkpoint_codec import GapEntry, Root, ShardEntry, TopicEntry
from strandline.log.files.pins import Pins
from strandline.log.segments.segment_set import Library
from strandline.log.state.deleted_payload import acquire_settled
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.log_files import LOCATION_LSN, LOCATION_SHARD_BITS, first_lsn_of
from strandline.platform.disk import Disk

KEPT = 2
_CAPTURED_AT_ONCE = 256


class Roots:
    """The checkpoints of a store. Owned by the checkpoint job."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        catalog: Catalog,
        library: Library,
        current: Root,
        *,
        shard_directory: Callable[[int], str],
        quarantine: str,
        retired_ends: Mapping[int, int],
        pins: Pins | None = None,
        log_kept: int = 0,
    ) -> None:
        """``retired_ends`` says where the logs of shards end that are no longer used."""
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
        """Write none from now on: the store may soon be another process's."""
        self._closed = True

    def doom(self, path: str, last_root: int) -> None:
        """Remove a file once no kept root can refer to it: this one still does."""
        self._doomed.append((last_root, path))

    def write(
        self,
        replay_lsns: dict[int, int],
        segments: list[int],
        term: int,
        news: dict[int, int] | None = None,
        copied: Mapping[int, int] | None = None,
    ) -> None:
        """Make a new root durable: these segments, and replay of the WAL from these lsns.

        ``news`` is the payload by topic that this root covers and the last one did not, ``copied``
        up to which seq the copies of a topic that were in memory are in segments.
        """
        if self._closed:
            raise Closed("the store is closed: open it again")
        topics = self._capture(replay_lsns, news or {}, copied or {})
        synced = {}
        for shard in self._catalog.shards:
            # What was captured may lie behind the lsn of the root, but never behind the disk.
            shard.committer.wait_synced(shard.writer.end_lsn)
            synced[shard.number] = shard.committer.synced
        library, lake = self._library, self._catalog.lake
        # Past a damaged root's number, too: its file is left alone while it might be needed.
        numbers = root_file.numbers_in(self._disk, self._directory)
        root = Root(
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
        path = root_file.path_of(self._directory, root.number)
        self._disk.durable_replace(path, root_file.encode(root))
        self.previous, self.current = self.current, root

    def clean(self) -> None:
        """Remove old roots, and files that only they needed."""
        if self._pins is not None and self._pins.held():
            return
        for number in root_file.numbers_in(self._disk, self._directory):
            if number < self.previous.number:
                self._disk.remove(root_file.path_of(self._directory, number))
        keep = []
        for last_root, path in self._doomed:
            if last_root < self.previous.number:
                self._library.remove(path)
            else:
                keep.append((last_root, path))
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
        if self.current.number >= self._first_number + KEPT:
            self._remove_set_aside()
        active = {shard.number for shard in self._catalog.shards}
        for entry in self.previous.shards:
            # Also roots without a checkpoint are written, so that two agree does not mean covered.
            end_lsn = self._retired_ends.get(entry.shard, entry.replay_lsn)
            covered = min(entry.replay_lsn, self.current.replay_lsn(entry.shard)) >= end_lsn
            if entry.shard not in active and covered:
                self._remove_shard(self._shard_directory(entry.shard))

    def _remove_set_aside(self) -> None:
        """Remove what reopening set aside: two good checkpoints have not missed it."""
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
        self, replay_lsns: dict[int, int], news: dict[int, int], copied: Mapping[int, int]
    ) -> list[TopicEntry]:
        """Every topic as of now, a few at a time under their writers' locks."""
        states = self._catalog.states()
        entries = []
        for shard in self._catalog.shards:
            mine = [state for state in states if state.shard == shard.number]
            for first in range(0, len(mine), _CAPTURED_AT_ONCE):
                group = mine[first : first + _CAPTURED_AT_ONCE]
                acquire_settled(shard.writer, group)
                try:
                    entries += [
                        entry_of(state, replay_lsns, news.get(state.id, 0), copied.get(state.id))
                        for state in group
                        if not state.dropped
                    ]
                finally:
                    shard.writer.release()
        return entries


def covered_by(state: TopicState, replay_lsns: dict[int, int]) -> int:
    """The last seq below the lsns from which replay begins."""
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
    """Whether a frame lies where replay begins, or behind."""
    # A shard that came and went since the last checkpoint is in no root: all of it is replayed.
    return location & LOCATION_LSN >= replay_lsns.get(location >> LOCATION_SHARD_BITS, 0)


def entry_of(
    state: TopicState, replay_lsns: dict[int, int], news: int, copied: int | None = None
) -> TopicEntry:
    """A topic as a root keeps it."""
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
        covered_payload=state.covered_payload + news,
        last_ts=state.last_ts,
        evict_floor=state.evict_floor,
        evict_reason=state.evict_reason,
        delete_floor=state.delete_floor,
        gone_payload=_gone_payload(state),
        ceiling=state.ceiling_asked,
        deleted=deleted.serialize() if deleted else b"",
        gaps=[GapEntry(gap.first_seq, gap.last_seq, gap.reason) for gap in state.gaps],
        idempotency=_idempotency(state),
        cold=state.cold.encode() if state.cold is not None else ColdEntry(),
        producers=[(name, *taken) for name, taken in (state.producers or {}).items()],
    )


def _idempotency(state: TopicState) -> list[tuple[bytes, int, int, int]]:
    if state.idempotency is None:
        return []
    writer = None if state.home is None else state.home.writer
    return state.idempotency.dump(0 if writer is None else writer.elapsed.behind_us(writer.last_ts))


def _gone_payload(state: TopicState) -> int:
    """What a restart must not count: what went of an ephemeral tail was never counted there."""
    if state.config.durability == "ephemeral" and state.memory is not None:
        return state.gone_payload - state.memory.gone_payload(state.floor, state.deleted)
    return state.gone_payload
