"""Closes a shard: rejects appends, makes what was taken durable, logs a clean close."""

from __future__ import annotations

from strandline.errors import Closed
from strandline.log.catalog import Catalog
from strandline.log.recovery import after_recovery
from strandline.log.wal import control_messages
from strandline.log.wal.shard import Shard


def end_shard(shard: Shard, catalog: Catalog) -> None:
    """Stop appends to a shard, make what it has taken durable, and put the close on the log."""
    writer = shard.writer
    writer.acquire()
    try:
        shard.flush_nowait()
        writer.set_rejection_locked(Closed("the store is closed: open it again"))
        for state in catalog.states():
            ephemeral = state.config.durability == "ephemeral"
            reserved = state.memory is not None or state.ceiling >= state.next_seq
            if ephemeral and state.shard == shard.number and reserved:
                after_recovery.forget_ephemeral(state, shard)
    finally:
        writer.release()
    shard.committer.sync_now()
    if writer.has_file:
        writer.acquire()
        try:
            writer.place_last(control_messages.ClosedCleanly())
        finally:
            writer.release()
        shard.committer.sync_now()
