"""A root for a store that has lost all of its own, from what lake, segments and log still tell.

It lists no segment: a repair looks for every record in every file anyway, but for those that the
lake has. The lake's manifests tell names, epochs, floors and deletes of the topics that are in it;
settings, and the names of other topics, are those that the log still tells. A topic that was made
before the log begins is called after its id. What only the lost roots knew is gone: floors and
deletes behind the lake's part, so that deleted records may come back.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.config.settings import TopicConfig
from strandline.lake.cold_index import Cold, ColdEntry
from strandline.lake.manifest.manifest import Manifest
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files.checkpoint_codec import Root, ShardEntry, TopicEntry
from strandline.log.files.layout import Layout
from strandline.log.repair.salvage import in_segment, segment_files
from strandline.log.wal import block, control_messages
from strandline.log.wal.recovery import ShardLog, Single
from strandline.platform.disk import Disk


class _Trace:
    """What is known of a topic."""

    def __init__(self, topic_id: int) -> None:
        self.name = f"recovered-{topic_id}"
        self.config = TopicConfig()
        self.epoch = 0
        self.covered = 0
        self.last_ts = 0
        self.floor = 1
        self.deleted = b""
        self.cold: Cold | None = None

    def add(self, manifest: Manifest) -> None:
        """What the lake knows. It answers for its part alone: local copies are let go."""
        self.name, self.epoch = manifest.name, manifest.epoch
        schema = manifest.schema
        self.config = TopicConfig(schema=schema.fields, schema_version=schema.version)
        self.floor, self.covered = manifest.floor, manifest.last_seq
        self.last_ts = max((file.ts_max for file in manifest.files), default=0)
        self.deleted = bytes(manifest.deleted.serialize()) if manifest.deleted else b""
        self.cold = (
            Cold.of_files(manifest.number, manifest.files, {}, released=manifest.files[-1].last_seq)
            if manifest.files
            else None
        )


def rebuilt_root(
    disk: Disk, layout: Layout, store_id: bytes, manifests: Mapping[int, Manifest]
) -> Root:
    """The best root that the other files and the lake's manifests allow for."""
    traces: dict[int, _Trace] = {}
    names: set[str] = set()
    for topic_id, manifest in sorted(manifests.items(), reverse=True):
        trace = traces[topic_id] = _Trace(topic_id)
        trace.add(manifest)
        if manifest.name in names:  # a later topic of this name: ours was deleted, or is in doubt
            trace.name = f"recovered-{topic_id}"
        names.add(manifest.name)
    for path in segment_files(disk, layout):
        for topic_id, rows in in_segment(disk, path, store_id):
            trace = traces.setdefault(topic_id, _Trace(topic_id))
            trace.covered = max(trace.covered, rows.next_seq - 1)
            trace.last_ts = max(trace.last_ts, int(rows.stamps.max()))
    shards = []
    for shard in layout.shards_on(disk):
        log = ShardLog(disk, layout.shard(shard), shard, store_id, tolerate=True)
        try:
            if log.headers:
                first_lsn = log.headers[0].first_lsn
                shards.append(ShardEntry(shard=shard, replay_lsn=first_lsn, durable_lsn=0))
            _read_names(log, traces, manifests)
        finally:
            log.files.close()
    gone = {topic_id for topic_id, manifest in manifests.items() if manifest.dropped}
    return Root(
        number=max(root_file.numbers_in(disk, layout.meta), default=0),
        store_id=store_id,
        term=0,
        next_topic_id=max(traces, default=0) + 1,
        next_file_number=1,
        last_ts=max((trace.last_ts for trace in traces.values()), default=0),
        shards=shards,
        segments=[],
        topics=[
            _entry(topic_id, trace)
            for topic_id, trace in sorted(traces.items())
            if topic_id not in gone
        ],
        lake_trash=sorted(gone),
    )


def _read_names(
    log: ShardLog, traces: dict[int, _Trace], manifests: Mapping[int, Manifest]
) -> None:
    place = 0
    while place < len(log.headers):
        for frame in log.scan(place, log.headers[place].first_lsn):
            for _, view in () if isinstance(frame, Single) else frame.blocks:
                found = block.Block(view)
                trace = traces.get(found.topic_id)
                if trace is None or found.kind != block.CONTROL:
                    continue
                message = control_messages.decode(found.control_payload())
                if (
                    isinstance(message, control_messages.TopicCreated)
                    and found.topic_id not in manifests
                ):
                    trace.name, trace.epoch = message.name, message.epoch
                if isinstance(
                    message, (control_messages.TopicCreated, control_messages.TopicAltered)
                ):
                    trace.config = message.config
        place += 1


def _entry(topic_id: int, trace: _Trace) -> TopicEntry:
    epoch = trace.epoch or trace.last_ts
    return TopicEntry(
        id=topic_id,
        name=trace.name,
        config=trace.config,
        epoch=epoch,
        created_us=epoch,
        covered=trace.covered,
        covered_payload=0 if trace.cold is None else sum(trace.cold.payloads),
        last_ts=trace.last_ts,
        evict_floor=trace.floor,
        evict_reason="mixed" if trace.floor > 1 else "",
        delete_floor=1,
        gone_payload=0,
        ceiling=trace.covered,
        deleted=trace.deleted,
        gaps=[],
        idempotency=[],
        cold=ColdEntry() if trace.cold is None else trace.cold.encode(),
    )
