"""The relocation job: moves older sealed segments of a topic into the lake.

    1 choose runs beyond the hot bound, the oldest first (``to_relocate``)
    2 write their live rows to a Parquet file in the spool, upload it, read it back and compare
    3 commit a manifest that lists it: from now on the lake answers for these seqs
    4 write a root that knows the lake's files and no longer lists the segments
    5 point the topic at the lake, let the segments go when no kept root needs them

Steps 1 to 3 hold no lock and may take as long as the object store likes. A crash before 3 leaves an
object that no manifest names (``lake/sweep.py`` finds it), one between 3 and 4 leaves two good
copies, of which the local one is read; the next turn compares them and goes on with 4. Seqs decide
who answers, so no record is ever served twice.

A store that is not there (credentials, bucket, network) fails the job's turn: health shows it, the
job tries again with growing pauses, and everything else goes on with the local copies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.env.clock import Clock
from strandline.errors import Corrupt, StrandlineError, Unavailable
from strandline.lake.cold import Cold
from strandline.lake.columns import SCHEMA
from strandline.lake.entry import LakeFile
from strandline.lake.intake import Intake
from strandline.lake.lake import Lake
from strandline.lake.manifest import Manifest
from strandline.lake.zone import Zone
from strandline.segment import codec
from strandline.settings import LakeSettings
from strandline.topic.catalog import Catalog
from strandline.topic.deletes import payload_of
from strandline.topic.page import Slice, table_of
from strandline.topic.pieces import Pieces
from strandline.topic.pins import Pins
from strandline.topic.sealer import Sealer
from strandline.topic.state import Run, TopicState
from strandline.wal.block import Block
from strandline.wal.reader import Reader

_SWEEP_S = 60.0  # between two sweeps of a topic, when there is something to delete


class Relocator:
    """Owned by the relocation job, one turn at a time."""

    def __init__(
        self,
        clock: Clock,
        catalog: Catalog,
        sealer: Sealer,
        lake: Lake,
        intake: Intake,
        *,
        reader: Callable[[], Reader],
        changing: threading.Lock,
        pins: Pins,
    ) -> None:
        self._clock = clock
        self._catalog = catalog
        self._sealer = sealer
        self._lake = lake
        self._intake = intake
        self._settings = lake.settings
        self._reader = reader
        self._changing = changing
        """Held by whoever writes a root: checkpoints and we."""
        self._pins = pins
        self._turn = threading.Lock()
        self._told: dict[int, BitMap64] = {}
        """By topic: the deleted seqs that its manifest knows of."""
        self._swept: dict[int, float] = {}
        """By topic: when it was last swept."""

    def run_once(self) -> None:
        """Move what is due, and bring every topic's manifest up to date.

        The failure of one topic is told when the others are done, but a store that cannot be
        reached is not asked once per topic.
        """
        failures: list[Exception] = []
        with self._turn:
            for state in self._catalog.states():
                try:
                    self._tend(state)
                except (OSError, StrandlineError) as error:
                    failures.append(error)
                    if isinstance(error, Unavailable):
                        break
            else:
                self._empty_trash()
        if failures:
            raise failures[0]

    def _tend(self, state: TopicState) -> None:
        runs = to_relocate(state, self._settings)
        if runs:
            self._relocate(state, runs)
        if state.cold is not None and not state.dropped:
            self._keep_up(state, state.cold)

    def _relocate(self, state: TopicState, runs: list[Run]) -> None:
        manifest = self._intake.newest(state.id, name=state.name, epoch=state.epoch)
        upto = manifest.last_seq
        known = 0 if state.cold is None else state.cold.last_seq
        if upto > known:
            self._compare(state, runs, manifest, known)
            self._adopt(state, manifest)
        waiting = [run for run in runs if run.last_seq > upto]
        for group in in_files(waiting, self._settings.file_bytes):
            first_seq, last_seq = (upto + 1 if upto else group[0].first_seq), group[-1].last_seq
            taken = _Taken(state)
            rows = live_tables(group, max(first_seq, taken.floor), last_seq, taken.deleted)
            file = self._intake.write(state.id, rows, first_seq, last_seq)
            manifest = self._intake.commit(state.id, _adding(file))
            self._adopt(state, manifest, {int(file.content[:16], 16): (file, taken)})
            upto = last_seq

    def _compare(self, state: TopicState, runs: list[Run], manifest: Manifest, known: int) -> None:
        """See that what the lake has beyond our knowledge is what we have here.

        It is ours from before a crash. Or somebody has opened a copy of this store and moved on
        from there; then two histories have parted, and ours must not make room for the other.
        """
        for file in manifest.files:
            if file.last_seq <= known:
                continue
            for zone in self._lake.zones_of(state.id, file):
                gone = _union(state.deleted, zone.holes())
                first_seq = max(zone.first_seq, state.floor)
                theirs = _live(zone, first_seq, zone.last_seq, gone)
                ours = [SCHEMA.empty_table(), *live_tables(runs, first_seq, zone.last_seq, gone)]
                if not pa.concat_tables(ours).equals(theirs):
                    raise Corrupt(
                        "the lake holds other records than this store: a copy of the store has "
                        "written there; give one of the two another lake",
                        path=self._lake.path_of(state.id, file.name()),
                        topic_id=state.id,
                        first_seq=zone.first_seq,
                        last_seq=zone.last_seq,
                    )

    def _adopt(
        self,
        state: TopicState,
        manifest: Manifest,
        fresh: dict[int, tuple[LakeFile, _Taken]] | None = None,
    ) -> None:
        """Let the lake answer for what a manifest lists, and let go of the local copies."""
        with self._changing:
            shard = self._catalog.shard_of(state)
            with shard.maintenance:
                if state.dropped:
                    return
                old = state.cold
                payloads = {} if old is None else old.known_payloads()
                for content, (file, taken) in (fresh or {}).items():
                    payloads[content] = file.payload - self._lost_since(state, file, taken)
                new = Cold.of_files(manifest.number, manifest.files, payloads)
                shard.writer.acquire()
                try:
                    state.gone_payload += _shrunk(old, new, state.floor)
                    state.cold = new
                finally:
                    shard.writer.release()
                moved = {run for run in state.runs if run.last_seq <= new.last_seq}
                self._sealer.let_go(state.id, moved)

    def _lost_since(self, state: TopicState, file: LakeFile, taken: _Taken) -> int:
        """Payload of rows of a new file that went while it was written: counted already."""
        pieces = Pieces(state, self._reader)
        lost = 0
        if state.floor > taken.floor:
            low, high = max(taken.floor, file.first_seq), min(state.floor, file.last_seq + 1)
            lost += pieces.payload_between(low, high) if low < high else 0
        if state.deleted is not taken.deleted and state.deleted is not None:
            news = state.deleted - taken.deleted if taken.deleted else state.deleted.copy()
            news &= BitMap64(range(max(taken.floor, file.first_seq), file.last_seq + 1))
            lost += payload_of(pieces, news)
        return lost

    def _keep_up(self, state: TopicState, cold: Cold) -> None:
        """Tell the manifest what was deleted and evicted; rewrite files that are mostly dead."""
        floor, deleted = state.floor, state.deleted
        news = deleted is not None and self._told.get(state.id) is not deleted
        if news or (len(cold) and cold.lasts[0] < floor):
            hidden = (
                None if deleted is None else deleted & BitMap64(range(floor, cold.last_seq + 1))
            )
            now_us = self._clock.now_us()
            self._intake.commit(state.id, lambda old: _told(old, floor, hidden, now_us))
            if deleted is not None:
                self._told[state.id] = deleted
        manifest = self._intake.load(state.id)
        for file in manifest.files:
            if file.rows - live_rows(state, file) > self._settings.dead_share * file.rows:
                manifest = self._rewrite(state, file)
        if manifest.number != cold.manifest:
            self._adopt(state, manifest)
        self._sweep(manifest)

    def _rewrite(self, state: TopicState, file: LakeFile) -> Manifest:
        """The same file without its dead rows."""
        deleted = state.deleted
        first_seq = max(file.first_seq, state.floor)
        rows = (
            _live(zone, first_seq, zone.last_seq, _union(deleted, zone.holes()))
            for zone in self._lake.zones_of(state.id, file)
            if zone.last_seq >= first_seq
        )
        new = self._intake.write(state.id, rows, file.first_seq, file.last_seq)
        now_us = self._clock.now_us()
        purged = None
        if deleted:
            purged = deleted & BitMap64(range(file.first_seq, file.last_seq + 1))
        return self._intake.commit(
            state.id,
            lambda old: old.with_replaced([file.name()], [new], at_us=now_us, purged=purged),
        )

    def _empty_trash(self) -> None:
        """Tell the lake of topics that are no more; their files leave after the grace period."""
        for topic_id in sorted(self._catalog.lake_trash):
            now_us = self._clock.now_us()
            change = partial(Manifest.with_dropped, at_us=now_us)
            manifest = self._sweep(self._intake.commit(topic_id, change))
            if not manifest.removed:
                self._catalog.lake_trash.discard(topic_id)

    def _sweep(self, manifest: Manifest) -> Manifest:
        """Delete what has been out of use long enough; the newest manifest after it."""
        due_us = self._clock.now_us() - round(self._settings.grace_s * 1e6)
        due = any(file.at_us <= due_us for file in manifest.removed)
        now_s = self._clock.monotonic()
        waited_s = now_s - self._swept.setdefault(manifest.topic_id, now_s)
        if waited_s < (_SWEEP_S if due else self._settings.keep_s / 4) or self._pins.held():
            return manifest
        self._swept[manifest.topic_id] = now_s
        self._intake.sweep(manifest.topic_id)
        return self._intake.load(manifest.topic_id)


class _Taken:
    """What was gone of a topic when its rows were written to a file."""

    def __init__(self, state: TopicState) -> None:
        self.floor = state.floor
        self.deleted = state.deleted


def _told(manifest: Manifest, floor: int, hidden: BitMap64 | None, now_us: int) -> Manifest:
    told = manifest.with_floor(floor, at_us=now_us)
    return told.with_deleted(hidden) if hidden else told


def _union(one: BitMap64 | None, other: BitMap64 | None) -> BitMap64 | None:
    return one | other if one and other else one or other


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


def _shrunk(old: Cold | None, new: Cold, floor: int) -> int:
    """Payload that left with files that were rewritten; below the floor it is counted already."""
    if old is None:
        return 0
    kept = set(new.contents)
    known = set(old.contents)
    left = sum(
        old.payloads[place]
        for place in range(len(old))
        if old.contents[place] not in kept and old.lasts[place] >= floor
    )
    came = sum(
        new.payloads[place]
        for place in range(len(new))
        if new.contents[place] not in known and new.lasts[place] <= old.last_seq
    )
    return left - came


def to_relocate(state: TopicState, settings: LakeSettings) -> list[Run]:
    """The oldest runs of a topic, as many as there are beyond the hot bound.

    Only a topic's own segments count; runs in shared segments between them go along.
    """
    own = [
        place for place, run in enumerate(state.runs) if run.segment.info.topic_id != codec.SHARED
    ]
    surplus = len(own) - settings.hot_segments
    if settings.hot_bytes:
        sizes = [state.runs[place].segment.info.file_size for place in own]
        kept = 0
        while kept < len(own) and sum(sizes[len(own) - kept - 1 :]) <= settings.hot_bytes:
            kept += 1
        surplus = max(surplus, len(own) - kept)
    return list(state.runs[: own[surplus - 1] + 1]) if surplus > 0 else []


def in_files(runs: list[Run], file_bytes: int) -> list[list[Run]]:
    """The runs in groups, each of which becomes one file."""
    groups: list[list[Run]] = []
    size = 0
    for run in runs:
        if not groups or size + run.payload_size > file_bytes:
            groups.append([])
            size = 0
        groups[-1].append(run)
        size += run.payload_size
    return groups


def live_tables(
    runs: list[Run], first_seq: int, last_seq: int, deleted: BitMap64 | None
) -> Iterator[pa.Table]:
    """The live rows of these runs between two seqs, block by block, read past the cache."""
    for run in runs:
        index = run.segment.index()
        following = len(index) if run.next_place < 0 else run.next_place
        for place in range(run.place, following):
            low = int(index.first_seq[place])
            if low > last_seq or low + int(index.count[place]) <= first_seq:
                continue
            table = _live(run.segment.read_block(place), first_seq, last_seq, deleted)
            if len(table):
                yield table


def _live(
    source: Block | Zone, first_seq: int, last_seq: int, deleted: BitMap64 | None
) -> pa.Table:
    first = max(0, first_seq - source.first_seq)
    following = min(source.count, last_seq - source.first_seq + 1)
    low, high = source.first_seq + first, source.first_seq + following
    chosen = None
    if deleted and deleted.range_cardinality(low, high):
        keep = np.ones(following - first, dtype=bool)
        gone = deleted & BitMap64(range(low, high))
        keep[np.array(list(gone), dtype="<i8") - low] = False
        chosen = np.flatnonzero(keep) + first
    return table_of([Slice(source, first, following, chosen)])
