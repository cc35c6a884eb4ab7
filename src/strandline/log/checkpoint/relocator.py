"""The relocation job: moves older sealed segments of a topic into the lake.

    1 choose runs beyond the hot bound, the oldest first (``to_relocate``); with ``copy_hot`` all
      that are sealed
    2 write their live rows to a Parquet file in the spool, upload it, read it back and compare
    3 commit a manifest that lists it: from now on the lake has these seqs
    4 point the topic at the lake, which is read where there is no local copy
    5 release the segments beyond the hot bound: write a checkpoint that no longer lists them,
      remove their files when no kept checkpoint needs them

Steps 1 to 3 hold no lock and may take as long as the object store needs. A crash before 3 leaves an
object that no manifest names (``lake/gc.py`` finds it), one between 3 and 5 leaves two good
copies, of which the local one is read; the next run compares them and continues. Seqs decide which
copy is read, so no record is ever served twice.

Payload is counted record by record while there is a local copy, and by whole files afterwards
(``lake/cold_index.py``). So at 5 each file's payload becomes what is live of it then: counted
before the locks are taken, and corrected by what was deleted or evicted since.

Other processes may replace files of the lake at any time, by merging them
(``pipelines/compaction/compact.py``). Reading the newest manifest adopts their files; a rewrite
that conflicts with them is discarded.

An unavailable object store (credentials, bucket, network) fails the run: health shows it, the job
retries with growing pauses, and everything else continues with the local copies. A damaged file is
not rewritten and blocks nothing: ``log/repair/scrub_job.py`` handles it.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyroaring import BitMap64

from strandline.config.settings import LakeSettings
from strandline.errors import (
    Conflict,
    Corrupt,
    Invalid,
    StrandlineError,
    Unavailable,
    UnknownTopic,
)
from strandline.lake.cold_index import ColdIndex, replace_manifest
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.gc import GcResult
from strandline.lake.lake import Lake
from strandline.lake.lake_writer import LakeWriter
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.sealer import Sealer
from strandline.log.files.pins import Pins
from strandline.log.progress import Progress
from strandline.log.read.intact_blocks import (
    BlockRange,
    intact_ranges,
    live_table,
    live_tables,
    local_ranges,
    union,
)
from strandline.log.segments import codec
from strandline.log.state.delete_rules import payload_of
from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import SegmentRun, TopicState
from strandline.log.wal.reader import Reader
from strandline.platform.clock import Clock
from strandline.schema import Schema

_READ_S = 60.0  # between two reads of a manifest that others may have changed
_SWEEP_S = 60.0  # between two garbage collections of a topic with something to delete


class Relocator:
    """Moves sealed segments into the lake. Owned by the relocation job, one run at a time."""

    def __init__(
        self,
        clock: Clock,
        catalog: Catalog,
        sealer: Sealer,
        lake: Lake,
        lake_writer: LakeWriter,
        *,
        reader: Callable[[], Reader],
        changing: threading.Lock,
        pins: Pins,
    ) -> None:
        self._clock = clock
        self._catalog = catalog
        self._sealer = sealer
        self._lake = lake
        self._writer = lake_writer
        self._settings = lake.settings
        self._reader = reader
        self._changing = changing
        """Held while a checkpoint file is written, by the checkpoint job or by this one."""
        self._pins = pins
        self._run_lock = threading.Lock()
        self._written_deletes: dict[int, tuple[BitMap64 | None, int]] = {}
        """By topic: the deleted seqs and the delete floor that its manifest has."""
        self._schema_versions: dict[int, int] = {}
        """By topic: the version of its schema that its manifest has."""
        self._read_s: dict[int, float] = {}
        """By topic: when its newest manifest was last read."""
        self._sweep_s: dict[int, float] = {}
        """By topic: when its garbage was last collected."""
        self._damaged: set[str] = set()
        """Names of files that could not be rewritten."""

    def run_once(self, progress: Progress | None = None) -> None:
        """Move what is due, and bring every topic's manifest up to date.

        The failure of one topic is raised after the others are done; but the first topic that finds
        the object store unavailable ends the run.
        """
        failures: list[Exception] = []
        with self._run_lock:
            if self._lake.identity.ref is not None:
                self._lake.identity.confirm()
            for state in self._catalog.states():
                try:
                    self._process_topic(state, progress)
                except (OSError, StrandlineError) as error:
                    failures.append(error)
                    if isinstance(error, Unavailable):
                        break
            else:
                self._empty_trash()
        if failures:
            raise failures[0]

    def sweep(self, *, orphans: bool) -> dict[str, GcResult]:
        """Delete what no retained manifest needs, now; the result by topic."""
        swept = {}
        with self._run_lock:
            for state in self._catalog.states():
                if state.cold is not None and not state.dropped:
                    swept[state.name] = self._writer.collect_garbage(state.id, orphans=orphans)
            for topic_id in sorted(self._catalog.lake_trash):
                swept[f"(deleted topic {topic_id})"] = self._writer.collect_garbage(
                    topic_id, orphans=orphans
                )
        return swept

    def replace_file(self, state: TopicState, file: LakeFile) -> None:
        """Write a file again from good copies of its records; Corrupt when there are not enough."""
        with self._run_lock:
            manifest = self._commit_schema(state, self._newest(state))
            self._adopt(state, self._rewrite(state, file, manifest.schema))
            self._save(state)

    def _process_topic(self, state: TopicState, progress: Progress | None) -> None:
        surplus = to_relocate(state, self._settings)
        hot_first = surplus[-1].last_seq + 1 if surplus else 0
        runs = sealed_runs(state) if self._settings.copy_hot else surplus
        if runs and runs[-1].last_seq > (0 if state.cold is None else state.cold.last_seq):
            self._relocate(state, runs, hot_first, progress)
        self._release_local(state, hot_first, {})
        if state.cold is not None and not state.dropped:
            self._update_manifest(state, state.cold)

    def _newest(self, state: TopicState) -> Manifest:
        """The newest manifest. If it is older than ours, this is not the lake that we wrote to."""
        if state.cold is None:
            return self._writer.newest(state.id, name=state.name, epoch=state.epoch)
        try:
            manifest = self._writer.load(state.id)
        except UnknownTopic:
            manifest = None
        if manifest is None or manifest.number < state.cold.manifest:
            raise Invalid(
                f"{self._lake.objects.name} does not have what topic {state.name!r} has moved into "
                "the lake: check lake.url, or restore its objects"
            )
        return manifest

    def _relocate(
        self, state: TopicState, runs: list[SegmentRun], hot_first: int, progress: Progress | None
    ) -> None:
        manifest = self._newest(state)
        upto = manifest.last_seq
        known = 0 if state.cold is None else state.cold.last_seq
        if upto > known:
            self._compare(state, manifest, known)
            self._adopt(state, manifest)
        waiting = [run for run in runs if run.last_seq > upto]
        moved, total = 0, sum(run.payload_size for run in waiting)
        for group in in_files(waiting, self._settings.file_bytes):
            first_seq, last_seq = (upto + 1 if upto else group[0].first_seq), group[-1].last_seq
            baseline = _Baseline(state)
            parts = local_ranges(group, max(first_seq, baseline.floor), last_seq)
            rows = live_tables(parts, baseline.deleted)
            manifest = self._commit_schema(state, manifest)
            file = self._writer.write(state.id, rows, first_seq, last_seq, manifest.schema)
            manifest = self._writer.commit(state.id, _adding(file))
            self._adopt(state, manifest)
            content = int(file.content[:16], 16)
            if not self._release_local(state, hot_first, {content: (file.payload, baseline)}):
                self._save(state)
            upto = last_seq
            moved += sum(run.payload_size for run in group)
            if progress is not None:
                progress(f"topic {state.name}", moved, total)

    def _compare(self, state: TopicState, manifest: Manifest, known: int) -> None:
        """Check that what the lake has beyond the known seq is what is stored here.

        It is ours from before a crash. Or another process has opened a copy of this store and has
        written from there; then there are two histories, and one must not replace the other. What
        is damaged here cannot be compared: its neighbours can. A file may begin with seqs that are
        known and released here, when another process has merged it with older ones.
        """
        compared, damaged = 0, None
        for file in manifest.files:
            if file.last_seq <= known:
                continue
            for zone in self._lake.zones_of(state.id, file):
                first_seq = max(zone.first_seq, state.floor, known + 1)
                if first_seq > zone.last_seq:
                    continue
                lake_rows = live_table(BlockRange(zone, first_seq, zone.last_seq), state.deleted)
                gone = union(state.deleted, zone.holes())
                try:
                    parts = local_ranges(state.runs, first_seq, zone.last_seq)
                    local_rows = [SCHEMA.empty_table(), *live_tables(parts, gone)]
                except Corrupt as error:
                    damaged = error
                    continue
                compared += 1
                if not pa.concat_tables(local_rows).equals(lake_rows):
                    raise Corrupt(
                        "the lake holds other records than this store: a copy of the store has "
                        "written there; give one of the two another lake",
                        path=self._lake.path_of(state.id, file.name()),
                        topic_id=state.id,
                        first_seq=zone.first_seq,
                        last_seq=zone.last_seq,
                    )
        if damaged is not None and not compared:
            raise damaged

    def _adopt(self, state: TopicState, manifest: Manifest) -> None:
        """Serve the seqs that a manifest lists from the lake."""
        with self._changing:
            shard = self._catalog.shard_of(state)
            with shard.maintenance:
                if state.dropped:
                    return
                new, lost = replace_manifest(
                    state.cold, manifest.number, manifest.files, state.floor
                )
                with state.guard:
                    state.gone_payload += lost
                    state.cold = new

    def _save(self, state: TopicState) -> None:
        """Write a checkpoint with the state of the lake."""
        with self._changing:
            if not state.dropped:
                self._sealer.remove_runs(state.id, set())

    def _release_local(
        self, state: TopicState, hot_first: int, known: dict[int, tuple[int, _Baseline]]
    ) -> bool:
        """Release local copies below a seq that the lake has, by whole files; whether any were.

        ``known`` is the live payload of files by their content, with the state it was counted in.
        """
        cold = state.cold
        if cold is None or hot_first - 1 <= cold.released:
            return False
        first = bisect.bisect_right(cold.lasts, cold.released)
        following = bisect.bisect_right(cold.lasts, hot_first - 1)
        if first >= following:
            return False
        counted = []
        for place in range(first, following):
            baseline = _Baseline(state)
            low, high = cold.firsts[place], cold.lasts[place] + 1
            payload, baseline = known.get(cold.contents[place]) or (
                TopicReader(state, self._reader).payload_between(max(low, baseline.floor), high),
                baseline,
            )
            counted.append((cold.contents[place], range(low, high), payload, baseline))
        with self._changing, self._catalog.shard_of(state).maintenance:
            if state.dropped or state.cold is not cold:
                return False
            payloads = {
                content: payload - self._lost_since(state, seqs, baseline)
                for content, seqs, payload, baseline in counted
            }
            new = cold.with_released(cold.lasts[following - 1], payloads)
            with state.guard:
                state.cold = new
            moved = {run for run in state.runs if run.last_seq <= new.released}
            self._sealer.remove_runs(state.id, moved)
        return True

    def _lost_since(self, state: TopicState, seqs: range, baseline: _Baseline) -> int:
        """Payload of records that were removed since they were counted."""
        pieces = TopicReader(state, self._reader)
        lost = 0
        if state.floor > baseline.floor:
            low, high = max(baseline.floor, seqs.start), min(state.floor, seqs.stop)
            lost += pieces.payload_between(low, high) if low < high else 0
        if state.deleted is not baseline.deleted and state.deleted is not None:
            newer = state.deleted - baseline.deleted if baseline.deleted else state.deleted.copy()
            newer &= BitMap64(range(max(baseline.floor, seqs.start), seqs.stop))
            lost += payload_of(pieces, newer)
        return lost

    def _update_manifest(self, state: TopicState, cold: ColdIndex) -> None:
        """Put deletes and evictions into the manifest; rewrite files that are mostly dead."""
        floor, deleted, delete_floor = state.floor, state.deleted, state.delete_floor
        written, written_floor = self._written_deletes.get(state.id, (None, 1))
        changed = deleted is not written or delete_floor > written_floor
        changed = changed or (len(cold) > 0 and cold.lasts[0] < floor)
        changed = changed or self._schema_versions.get(state.id, 0) != state.config.schema_version
        now_s = self._clock.monotonic()
        if not changed and now_s - self._read_s.get(state.id, -_READ_S) < _READ_S:
            return
        self._read_s[state.id] = now_s
        manifest = self._commit_schema(state, self._newest(state))
        if changed:
            hidden = (
                None if deleted is None else deleted & BitMap64(range(floor, cold.last_seq + 1))
            )
            now_us = self._clock.now_us()
            # What a power loss could still undo must not be deleted from the lake.
            shard = self._catalog.shard_of(state)
            shard.committer.wait_synced(shard.writer.end_lsn)
            manifest = self._writer.commit(state.id, lambda old: _hide(old, floor, hidden, now_us))
            self._written_deletes[state.id] = deleted, delete_floor
        for file in manifest.files:
            dead = file.rows - live_rows(state, file)
            if dead > self._settings.dead_share * file.rows and file.name() not in self._damaged:
                try:
                    manifest = self._rewrite(state, file, manifest.schema)
                except Corrupt:
                    self._damaged.add(file.name())
                except Conflict:  # another process has replaced it
                    manifest = self._writer.load(state.id)
                    break
        if manifest.number != cold.manifest:
            self._adopt(state, manifest)
            self._save(state)
        self._sweep(manifest)

    def _commit_schema(self, state: TopicState, manifest: Manifest) -> Manifest:
        """Put the topic's schema into the manifest before files are written with it."""
        config = state.config
        schema = Schema(config.schema_version, config.schema)
        if manifest.with_schema(schema) is not manifest:
            manifest = self._writer.commit(state.id, lambda old: old.with_schema(schema))
        self._schema_versions[state.id] = config.schema_version
        return manifest

    def _rewrite(self, state: TopicState, file: LakeFile, schema: Schema) -> Manifest:
        """The same file without its dead rows, and with the typed columns of this schema."""
        deleted = state.deleted
        rows = live_tables(intact_ranges(state, file.first_seq, file.last_seq), deleted)
        new = self._writer.write(state.id, rows, file.first_seq, file.last_seq, schema)
        now_us = self._clock.now_us()
        purged = None
        if deleted:
            purged = deleted & BitMap64(range(file.first_seq, file.last_seq + 1))
        try:
            return self._writer.commit(
                state.id,
                lambda old: old.with_replaced([file.name()], [new], at_us=now_us, purged=purged),
            )
        except Conflict:
            self._writer.discard(state.id, new)
            raise

    def _empty_trash(self) -> None:
        """Drop deleted topics from the lake; their files are deleted after the grace period."""
        for topic_id in sorted(self._catalog.lake_trash):
            now_us = self._clock.now_us()
            change = partial(Manifest.with_dropped, at_us=now_us)
            manifest = self._sweep(self._writer.commit(topic_id, change))
            if not manifest.removed:
                self._writer.delete_data(topic_id)
                self._catalog.lake_trash.discard(topic_id)

    def _sweep(self, manifest: Manifest) -> Manifest:
        """Delete what has been unused for the grace period; the newest manifest after it."""
        due_us = self._clock.now_us() - round(self._settings.grace_s * 1e6)
        due = any(file.at_us <= due_us for file in manifest.removed)
        now_s = self._clock.monotonic()
        waited_s = now_s - self._sweep_s.setdefault(manifest.topic_id, now_s)
        if (
            waited_s < (_SWEEP_S if due else self._settings.manifest_retention_s / 4)
            or self._pins.is_held()
        ):
            return manifest
        self._sweep_s[manifest.topic_id] = now_s
        self._writer.collect_garbage(manifest.topic_id)
        return self._writer.load(manifest.topic_id)


