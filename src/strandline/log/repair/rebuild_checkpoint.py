"""Builds a checkpoint for a store that has lost all of its own, from lake, segments and log.

It lists no segment: a repair searches every file for every record anyway, except those that the
lake has. The lake's manifests have names, epochs, floors and deletes of the topics that are in it;
settings, and the names of other topics, come from the log. A topic that was created before the log
begins is named after its id. What only the lost checkpoints had is lost: floors and deletes after
the lake's part, so that deleted records may reappear.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.config.settings import TopicConfig
from strandline.lake.cold_index import ColdEntry, ColdIndex
from strandline.lake.manifest.manifest import Manifest
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files.checkpoint_codec import ShardEntry, StoreCheckpoint, TopicEntry
from strandline.log.files.layout import Layout
from strandline.log.repair.salvage import in_segment, segment_files
from strandline.log.wal import block, control_messages
from strandline.log.wal.recovery import ShardLog, SingleFrame
from strandline.platform.disk import Disk


class _PartialTopic:
    """What the files have of a topic."""

    def __init__(self, topic_id: int) -> None:
        self.name = f"recovered-{topic_id}"
        self.config = TopicConfig()
        self.epoch = 0
        self.covered = 0
        self.last_ts = 0
        self.floor = 1
        self.deleted = b""
        self.cold: ColdIndex | None = None

    def add(self, manifest: Manifest) -> None:
        """Add what the lake has. Its part is read from there alone: local copies are released."""
        self.name, self.epoch = manifest.name, manifest.epoch
        schema = manifest.schema
        self.config = TopicConfig(schema=schema.fields, schema_version=schema.version)
        self.floor, self.covered = manifest.floor, manifest.last_seq
        self.last_ts = max((file.ts_max for file in manifest.files), default=0)
        self.deleted = bytes(manifest.deleted.serialize()) if manifest.deleted else b""
        self.cold = (
            ColdIndex.of_files(
                manifest.number, manifest.files, {}, released=manifest.files[-1].last_seq
            )
            if manifest.files
            else None
        )


def rebuild_checkpoint(
    disk: Disk, layout: Layout, store_id: bytes, manifests: Mapping[int, Manifest]
) -> StoreCheckpoint:
    """The best checkpoint that can be built from the other files and the lake's manifests."""
    topics: dict[int, _PartialTopic] = {}
    names: set[str] = set()
    for topic_id, manifest in sorted(manifests.items(), reverse=True):
        topic = topics[topic_id] = _PartialTopic(topic_id)
        topic.add(manifest)
        if manifest.name in names:  # a later topic has this name: this one was deleted, or may be
            topic.name = f"recovered-{topic_id}"
        names.add(manifest.name)
    for path in segment_files(disk, layout):
        for topic_id, rows in in_segment(disk, path, store_id):
            topic = topics.setdefault(topic_id, _PartialTopic(topic_id))
            topic.covered = max(topic.covered, rows.next_seq - 1)
            topic.last_ts = max(topic.last_ts, int(rows.stamps.max()))
    shards = []
    for shard in layout.shards_on(disk):
        log = ShardLog(disk, layout.shard(shard), shard, store_id, tolerate=True)
        try:
            if log.headers:
                first_lsn = log.headers[0].first_lsn
                shards.append(ShardEntry(shard=shard, replay_lsn=first_lsn, durable_lsn=0))
            _read_names(log, topics, manifests)
        finally:
            log.files.close()
    gone = {topic_id for topic_id, manifest in manifests.items() if manifest.dropped}
    return StoreCheckpoint(
        number=max(checkpoint_file.numbers_in(disk, layout.meta), default=0),
        store_id=store_id,
        term=0,
        next_topic_id=max(topics, default=0) + 1,
        next_file_number=1,
        last_ts=max((topic.last_ts for topic in topics.values()), default=0),
        shards=shards,
        segments=[],
        topics=[
            _entry(topic_id, topic)
            for topic_id, topic in sorted(topics.items())
            if topic_id not in gone
        ],
        lake_trash=sorted(gone),
    )


def _read_names(
    log: ShardLog, topics: dict[int, _PartialTopic], manifests: Mapping[int, Manifest]
) -> None:
    place = 0
    while place < len(log.headers):
        for frame in log.scan(place, log.headers[place].first_lsn):
            for _, view in () if isinstance(frame, SingleFrame) else frame.blocks:
                content = block.Block(view)
                topic = topics.get(content.topic_id)
                if topic is None or content.kind != block.CONTROL:
                    continue
                message = control_messages.decode(content.control_payload())
                if (
                    isinstance(message, control_messages.TopicCreated)
                    and content.topic_id not in manifests
                ):
                    topic.name, topic.epoch = message.name, message.epoch
                if isinstance(
                    message, (control_messages.TopicCreated, control_messages.TopicAltered)
                ):
                    topic.config = message.config
        place += 1


def _entry(topic_id: int, topic: _PartialTopic) -> TopicEntry:
    epoch = topic.epoch or topic.last_ts
    return TopicEntry(
        id=topic_id,
        name=topic.name,
        config=topic.config,
        epoch=epoch,
        created_us=epoch,
        covered=topic.covered,
        covered_payload=0 if topic.cold is None else sum(topic.cold.payloads),
        last_ts=topic.last_ts,
        evict_floor=topic.floor,
        evict_reason="mixed" if topic.floor > 1 else "",
        delete_floor=1,
        gone_payload=0,
        ceiling=topic.covered,
        deleted=topic.deleted,
        gaps=[],
        idempotency=[],
        cold=ColdEntry() if topic.cold is None else topic.cold.encode(),
    )
