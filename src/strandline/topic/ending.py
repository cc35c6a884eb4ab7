"""How a shard ends in peace: no more records, everything taken is durable, and the log says so."""

from __future__ import annotations

from strandline.errors import Closed
from strandline.topic import reopen
from strandline.topic.catalog import Catalog
from strandline.wal import control
from strandline.wal.shard import Shard


def end_shard(shard: Shard, catalog: Catalog) -> None:
    """Take no more records on a shard, make durable what it has taken, and say so."""
    writer = shard.writer
    writer.acquire()
    try:
        shard.flush_nowait()
        writer.turn_away(Closed("the store is closed: open it again"))
        for state in catalog.states():
            ephemeral = state.config.durability == "ephemeral"
            reserved = state.memory is not None or state.ceiling >= state.next_seq
            if ephemeral and state.shard == shard.number and reserved:
                reopen.forget_ephemeral(state, shard)
    finally:
        writer.release()
    shard.committer.sync_now()
    if writer.has_file:
        writer.acquire()
        try:
            writer.end(control.ClosedCleanly())
        finally:
            writer.release()
        shard.committer.sync_now()
