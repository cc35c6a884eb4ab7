"""Writes a checkpoint of everything that can be read: the writing half of a repair.

Records whose file is damaged are searched elsewhere (``log/repair/salvage.py``). What is found, and
what is only in the log, is written to new shared segments: their runs may have gaps, and other runs
of the same topic in between. With the new checkpoints replay begins above every lsn of the old log.
"""

from __future__ import annotations

from pyroaring import BitMap64

from strandline.config.settings import Settings
from strandline.log.checkpoint.checkpoint_job import Checkpointer, runs_of
from strandline.log.checkpoint.checkpoint_store import CHECKPOINTS_KEPT, CheckpointStore, entry_of
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files.checkpoint_codec import ShardEntry, StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.recovery.recover import StoreState, current_runs, numbers_in, uncovered
from strandline.log.repair import salvage
from strandline.log.repair.salvage import Span
from strandline.log.segments.codec import SHARED
from strandline.log.segments.rows import RecordRows, of_block, of_singles
from strandline.log.state.locator import TopicReader
from strandline.log.state.memory_tail import Row
from strandline.log.state.topic_state import Gap, SegmentRun, TailIndex, TopicState
from strandline.log.wal.log_files import SINGLE_AT
from strandline.log.wal.recovery import ShardLog
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk

_SALVAGED_BYTES_MAX = 64 << 20
_KIND = 7


