"""Admits appends: jobs by the rules of their queue, all records by what retention leaves.

A queue that is not in use has no memory in use either, and knows nothing of its jobs: it is opened
by the first append.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import TopicFull
from strandline.log.append.append import Pending, place
from strandline.log.append.batch import Batch
from strandline.log.retention.retention_floors import Floors
from strandline.log.state.job_rules import JobRules
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.shard import Shard


class Admission:
    """Places batches of one topic. Safe from many threads."""

    def __init__(
        self, state: TopicState, floors: Floors, open_queue: Callable[[str], object]
    ) -> None:
        self._state = state
        self._floors = floors
        self._open_queue = open_queue

    @property
    def is_quick(self) -> bool:
        """Whether an append takes moments: a queue may have to be opened, or asked for room."""
        state = self._state
        if state.config.views.queue is None:
            return True
        return state.jobs is not None and state.waiting is None

    def place(self, shard: Shard, batch: Batch, expected_head: int | None) -> Pending:
        """Place a batch if its topic may take it."""
        state, jobs = self._state, self._jobs()
        if jobs is not None:
            jobs.admit(batch.count)
        try:
            return place(state, shard, batch, expected_head)
        except TopicFull:
            if jobs is None and not state.config.ttl_ms:
                raise
        # What is over must not keep anything out.
        if jobs is None:
            self._floors.enforce_now(shard)
        else:
            jobs.make_room()
        return place(state, shard, batch, expected_head)

    def _jobs(self) -> JobRules | None:
        """The rules of the topic's queue; None when it has none."""
        state = self._state
        if state.config.views.queue is None or state.dropped:
            return None
        if state.jobs is None:
            self._open_queue(state.name)
        return state.jobs
