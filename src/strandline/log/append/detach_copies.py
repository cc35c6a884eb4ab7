"""Makes room for records to go: first, copies that refer to them become records of their own.

Every change that takes records of a topic from its files in the end, be it a delete, a floor or the
end of the topic, happens inside ``losing``. ``log/state/reference_copies.py`` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strandline.log.append.append import flush_memory
from strandline.log.state.topic_state import TopicState


@contextmanager
def losing(state: TopicState, below: int) -> Iterator[None]:
    """Records below a seq are about to go. Maintenance lock held, the writer's is not."""
    state.losses += 1
    try:
        for dest in state.copies:
            _keep_for_itself(dest, below)
        yield
    finally:
        state.losses += 1


def _keep_for_itself(dest: TopicState, below: int) -> None:
    """Put copies on the log as records when one of them refers to a record below a seq."""
    shard = dest.home
    if shard is None:
        return  # read-only: files are another's to change
    shard.writer.acquire()
    try:
        memory = dest.memory
        if memory is None or dest.dropped:
            return
        if any(origin < below for origin in memory.origins.values()):
            flush_memory(dest, shard)
    finally:
        shard.writer.release()


def secure_copies(state: TopicState) -> None:
    """Make durable what ``losing`` has put on the logs of other shards."""
    for shard in {dest.home for dest in state.copies if dest.shard != state.shard}:
        if shard is not None:
            shard.committer.wait_synced(shard.writer.end_lsn)
