"""Rebuilds a store's topics from disk: checkpoint, then segments, then the log after them.

Nothing on disk is changed here; the same procedure serves a writer, a read-only second process,
verify and repair. What a writer must do after a crash is returned as data (``StoreState``).
"""

from __future__ import annotations

import bisect

from pyroaring import BitMap64

from strandline.config.settings import Settings
from strandline.errors import Corrupt, Unavailable
from strandline.lake.lake import Lake
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.checkpoint_job import runs_of
from strandline.log.checkpoint.checkpoint_store import CHECKPOINTS_KEPT
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files import store_identity
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress
from strandline.log.recovery.replay import Replay, load_topics
from strandline.log.segments.codec import SHARED
from strandline.log.segments.reader import Segment
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.state.tag_index import TagIndexes
from strandline.log.state.topic_state import Gap, SegmentRun, TopicState, spans
from strandline.log.wal.codec import store_seed
from strandline.log.wal.log_files import LOCATION_LSN, ShardFiles
from strandline.log.wal.reader import Reader
from strandline.log.wal.recovery import LogDamage, ScratchMemory, ShardLog, in_order
from strandline.platform.disk import Disk

_TRIES = 8  # one recovery is usually shorter than the time between two checkpoints


class StoreState:
    """The state of a store in memory, as read from its files. Owned by its opener."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        store_id: bytes,
        settings: Settings,
        lake: Lake | None = None,
    ) -> None:
        self.store_id = store_id
        self.library = SegmentSet(
            disk,
            layout.segments,
            settings.segment,
            store_id=store_id,
            seed=store_seed(store_id),
        )
        self.catalog = Catalog(settings.limits, lake, TagIndexes(self.library.cache))
        self.root: StoreCheckpoint = checkpoint_file.empty_checkpoint(store_id)
        self.complaints: list[str] = []
        self.unreadable: list[Segment] = []
        self.missing: list[LogDamage] = []
        self.durable: dict[int, int] = {}
        self.closed: dict[int, int] = {}
        self.guessed: dict[int, int] = {}
        self.deleted: dict[int, BitMap64] = {}
        self.logs: dict[int, ShardLog] = {}
        self.files: dict[int, ShardFiles] = {}
        self.clean = True
        self.page_cache_kept = False
        """Whether the page cache that the last writer wrote into still exists."""
        self.term = 0
        self.last_ts = 0
        self.records = 0

    @property
    def damage(self) -> list[LogDamage]:
        return [*self.missing, *(damage for log in self.logs.values() for damage in log.damage)]

    def reader(self) -> Reader:
        return Reader(self.files, self.store_id)

    def close(self) -> None:
        self.library.close()
        for files in self.files.values():
            files.close()


def recover(
    disk: Disk,
    layout: Layout,
    store_id: bytes,
    settings: Settings,
    *,
    tolerate: bool = False,
    progress: Progress = lambda what, done, total: None,
    root: StoreCheckpoint | None = None,
    lake: Lake | None = None,
) -> StoreState:
    """Read everything that is needed to serve the store, from a given checkpoint or the newest."""
    store = StoreState(disk, layout, store_id, settings, lake)
    try:
        if root is None:
            store.root, store.complaints = checkpoint_file.load(disk, layout.meta, store_id)
        else:
            store.root, store.complaints = root, ["no checkpoint can be read"]
        if lake is not None:
            lake.identity.expect(store_id, store.root.lake)
        _load_segments(store, tolerate=tolerate, progress=progress)
        _load_logs(disk, layout, store, tolerate=tolerate)
        if any(log.foreign_files for log in store.logs.values()):
            store_identity.check(disk, layout, store_id)
        _check_reach(layout, store, tolerate=tolerate)
        _replay(store, tolerate=tolerate, progress=progress)
    except Corrupt:
        store.close()
        store_identity.check(disk, layout, store_id)
        raise
    except BaseException:
        store.close()
        raise
    return store


def recover_beside_writer(
    disk: Disk,
    layout: Layout,
    store_id: bytes,
    settings: Settings,
    *,
    progress: Progress,
    lake: Lake | None = None,
) -> StoreState:
    """As ``recover``, for a reader while a writer's checkpoints may remove files.

    All files that a checkpoint needs exist while it is one of the newest. A recovery that was
    overtaken has seen files vanish, or has mistaken that for damage, and starts again.
    """
    for _ in range(_TRIES):
        before = _newest(disk, layout)
        try:
            store = recover(
                disk, layout, store_id, settings, tolerate=True, progress=progress, lake=lake
            )
        except (FileNotFoundError, Corrupt):
            if _newest(disk, layout) == before:
                raise
            continue
        if _newest(disk, layout) in (
            before,
            store.root.number,
            store.root.number + CHECKPOINTS_KEPT - 1,
        ):
            return store
        store.close()
    raise Unavailable("checkpoints come faster than the store can be read: try again")


def _newest(disk: Disk, layout: Layout) -> int:
    return max(checkpoint_file.numbers_in(disk, layout.meta), default=0)


def _load_segments(store: StoreState, *, tolerate: bool, progress: Progress) -> None:
    root = store.root
    load_topics(store.catalog, root)
    store.term, store.last_ts = root.term, root.last_ts
    total = len(root.segments)
    runs: dict[int, list[SegmentRun]] = {}
    held: Corrupt | None = None
    for done, info in enumerate(root.segments):
        segment = store.library.add(info)
        try:
            for topic_id, run in runs_of(segment):
                runs.setdefault(topic_id, []).append(run)
        except Corrupt as error:
            store.complaints.append(str(error))
            store.unreadable.append(segment)
            held = held or error
        progress("segments", done + 1, total)
    for topic_id, topic_runs in runs.items():
        state = store.catalog.by_id(topic_id)
        if state is not None:
            state.runs = current_runs(topic_runs, state.local_next)
    if tolerate:
        for state in store.catalog.states():
            state.gaps = (*state.gaps, *uncovered(state))
    elif held is not None:
        _hold_uncovered(store, held)
    numbers = [store.library.next_number, root.next_file_number]
    if store.complaints:
        # A newer checkpoint is damaged: its segments stay, and new ones must not overwrite them.
        numbers += [number + 1 for number in numbers_in(store.library)]
    store.library.next_number = max(numbers)


def _hold_uncovered(store: StoreState, error: Corrupt) -> None:
    """Mark the records that no readable segment has as held: they are in one that is unreadable.

    The segments stay listed, so nothing is lost when the files can be read again.
    """
    for segment in store.unreadable:
        segment.is_held = True
    segment, info = store.unreadable[0], store.unreadable[0].info
    average = info.payload_size // max(1, info.record_count)
    others = ", ".join(each.path for each in store.unreadable[1:])
    reason = f"{error.reason} (or the records are in {others})" if others else error.reason
    for state in store.catalog.states():
        held = Corrupt(reason, path=error.path, offset=error.offset, topic_id=state.id)
        runs = [
            SegmentRun(
                segment,
                gap.first_seq,
                gap.last_seq,
                average * (gap.last_seq - gap.first_seq + 1),
                0,
                -1,
                held,
            )
            for gap in uncovered(state)
        ]
        if runs:
            state.runs = tuple(sorted([*state.runs, *runs], key=lambda run: run.first_seq))


def numbers_in(library: SegmentSet) -> list[int]:
    """The numbers of all segment files on disk, listed by a checkpoint or not."""
    disk, folder = library.disk, library.directory
    names = [name for topic in disk.list_dir(folder) for name in disk.list_dir(f"{folder}/{topic}")]
    digits = [name[:-4].rpartition("-")[2] for name in names if name.endswith(".seg")]
    return [int(text) for text in digits if text.isdigit()]


def uncovered(state: TopicState, first_seq: int = 0) -> list[Gap]:
    """Seqs of a topic's checkpointed part that are in neither a run nor a gap.

    From ``first_seq`` on, or from the first seq that is not in the lake.
    """
    gaps = []
    for low, last_seq in spans(state, state.floor):
        seq = max(low, first_seq or state.cold_next)
        for run in state.runs:
            if run.last_seq < seq or run.first_seq > min(last_seq, state.tail.first_seq - 1):
                continue
            if run.first_seq > seq:
                gaps.append(Gap(seq, run.first_seq - 1, "damaged"))
            seq = run.last_seq + 1
        if seq <= min(last_seq, state.tail.first_seq - 1):
            gaps.append(Gap(seq, min(last_seq, state.tail.first_seq - 1), "damaged"))
    return gaps


def current_runs(runs: list[SegmentRun], floor: int) -> tuple[SegmentRun, ...]:
    """A topic's runs in order, without those in shared segments that later segments replace.

    A shared segment stays as long as any topic needs it, so it may contain records that a topic has
    in a later segment; every seq must be in one run only.
    """
    ordered = sorted(runs, key=lambda run: run.first_seq)
    own = [run for run in ordered if run.segment.info.topic_id != SHARED]
    current = []
    for run in ordered:
        if run.segment.info.topic_id == SHARED:
            first_seq = max(run.first_seq, floor)
            if first_seq > run.last_seq:
                continue
            place = bisect.bisect_right(own, first_seq, key=lambda other: other.first_seq) - 1
            if place >= 0 and run.last_seq <= own[place].last_seq:
                continue
        current.append(run)
    return tuple(current)


def _load_logs(disk: Disk, layout: Layout, store: StoreState, *, tolerate: bool) -> None:
    try:
        store.closed = layout.read_closed(disk)
    except Corrupt as error:
        store.complaints.append(str(error))  # the checkpoint has an older durable lsn
    scratch = ScratchMemory()
    for shard in layout.shards_on(disk):
        log = ShardLog(
            disk,
            layout.shard(shard),
            shard,
            store.store_id,
            tolerate=tolerate,
            scratch=scratch,
        )
        store.logs[shard] = log
        store.files[shard] = log.files
        log.end_lsn = max(log.end_lsn, store.root.replay_lsn(shard))
        if log.headers:
            store.term = max(store.term, log.headers[-1].term)
    for shard in {*store.closed, *store.logs, *(entry.shard for entry in store.root.shards)}:
        store.durable[shard] = max(store.root.durable_lsn(shard), store.closed.get(shard, 0))
        if shard in store.logs:
            store.logs[shard].durable_upto = store.durable[shard]


def _check_reach(layout: Layout, store: StoreState, *, tolerate: bool) -> None:
    """Check that the log begins early enough and is not shorter than it is known to be."""
    for shard, durable in sorted(store.durable.items()):
        log = store.logs.get(shard)
        replay_lsn = store.root.replay_lsn(shard)
        begins = log.headers[0].first_lsn if log and log.headers else max(durable, replay_lsn)
        if begins <= replay_lsn:
            continue
        reason = f"WAL files of shard {shard} from lsn {replay_lsn} on are missing"
        if not tolerate:
            raise Corrupt(reason, path=layout.shard(shard))
        size = begins - replay_lsn
        store.missing.append(
            LogDamage(
                path=layout.shard(shard),
                offset=0,
                lsn=replay_lsn,
                reason=reason,
                end_lsn=begins,
                unknown_size=size,
            )
        )


def _replay(store: StoreState, *, tolerate: bool, progress: Progress) -> None:
    replay = Replay(store.catalog, store.reader(), tolerate=tolerate)
    logs = list(store.logs.values())
    newest = max((header.term for log in logs for header in log.headers), default=0)
    total = sum(log.files.allocated() for log in logs)
    done = 0
    caches: list[bool] = []
    # What is missing at either end of a shard may be newer than what other shards still have, so
    # with several shards it is noted last: a topic that continues there may have lost some here.
    is_only_shard = len({*store.logs, *store.durable}) == 1
    late = [damage for log in logs for damage in log.foreign_files]
    (replay.note_damage if is_only_shard else late.extend)(store.missing)
    for log, place in in_order(logs):
        if place >= len(log.headers):
            continue  # after a torn write, with which an earlier file of this shard ended
        start = store.root.replay_lsn(log.files.shard)
        limit = log.files.end_of(place)
        header = log.headers[place]
        if limit is None or limit > start:
            replay.closed = False
            if tolerate:
                rest = _replay_around_damage(replay, log, place, start)
                (replay.note_damage if is_only_shard else late.extend)(rest)
            else:
                for frame in log.scan(place, start):
                    replay.apply(frame)
            if header.term == newest and place == len(log.headers) - 1:
                # The clean close may be before a checkpoint, if its writer wrote nothing after it.
                at_rest = store.closed.get(log.files.shard) == log.end_lsn > header.first_lsn
                store.clean = store.clean and (replay.closed or at_rest)
                if header.page_cache:
                    caches.append(header.page_cache == log.files.page_cache())
        done += log.files.entries[place].size
        progress("log", done, total)
    store.page_cache_kept = bool(caches) and all(caches)
    replay.note_damage(late)
    replay.finish()
    for log in logs:
        log.release_scratch()
    store.complaints += replay.complaints
    store.guessed, store.deleted = replay.guessed, replay.deleted
    store.records = replay.records
    store.last_ts = max([store.last_ts, *(log.last_ts for log in logs)])


def _replay_around_damage(replay: Replay, log: ShardLog, place: int, start: int) -> list[LogDamage]:
    """Apply a file's frames, noting damage in its place; return damage after the last frame."""
    noted = len(log.damage)
    for frame in log.scan(place, start):
        if len(log.damage) > noted and frame.location & LOCATION_LSN >= log.damage[-1].end_lsn:
            replay.note_damage(log.damage[noted:])
            noted = len(log.damage)
        replay.apply(frame)  # blocks salvaged from the damaged range are applied before it is noted
    return log.damage[noted:]
