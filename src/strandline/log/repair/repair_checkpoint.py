"""Makes a checkpoint of all that can still be read: the writing half of a repair.

Records that have lost their place are looked for elsewhere (``log/repair/salvage.py``). What is
found,
and what is only in the log, goes into new shared segments: their runs may have gaps, and other runs
of the same topic in between. The new roots begin replay above everything that the old log can hold.
"""

from __future__ import annotations

from pyroaring import BitMap64

from strandline.config.settings import Settings
from strandline.log.checkpoint.checkpoint_job import Checkpointer, runs_of
from strandline.log.checkpoint.checkpoint_store import KEPT, Roots, entry_of
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files.checkpoint_codec import Root, ShardEntry
from strandline.log.files.layout import Layout
from strandline.log.recovery.recover import Recovered, current_runs, numbers_in, uncovered
from strandline.log.repair import salvage
from strandline.log.repair.salvage import Span
from strandline.log.segments.codec import SHARED
from strandline.log.segments.rows import Rows, of_block, of_singles
from strandline.log.state.locator import Pieces
from strandline.log.state.memory_tail import Row
from strandline.log.state.topic_state import Gap, Run, TailIndex, TopicState
from strandline.log.wal.log_files import SINGLE_AT
from strandline.log.wal.recovery import ShardLog
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk

_RESCUED_BYTES_MAX = 64 << 20
_KIND = 7


class Rewriter:
    """First ``run``, then ``finish``: until then nothing refers to a new file. One thread's."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        settings: Settings,
        clock: Clock,
        found: Recovered,
        bad: set[str],
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._found = found
        self._bad = bad
        self._written: list[str] = []
        self._affected: set[int] = set()
        self._made: dict[int, list[Run]] = {}
        found.library.next_number = max(
            [found.library.next_number, *(number + 1 for number in numbers_in(found.library))]
        )
        roots = Roots(
            disk,
            layout.meta,
            found.catalog,
            found.library,
            found.root,
            shard_directory=layout.shard,
            quarantine=layout.quarantine,
            retired_ends={},
        )
        self._checkpointer = Checkpointer(
            disk,
            clock,
            found.catalog,
            found.library,
            roots,
            settings.segment,
            shard_directory=layout.shard,
            old_shards=(),
        )

    def run(self, *, dry_run: bool) -> None:
        """Look for all that has lost its place; what is found nowhere becomes a gap."""
        found = self._found
        known = {entry.id: len(entry.gaps) for entry in found.root.topics}
        self._drop_bad_segments()
        wanted = salvage.Wanted()
        for state in found.catalog.states():
            if state.id in found.deleted:
                state.deleted = found.deleted[state.id] | (state.deleted or BitMap64())
            gaps = [*state.gaps[known.get(state.id, 0) :], *uncovered(state, state.local_next)]
            spans = [(gap.first_seq, gap.last_seq) for gap in gaps if gap.reason == "damaged"]
            wanted.spans[state.id] = _joined(spans, state.floor)
            if any(last_seq >= state.cold_next for _, last_seq in wanted.spans[state.id]):
                self._affected.add(state.id)
        self._rescue(wanted, dry_run=dry_run)
        for state in found.catalog.states():
            old = state.gaps[: known.get(state.id, 0)]
            new = [gap for gap in state.gaps[len(old) :] if gap.reason != "damaged"]
            # What the lake answers for is not lost, even if its copy could not be had just now.
            self._leave_to_lake(state, wanted.spans[state.id])
            spans = [(max(first, state.cold_next), last) for first, last in wanted.spans[state.id]]
            lost = [Gap(first, last, "damaged") for first, last in spans if first <= last]
            state.gaps = (*old, *new, *lost)
            _forget_lost(state)

    def finish(self) -> list[str]:
        """Write the log's records and the new roots; the paths of all new files."""
        found = self._found
        parts: dict[int, list[Rows]] = {}
        for state in found.catalog.states():
            rows = self._tail_rows(state)
            if rows:
                parts[state.id] = rows
        self._write(parts)
        for state in found.catalog.states():
            runs = [*state.runs, *self._made.get(state.id, ())]
            runs = [run for run in runs if run.last_seq >= state.hot_seq]
            state.runs = tuple(sorted(runs, key=lambda run: run.first_seq))
            state.tail = TailIndex(state.next_seq)
            if state.id in self._affected:
                pieces = Pieces(state, found.reader)
                state.payload = pieces.payload_between(state.floor, state.next_seq)
                state.gone_payload = 0
            state.covered_payload = state.payload
        self._write_roots()
        return self._written

    def _leave_to_lake(self, state: TopicState, spans: list[Span]) -> None:
        """Let go of local copies up to the end of what only the lake still has."""
        cold = state.cold
        holes = [min(last, state.cold_next - 1) for first, last in spans if first < state.cold_next]
        if cold is None or not holes:
            return
        state.cold = cold.with_released(cold.lasts[cold.find(max(holes))], {})
        self._affected.add(state.id)
        for run in state.runs:
            if run.last_seq < state.hot_seq and run.segment.info.topic_id != SHARED:
                self._found.library.retire(run.segment.info.number)
        state.runs = tuple(run for run in state.runs if run.last_seq >= state.hot_seq)

    def _drop_bad_segments(self) -> None:
        """Let every topic use the good segments only, also older ones that it had left behind."""
        found = self._found
        for number, segment in list(found.library.segments.items()):
            if segment.path in self._bad:
                found.library.retire(number)
        runs: dict[int, list[Run]] = {}
        for segment in found.library.segments.values():
            for topic_id, run in runs_of(segment):
                runs.setdefault(topic_id, []).append(run)
        for state in found.catalog.states():
            state.runs = current_runs(runs.get(state.id, []), state.local_next)

    def _rescue(self, wanted: salvage.Wanted, *, dry_run: bool) -> None:
        if not wanted:
            return
        disk, layout, store_id = self._disk, self._layout, self._found.store_id
        files = salvage.segment_files(disk, layout)
        files.sort(key=lambda path: path not in self._bad)
        logs = [
            ShardLog(disk, layout.shard(shard), shard, store_id, tolerate=True)
            for shard in layout.shards_on(disk)
        ]
        places = [salvage.in_segment(disk, path, store_id) for path in files]
        places.append(salvage.in_logs(logs))
        lake = self._found.catalog.lake
        if lake is not None:
            places.append(salvage.in_lake(lake, self._found.catalog.states(), wanted))
        parts: dict[int, list[Rows]] = {}
        size = 0
        try:
            for topic_id, rows in salvage.search(wanted, places):
                if not dry_run:
                    parts.setdefault(topic_id, []).append(self._cleared(topic_id, rows))
                    size += rows.data.nbytes
                if size >= _RESCUED_BYTES_MAX:
                    self._write(parts)
                    parts, size = {}, 0
            self._write(parts)
        finally:
            for log in logs:
                log.files.close()

    def _cleared(self, topic_id: int, rows: Rows) -> Rows:
        state = self._found.catalog.by_id(topic_id)
        return rows.without(state.deleted) if state is not None and state.deleted else rows

    def _tail_rows(self, state: TopicState) -> list[Rows]:
        """The records of a topic that are only in the log."""
        reader = self._found.reader()
        parts: list[Rows] = []
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
        return [self._cleared(state.id, rows) for rows in parts if rows.next_seq > state.floor]

    def _write(self, parts: dict[int, list[Rows]]) -> None:
        """One shared segment: its runs may have gaps, and other runs of their topics in them."""
        if not parts:
            return
        ordered = {
            topic_id: sorted(parts[topic_id], key=lambda rows: rows.first_seq)
            for topic_id in sorted(parts)
        }
        segment = self._checkpointer.write_segment(SHARED, ordered, self._made)
        self._written.append(segment.path)

    def _write_roots(self) -> None:
        found, folder = self._found, self._layout.meta
        replay_lsns = self._ends()
        number = max([found.root.number, *root_file.numbers_in(self._disk, folder)])
        segments = [segment.info for segment in found.library.segments.values()]
        topics = [entry_of(state, replay_lsns, 0) for state in found.catalog.states()]
        for _ in range(KEPT):
            number += 1
            root = Root(
                number=number,
                store_id=found.store_id,
                term=found.term,
                next_topic_id=found.catalog.next_topic_id,
                next_file_number=found.library.next_number,
                last_ts=found.last_ts,
                shards=[
                    ShardEntry(shard=shard, replay_lsn=lsn, durable_lsn=lsn)
                    for shard, lsn in sorted(replay_lsns.items())
                ],
                segments=segments,
                topics=topics,
                lake_trash=sorted(found.catalog.lake_trash),
                lake=found.root.lake,
            )
            path = root_file.path_of(folder, number)
            self._disk.make_dirs(folder)
            self._disk.durable_replace(path, root_file.encode(root))
            self._written.append(path)

    def _ends(self) -> dict[int, int]:
        """For every shard an lsn above all that any of its files can hold."""
        found, disk = self._found, self._disk
        ends = {}
        for shard in {*found.durable, *found.logs, *(entry.shard for entry in found.root.shards)}:
            lsns = [found.durable.get(shard, 0), found.root.replay_lsn(shard)]
            log = found.logs.get(shard)
            if log is not None:
                every = ShardLog(disk, log.files.directory, shard, found.store_id, tolerate=True)
                lsns += [log.end_lsn]
                lsns += [entry.first_lsn + entry.size for entry in every.files.entries]
                every.files.close()
            ends[shard] = max(lsns) + -max(lsns) % 8
        return ends


def _forget_lost(state: TopicState) -> None:
    """A record is deleted or lost, not both: each is taken off the count."""
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