class _Baseline:
    """The floor and the deleted seqs of a topic when its rows were written to a file."""

    def __init__(self, state: TopicState) -> None:
        self.floor = state.floor
        self.deleted = state.deleted


def _hide(manifest: Manifest, floor: int, hidden: BitMap64 | None, now_us: int) -> Manifest:
    raised = manifest.with_floor(floor, at_us=now_us)
    return raised.with_deleted(hidden) if hidden else raised


def live_rows(state: TopicState, file: LakeFile) -> int:
    """How many rows of a file a reader may still get."""
    first_seq = max(file.first_seq, state.floor)
    live = max(0, file.last_seq - first_seq + 1)
    if live and state.deleted:
        live -= state.deleted.range_cardinality(first_seq, file.last_seq + 1)
    for gap in state.gaps:
        low, high = max(gap.first_seq, first_seq), min(gap.last_seq, file.last_seq)
        live -= max(0, high - low + 1)
    return live


def _adding(file: LakeFile) -> Callable[[Manifest], Manifest]:
    return lambda manifest: manifest.with_added([file])


def to_relocate(state: TopicState, settings: LakeSettings) -> list[SegmentRun]:
    """The oldest runs of a topic, as many as there are beyond the hot bound.

    Only dedicated segments count; runs in shared segments between them are included.
    """
    own = [
        place for place, run in enumerate(state.runs) if run.segment.info.topic_id != codec.SHARED
    ]
    surplus = len(own) - settings.hot_segments
    if settings.hot_bytes:
        sizes = [state.runs[place].segment.info.file_size for place in own]
        hot = 0
        while hot < len(own) and sum(sizes[len(own) - hot - 1 :]) <= settings.hot_bytes:
            hot += 1
        surplus = max(surplus, len(own) - hot)
    return list(state.runs[: own[surplus - 1] + 1]) if surplus > 0 else []


def sealed_runs(state: TopicState) -> list[SegmentRun]:
    """All runs up to the last one in a dedicated segment."""
    runs = list(state.runs)
    while runs and runs[-1].segment.info.topic_id == codec.SHARED:
        runs.pop()
    return runs


def in_files(runs: list[SegmentRun], file_bytes: int) -> list[list[SegmentRun]]:
    """The runs in groups, each of which becomes one file."""
    groups: list[list[SegmentRun]] = []
    size = 0
    for run in runs:
        if not groups or size + run.payload_size > file_bytes:
            groups.append([])
            size = 0
        groups[-1].append(run)
        size += run.payload_size
    return groups