class Rewriter:
    """Call ``run``, then ``finish``; until then no file refers to new ones. Owned by one thread."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        settings: Settings,
        clock: Clock,
        store: StoreState,
        bad: set[str],
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._store = store
        self._bad = bad
        self._written: list[str] = []
        self._affected: set[int] = set()
        self._new_runs: dict[int, list[SegmentRun]] = {}
        store.library.next_number = max(
            [store.library.next_number, *(number + 1 for number in numbers_in(store.library))]
        )
        roots = CheckpointStore(
            disk,
            layout.meta,
            store.catalog,
            store.library,
            store.root,
            shard_directory=layout.shard,
            quarantine=layout.quarantine,
            retired_ends={},
        )
        self._checkpointer = Checkpointer(
            disk,
            clock,
            store.catalog,
            store.library,
            roots,
            settings.segment,
            shard_directory=layout.shard,
            old_shards=(),
        )

    def run(self, *, dry_run: bool) -> None:
        """Search for all records whose file is damaged; what is found nowhere becomes a gap."""
        store = self._store
        known = {entry.id: len(entry.gaps) for entry in store.root.topics}
        self._drop_bad_segments()
        wanted = salvage.MissingSeqs()
        for state in store.catalog.states():
            if state.id in store.deleted:
                state.deleted = store.deleted[state.id] | (state.deleted or BitMap64())
            gaps = [*state.gaps[known.get(state.id, 0) :], *uncovered(state, state.local_next)]
            spans = [(gap.first_seq, gap.last_seq) for gap in gaps if gap.reason == "damaged"]
            wanted.spans[state.id] = _joined(spans, state.floor)
            if any(last_seq >= state.cold_next for _, last_seq in wanted.spans[state.id]):
                self._affected.add(state.id)
        self._salvage(wanted, dry_run=dry_run)
        for state in store.catalog.states():
            old = state.gaps[: known.get(state.id, 0)]
            new = [gap for gap in state.gaps[len(old) :] if gap.reason != "damaged"]
            # What the lake has is not lost, even if it could not be read just now.
            self._release_local_copies(state, wanted.spans[state.id])
            spans = [(max(first, state.cold_next), last) for first, last in wanted.spans[state.id]]
            lost = [Gap(first, last, "damaged") for first, last in spans if first <= last]
            state.gaps = (*old, *new, *lost)
            _undelete_lost(state)

    def finish(self) -> list[str]:
        """Write the log's records and the new checkpoints; returns the paths of all new files."""
        store = self._store
        parts: dict[int, list[RecordRows]] = {}
        for state in store.catalog.states():
            rows = self._tail_rows(state)
            if rows:
                parts[state.id] = rows
        self._write(parts)
        for state in store.catalog.states():
            runs = [*state.runs, *self._new_runs.get(state.id, ())]
            runs = [run for run in runs if run.last_seq >= state.hot_seq]
            state.runs = tuple(sorted(runs, key=lambda run: run.first_seq))
            state.tail = TailIndex(state.next_seq)
            if state.id in self._affected:
                pieces = TopicReader(state, store.reader)
                state.payload = pieces.payload_between(state.floor, state.next_seq)
                state.gone_payload = 0
            state.covered_payload = state.payload
        self._write_checkpoints()
        return self._written

    def _release_local_copies(self, state: TopicState, spans: list[Span]) -> None:
        """Release local copies up to the end of what only the lake has."""
        cold = state.cold
        holes = [min(last, state.cold_next - 1) for first, last in spans if first < state.cold_next]
        if cold is None or not holes:
            return
        state.cold = cold.with_released(cold.lasts[cold.find(max(holes))], {})
        self._affected.add(state.id)
        for run in state.runs:
            if run.last_seq < state.hot_seq and run.segment.info.topic_id != SHARED:
                self._store.library.retire(run.segment.info.number)
        state.runs = tuple(run for run in state.runs if run.last_seq >= state.hot_seq)

    def _drop_bad_segments(self) -> None:
        """Make every topic use intact segments only, also older ones that were replaced."""
        store = self._store
        for number, segment in list(store.library.segments.items()):
            if segment.path in self._bad:
                store.library.retire(number)
        runs: dict[int, list[SegmentRun]] = {}
        for segment in store.library.segments.values():
            for topic_id, run in runs_of(segment):
                runs.setdefault(topic_id, []).append(run)
        for state in store.catalog.states():
            state.runs = current_runs(runs.get(state.id, []), state.local_next)

    def _salvage(self, wanted: salvage.MissingSeqs, *, dry_run: bool) -> None:
        if not wanted:
            return
        disk, layout, store_id = self._disk, self._layout, self._store.store_id
        files = salvage.segment_files(disk, layout)
        files.sort(key=lambda path: path not in self._bad)
        logs = [
            ShardLog(disk, layout.shard(shard), shard, store_id, tolerate=True)
            for shard in layout.shards_on(disk)
        ]
        places = [salvage.in_segment(disk, path, store_id) for path in files]
        places.append(salvage.in_logs(logs))
        lake = self._store.catalog.lake
        if lake is not None:
            places.append(salvage.in_lake(lake, self._store.catalog.states(), wanted))
        parts: dict[int, list[RecordRows]] = {}
        size = 0
        try:
            for topic_id, rows in salvage.search(wanted, places):
                if not dry_run:
                    parts.setdefault(topic_id, []).append(self._drop_deleted(topic_id, rows))
                    size += rows.data.nbytes
                if size >= _SALVAGED_BYTES_MAX:
                    self._write(parts)
                    parts, size = {}, 0
            self._write(parts)
        finally:
            for log in logs:
                log.files.close()

    def _drop_deleted(self, topic_id: int, rows: RecordRows) -> RecordRows:
        state = self._store.catalog.by_id(topic_id)
        return rows.without(state.deleted) if state is not None and state.deleted else rows

    def _tail_rows(self, state: TopicState) -> list[RecordRows]:
        """The records of a topic that are only in the log."""
        reader = self._store.reader()
        parts: list[RecordRows] = []
        singles: list[Row] = []
        following = 0
        for first_seq, location in zip(state.tail.firsts, state.tail.locations, strict=True):
            if singles and (location & _KIND != SINGLE_AT or first_seq != following):
                parts.append(of_singles(following - len(singles), singles))
                singles = []
            if location & _KIND == SINGLE_AT:
                _, _, fields, data, ts = reader.single(location)
                singles.append((ts, fields, data))
                following = first_seq + 1
            else:
                parts.append(of_block(reader.block(location)))
        if singles:
            parts.append(of_singles(following - len(singles), singles))
        return [self._drop_deleted(state.id, rows) for rows in parts if rows.next_seq > state.floor]

    def _write(self, parts: dict[int, list[RecordRows]]) -> None:
        """Write one shared segment; its runs may have gaps, with other runs of their topics."""
        if not parts:
            return
        ordered = {
            topic_id: sorted(parts[topic_id], key=lambda rows: rows.first_seq)
            for topic_id in sorted(parts)
        }
        segment = self._checkpointer.write_segment(SHARED, ordered, self._new_runs)
        self._written.append(segment.path)

    def _write_checkpoints(self) -> None:
        store, folder = self._store, self._layout.meta
        replay_lsns = self._ends()
        number = max([store.root.number, *checkpoint_file.numbers_in(self._disk, folder)])
        segments = [segment.info for segment in store.library.segments.values()]
        topics = [entry_of(state, replay_lsns, 0) for state in store.catalog.states()]
        for _ in range(CHECKPOINTS_KEPT):
            number += 1
            root = StoreCheckpoint(
                number=number,
                store_id=store.store_id,
                term=store.term,
                next_topic_id=store.catalog.next_topic_id,
                next_file_number=store.library.next_number,
                last_ts=store.last_ts,
                shards=[
                    ShardEntry(shard=shard, replay_lsn=lsn, durable_lsn=lsn)
                    for shard, lsn in sorted(replay_lsns.items())
                ],
                segments=segments,
                topics=topics,
                lake_trash=sorted(store.catalog.lake_trash),
                lake=store.root.lake,
            )
            path = checkpoint_file.path_of(folder, number)
            self._disk.make_dirs(folder)
            self._disk.durable_replace(path, checkpoint_file.encode(root))
            self._written.append(path)

    def _ends(self) -> dict[int, int]:
        """For every shard an lsn above all that its files can have."""
        store, disk = self._store, self._disk
        ends = {}
        for shard in {*store.durable, *store.logs, *(entry.shard for entry in store.root.shards)}:
            lsns = [store.durable.get(shard, 0), store.root.replay_lsn(shard)]
            log = store.logs.get(shard)
            if log is not None:
                every = ShardLog(disk, log.files.directory, shard, store.store_id, tolerate=True)
                lsns += [log.end_lsn]
                lsns += [entry.first_lsn + entry.size for entry in every.files.entries]
                every.files.close()
            ends[shard] = max(lsns) + -max(lsns) % 8
        return ends


def _undelete_lost(state: TopicState) -> None:
    """Drop lost records from the deleted ones: the count subtracts both."""
    if state.deleted:
        state.deleted = state.deleted.copy()
        for gap in state.gaps:
            state.deleted.remove_range(gap.first_seq, gap.last_seq + 1)


def _joined(spans: list[Span], floor: int) -> list[Span]:
    """The same seqs from a floor on, in order and without overlap."""
    joined: list[Span] = []
    for low, high in sorted((max(low, floor), high) for low, high in spans if high >= floor):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined
