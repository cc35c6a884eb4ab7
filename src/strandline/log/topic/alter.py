"""Changes a topic's configuration: first on the log, and never while an append is in progress."""

from __future__ import annotations

from strandline.config.settings import TopicConfig, topic_config
from strandline.errors import Invalid, UnknownTopic
from strandline.log.append.append import flush_memory, update_fast_limit
from strandline.log.retention.retention_floors import RetentionFloors
from strandline.log.state.deleted_payload import resolve_averages
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.shard import Shard


def alter(
    state: TopicState, shard: Shard, floors: RetentionFloors, options: dict[str, object]
) -> TopicConfig:
    """Change the configuration from now on; what the old one evicted stays evicted."""
    with shard.maintenance:
        floors.enforce(shard)
        config = topic_config(state.config, options)
        _check_dead_letter(state, config)
        if config.cap_bytes:
            resolve_averages(state)
        while not _try_alter(state, shard, config):
            # Appends of an fsync topic are in progress: they are published with the old durability.
            shard.committer.wait_synced(shard.writer.end_lsn)
    shard.committer.wait_synced(shard.writer.end_lsn)
    return config


def _check_dead_letter(state: TopicState, config: TopicConfig) -> None:
    old, new = state.config.views.queue, config.views.queue
    if old is not None and new is not None and old.dead_letter != new.dead_letter:
        raise Invalid(
            f"dead letters of {state.name!r} go to {old.dead_letter or state.name + ':dead'!r}, "
            "and that cannot change: create a queue with another name"
        )


def _try_alter(state: TopicState, shard: Shard, config: TopicConfig) -> bool:
    shard.writer.acquire()
    try:
        if state.dropped:
            raise UnknownTopic(f"topic {state.name!r} was deleted: create it again")
        if state.next_seq != state.head_seq + 1:
            return False
        if state.memory is not None and config.durability != state.config.durability:
            flush_memory(state, shard)
            # Deletes of records that were in no file are put on the log again, after the records.
            seqs = state.deleted.serialize() if state.deleted else b""
            message = control_messages.RecordsDeleted(state.delete_floor, seqs)
            shard.writer.place_control(state.id, message)
        altered = control_messages.TopicAltered(config, state.evict_floor, state.evict_reason)
        shard.writer.place_control(state.id, altered)
        state.config = config
        update_fast_limit(state)
        return True
    finally:
        shard.writer.release()
