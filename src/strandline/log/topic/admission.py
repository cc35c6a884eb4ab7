"""Admits appends: jobs by the rules of their queue, other records by the limits of the topic.

A queue that is not open uses no memory and has no job rules loaded: the first append opens it.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import TopicFull
from strandline.log.append.append import PendingAppend, place
from strandline.log.append.batch import Batch
from strandline.log.retention.retention_floors import RetentionFloors
from strandline.log.state.job_rules import JobRules
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.shard import Shard


class Admission:
    """Places batches of one topic. Safe from many threads."""

    def __init__(
        self, state: TopicState, floors: RetentionFloors, open_queue: Callable[[str], object]
    ) -> None:
        self._state = state
        self._floors = floors
        self._open_queue = open_queue

    @property
    def is_quick(self) -> bool:
        """Whether an append is fast: no queue has to be opened first, or to make space."""
        state = self._state
        if state.config.views.queue is None:
            return True
        return state.jobs is not None and state.waiting is None

    def place(self, shard: Shard, batch: Batch, expected_head: int | None) -> PendingAppend:
        """Place a batch if its topic admits it."""
        state, jobs = self._state, self._jobs()
        if jobs is not None:
            jobs.admit(batch.count)
        try:
            return place(state, shard, batch, expected_head)
        except TopicFull:
            if jobs is None and not state.config.ttl_ms:
                raise
        # Records that have expired and jobs that have ended must not cause a rejection.
        if jobs is None:
            self._floors.enforce_now(shard)
        else:
            jobs.end_expired_and_publish()
        return place(state, shard, batch, expected_head)

    def _jobs(self) -> JobRules | None:
        """The rules of the topic's queue; None when it has none."""
        state = self._state
        if state.config.views.queue is None or state.dropped:
            return None
        if state.jobs is None:
            self._open_queue(state.name)
        return state.jobs
