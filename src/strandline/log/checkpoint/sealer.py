"""The sealer: gives topics that have grown a dedicated segment, and merges shared segments.

Decisions are pure functions over runs (``to_seal``, ``to_merge``); the actions: write the new
segments, write a checkpoint that lists them instead of the old ones, point the topics at them,
remove the old files when no kept checkpoint needs them. This is where the bytes of deleted records
are reclaimed; records below a topic's floor are not copied.
"""

from __future__ import annotations

from strandline.config.settings import SegmentSettings
from strandline.errors import Corrupt
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.checkpoint_job import Checkpointer
from strandline.log.checkpoint.checkpoint_store import CheckpointStore
from strandline.log.segments import codec
from strandline.log.segments.rows import RecordRows, of_block
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.state.topic_state import SegmentRun, TopicState
from strandline.platform.clock import Clock

MERGED_AT_ONCE = 4


class Sealer:
    """Seals and merges segments. Owned by the checkpoint job."""

    def __init__(
        self,
        clock: Clock,
        catalog: Catalog,
        library: SegmentSet,
        checkpoints: CheckpointStore,
        checkpointer: Checkpointer,
        settings: SegmentSettings,
    ) -> None:
        self._clock = clock
        self._catalog = catalog
        self._library = library
        self._checkpoints = checkpoints
        self._checkpointer = checkpointer
        self._settings = settings

    def run_once(self) -> bool:
        """Seal and merge what is worth it; True when anything changed.

        Damaged segments stay as they are, and the error is raised after everything else is done.
        """
        plan = _Changes()
        damaged: list[Corrupt] = []
        now_us = self._clock.now_us()
        for state in self._catalog.states():
            self._drop_below_floor(state, plan)
            for group in to_seal(state, self._settings, now_us):
                try:
                    self._seal(state, group, plan)
                except Corrupt as error:
                    damaged.append(error)
        try:
            self._merge(plan)
        except Corrupt as error:
            damaged.append(error)
        changed = self._carry_out(plan)
        if damaged:
            raise damaged[0]
        return changed

    def remove_runs(self, topic_id: int, runs: set[SegmentRun]) -> None:
        """Drop runs that the lake has now, with the files that no other topic needs."""
        plan = _Changes()
        plan.removed[topic_id] = runs
        self._carry_out(plan)

    def replace(
        self, runs: list[tuple[int, SegmentRun, list[RecordRows]]], *, shared: bool
    ) -> None:
        """Write rows in place of runs of topics: one segment for all, or one for each run."""
        plan = _Changes()
        merged_rows: dict[int, list[RecordRows]] = {}
        for topic_id, run, rows in sorted(runs, key=lambda each: (each[0], each[1].first_seq)):
            plan.removed.setdefault(topic_id, set()).add(run)
            if rows and shared:
                merged_rows.setdefault(topic_id, []).extend(rows)
            elif rows:
                self._checkpointer.write_segment(topic_id, {topic_id: rows}, plan.added)
        if merged_rows:
            self._checkpointer.write_segment(codec.SHARED, merged_rows, plan.added)
        self._carry_out(plan)

    def _carry_out(self, plan: _Changes) -> bool:
        """Write a checkpoint of the store after the changes, then apply them."""
        dead = self._dead_segments(plan)
        if not (plan.added or plan.removed or dead):
            return False
        live = [number for number in self._library.segments if number not in dead]
        replay = {shard.number: 0 for shard in self._catalog.shards}  # some may be new
        replay |= {entry.shard: entry.replay_lsn for entry in self._checkpoints.current.shards}
        last_number = self._checkpoints.current.number
        self._checkpoints.write(replay, live, self._checkpoints.current.term)
        self._apply(plan)
        for number in dead:
            self._checkpoints.remove_later(self._library.retire(number), last_number)
        self._checkpoints.clean()
        return True

    def _drop_below_floor(self, state: TopicState, plan: _Changes) -> None:
        for run in state.runs:
            if run.last_seq < state.floor:
                plan.removed.setdefault(state.id, set()).add(run)

    def _seal(self, state: TopicState, group: list[SegmentRun], plan: _Changes) -> None:
        parts = _rows(state, group)
        if parts:
            self._checkpointer.write_segment(state.id, {state.id: parts}, plan.added)
        plan.removed.setdefault(state.id, set()).update(group)

    def _merge(self, plan: _Changes) -> None:
        shared = sorted(
            number
            for number, segment in self._library.segments.items()
            if segment.info.topic_id == codec.SHARED and number not in self._held()
        )
        sizes = [self._library.segments[number].info.file_size for number in shared]
        window = to_merge(sizes, self._settings.shared_files_max)
        if window is None:
            return
        numbers = set(shared[window : window + MERGED_AT_ONCE])
        parts: dict[int, list[RecordRows]] = {}
        merged: dict[int, list[SegmentRun]] = {}
        for state in sorted(self._catalog.states(), key=lambda state: state.id):
            gone = plan.removed.get(state.id, set())
            group = [
                run for run in state.runs if run.segment.info.number in numbers and run not in gone
            ]
            rows = _rows(state, group) if group else []
            if rows:
                parts[state.id] = rows
            merged[state.id] = group
        if parts:
            self._checkpointer.write_segment(codec.SHARED, parts, plan.added)
        for topic_id, group in merged.items():
            if group:
                plan.removed.setdefault(topic_id, set()).update(group)

    def _dead_segments(self, plan: _Changes) -> set[int]:
        live = {run.segment.info.number for runs in plan.added.values() for run in runs}
        for state in self._catalog.states():
            gone = plan.removed.get(state.id, ())
            live.update(run.segment.info.number for run in state.runs if run not in gone)
        held = self._held()
        if held & live:
            live |= held  # which of them has the records is unknown
        return set(self._library.segments) - live

    def _held(self) -> set[int]:
        """Segments that could not be read when the store was opened."""
        return {number for number, segment in self._library.segments.items() if segment.is_held}

    def _apply(self, plan: _Changes) -> None:
        for topic_id in {*plan.added, *plan.removed}:
            state = self._catalog.by_id(topic_id)
            if state is None:
                continue
            writer = self._catalog.shard_of(state).writer
            writer.acquire()
            try:
                gone = plan.removed.get(topic_id, set())
                others = [run for run in state.runs if run not in gone]
                runs = [*others, *plan.added.get(topic_id, [])]
                state.runs = tuple(sorted(runs, key=lambda run: run.first_seq))
            finally:
                writer.release()


class _Changes:
    """Runs to add and to remove, by topic."""

    def __init__(self) -> None:
        self.added: dict[int, list[SegmentRun]] = {}
        self.removed: dict[int, set[SegmentRun]] = {}


def to_seal(state: TopicState, settings: SegmentSettings, now_us: int) -> list[list[SegmentRun]]:
    """Groups of adjoining shared runs of a topic that are worth a dedicated segment."""
    groups: list[list[SegmentRun]] = [[]]
    for run in state.runs:
        is_shared = run.segment.info.topic_id == codec.SHARED
        if is_shared and run.last_seq >= state.floor and run.held is None:
            groups[-1].append(run)
        elif groups[-1]:
            groups.append([])
    return [group for group in groups if group and _worth_a_file(group, settings, now_us)]


def to_merge(sizes: list[int], files_max: int) -> int | None:
    """Where the cheapest window of shared segments to merge begins, None when there are few."""
    if len(sizes) <= max(files_max, MERGED_AT_ONCE - 1):
        return None
    starts = range(len(sizes) - MERGED_AT_ONCE + 1)
    return min(starts, key=lambda start: sum(sizes[start : start + MERGED_AT_ONCE]))


def _worth_a_file(group: list[SegmentRun], settings: SegmentSettings, now_us: int) -> bool:
    payload = sum(run.payload_size for run in group)
    count = sum(run.last_seq - run.first_seq + 1 for run in group)
    if payload >= settings.seal_bytes or count >= settings.seal_records:
        return True
    oldest_us = min(run.segment.info.created_us for run in group)
    # A segment from the future was written before the clock was set back: its age is unknown.
    idle = abs(now_us - oldest_us) >= settings.seal_idle_s * 1e6
    return idle and payload >= settings.own_bytes_min


def _rows(state: TopicState, group: list[SegmentRun]) -> list[RecordRows]:
    """The live rows of these runs, read without the cache."""
    floor = state.floor
    parts = []
    for run in group:
        following = len(run.index()) if run.next_place < 0 else run.next_place
        for place in range(run.place, following):
            rows = of_block(run.segment.read_block(place))
            if rows.next_seq <= floor:
                continue
            rows = rows.slice(max(floor, rows.first_seq), rows.next_seq)
            parts.append(rows.without(state.deleted) if state.deleted else rows)
    return parts
