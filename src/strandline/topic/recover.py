"""Rebuilds a store's topics from disk: checkpoint, then segments, then the WAL behind them.

Nothing on disk is changed here; the same walk serves a writer, a read-only second process, verify
and repair. What a writer must do about a crash is returned as data (``Recovered``).
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.env.disk import Disk
from strandline.errors import Corrupt
from strandline.segment.library import Library
from strandline.settings import Settings
from strandline.topic import root as root_file
from strandline.topic.catalog import Catalog
from strandline.topic.checkpoint import runs_of
from strandline.topic.layout import Layout
from strandline.topic.replay import Replay, load_topics
from strandline.topic.root import Root
from strandline.topic.state import Run
from strandline.wal.codec import store_seed
from strandline.wal.files import ShardFiles
from strandline.wal.reader import Reader
from strandline.wal.recovery import Damage, ShardLog, in_order

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, how much there is."""


class Recovered:
    """A store in memory, as its files say. Owned by whoever opened it."""

    def __init__(self, disk: Disk, layout: Layout, store_id: bytes, settings: Settings) -> None:
        self.store_id = store_id
        self.catalog = Catalog(settings.limits)
        self.library = Library(
            disk,
            layout.segments,
            settings.segment,
            store_id=store_id,
            seed=store_seed(store_id),
        )
        self.root: Root = root_file.empty_root(store_id)
        self.complaints: list[str] = []
        self.logs: dict[int, ShardLog] = {}
        self.files: dict[int, ShardFiles] = {}
        self.clean = True
        self.boot = 0
        self.term = 0
        self.last_ts = 0
        self.records = 0

    @property
    def damage(self) -> list[Damage]:
        return [damage for log in self.logs.values() for damage in log.damage]

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
) -> Recovered:
    """Read everything that is needed to serve the store."""
    found = Recovered(disk, layout, store_id, settings)
    try:
        found.root, found.complaints = root_file.load(disk, layout.meta, store_id)
        _load_segments(found, progress)
        _load_logs(disk, layout, found)
        _check_reach(layout, found, tolerate=tolerate)
        _replay(found, tolerate=tolerate, progress=progress)
    except BaseException:
        found.close()
        raise
    return found


def _load_segments(found: Recovered, progress: Progress) -> None:
    root = found.root
    load_topics(found.catalog, root)
    found.term, found.last_ts = root.term, root.last_ts
    total = len(root.segments)
    runs: dict[int, list[Run]] = {}
    for done, info in enumerate(root.segments):
        for topic_id, run in runs_of(found.library.add(info)):
            runs.setdefault(topic_id, []).append(run)
        progress("segments", done + 1, total)
    for topic_id, mine in runs.items():
        state = found.catalog.by_id(topic_id)
        if state is not None:
            state.runs = tuple(sorted(mine, key=lambda run: run.first_seq))
    found.library.next_number = max(found.library.next_number, root.next_file_number)


def _load_logs(disk: Disk, layout: Layout, found: Recovered) -> None:
    for shard in layout.shards_on(disk):
        log = ShardLog(disk, layout.shard(shard), shard, found.store_id)
        found.logs[shard] = log
        found.files[shard] = log.files
        log.end_lsn = max(log.end_lsn, found.root.replay_lsn(shard))
        log.durable_upto = max(found.root.durable_lsn(shard), layout.closed_at(disk, shard))
        if log.headers:
            found.term = max(found.term, log.headers[-1].term)


def _check_reach(layout: Layout, found: Recovered, *, tolerate: bool) -> None:
    """Whether the log begins early enough and is not shorter than it is known to be."""
    for shard, log in found.logs.items():
        begins = log.headers[0].first_lsn if log.headers else log.durable_upto
        replay_lsn = found.root.replay_lsn(shard)
        missing = begins > replay_lsn or (not log.headers and log.durable_upto > replay_lsn)
        if missing and not tolerate:
            reason = f"WAL files of shard {shard} from lsn {replay_lsn} on are missing"
            raise Corrupt(reason, path=layout.shard(shard))


def _replay(found: Recovered, *, tolerate: bool, progress: Progress) -> None:
    replay = Replay(found.catalog, found.reader(), tolerate=tolerate)
    logs = list(found.logs.values())
    newest = max((header.term for log in logs for header in log.headers), default=0)
    total = sum(log.files.allocated() for log in logs)
    done = 0
    for log, place in in_order(logs):
        if place >= len(log.headers):
            continue  # behind a torn place that an earlier file of this shard ended with
        start = found.root.replay_lsn(log.files.shard)
        limit = log.files.end_of(place)
        header = log.headers[place]
        if limit is None or limit > start:
            replay.closed = False
            for frame in log.scan(place, start, tolerate=tolerate):
                replay.apply(frame)
            if header.term == newest and place == len(log.headers) - 1:
                found.clean = found.clean and replay.closed
                found.boot = header.boot
        done += log.files.entries[place].size
        progress("log", done, total)
    replay.finish()
    found.records = replay.records
    found.last_ts = max([found.last_ts, *(log.last_ts for log in logs)])
