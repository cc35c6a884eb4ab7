"""Logs copies as records before the records that they refer to are removed.

Every change that eventually removes records of a topic from its files, be it a delete, a floor or
the end of the topic, happens inside ``losing``; see ``log/state/reference_copies.py`` for the
reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strandline.log.append.append import flush_memory
from strandline.log.state.topic_state import TopicState


@contextmanager
def detaching_copies(state: TopicState, below: int) -> Iterator[None]:
    """Detach copies, then remove records below a seq in the ``with`` block.

    Maintenance lock held, the writer's is not.
    """
    state.losses += 1
    try:
        for dest in state.copies:
            _detach(dest, below)
        yield
    finally:
        state.losses += 1


def _detach(dest: TopicState, below: int) -> None:
    """Log copies as records when one of them refers to a record below a seq."""
    shard = dest.home
    if shard is None:
        return  # read-only: another process changes the files
    shard.writer.acquire()
    try:
        memory = dest.memory
        if memory is None or dest.dropped:
            return
        if any(origin < below for origin in memory.origins.values()):
            flush_memory(dest, shard)
    finally:
        shard.writer.release()


def sync_copies(state: TopicState) -> None:
    """Make durable what ``losing`` has written to the logs of other shards."""
    for shard in {dest.home for dest in state.copies if dest.shard != state.shard}:
        if shard is not None:
            shard.committer.wait_synced(shard.writer.end_lsn)
