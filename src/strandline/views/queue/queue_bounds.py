"""Limits of a queue: admits jobs by memory, and publishes the numbers for the caps of its topic.

Every append to the topic is a job, also a plain one: it is admitted by the memory that jobs take,
and by a cap that rejects (`log/topic/admission.py`). A cap that discards ends jobs later
(`views/queue/expiry.py`).
"""

from __future__ import annotations

from strandline.log.state.job_rules import WaitingJobs
from strandline.views.queue import expiry
from strandline.views.queue.fold import JOB_BYTES, JOBS, QueueFold
from strandline.views.view_runner import ViewRunner

PLAIN_BYTES = 4
"""Bytes that a job with default options takes."""
_UNFOLDED_MAX = 10_000
"""Records that are estimated before they are folded in; with more the queue catches up first."""


class QueueLimits:
    """The limits of one queue. Safe to use from many threads."""

    def __init__(self, host: ViewRunner[QueueFold]) -> None:
        self._host = host
        self._topic = host.topics[JOBS]
        self._waiting: WaitingJobs | None = None
        host.when_loaded = self._follow
        host.periodic_work = self.enforce
        self._follow(host.fold)

    def admit(self, count: int) -> None:
        """Raise MemoryPressure if there is no memory for ``count`` more jobs."""
        host = self._host
        unfolded = max(0, self._topic.head_seq - host.applied[JOBS])
        if unfolded > _UNFOLDED_MAX and host.lock.acquire(blocking=False):
            try:
                host.catch_up()
                unfolded = 0
            finally:
                host.lock.release()
        host.world.share.admit(JOB_BYTES * count + PLAIN_BYTES * unfolded)

    def end_expired_and_publish(self) -> None:
        """End expired jobs and publish the waiting ones, because the topic looks full."""
        expiry.sweep(self._host)
        with self._host.reading() as fold:
            if self._topic.config.cap_bytes:
                fold.measure(self._host.world.fetch)
            self._publish(fold, self._host.applied[JOBS])

    def enforce(self) -> None:
        """End jobs that are too old or too many."""
        config = self._topic.config
        if config.ttl_ms or (config.discard == "old" and (config.cap_records or config.cap_bytes)):
            expiry.sweep(self._host)

    def enforce_caps(self) -> None:
        """End jobs that are too many. Runs after a put."""
        config = self._topic.config
        if config.discard == "old" and (config.cap_records or config.cap_bytes):
            expiry.sweep(self._host)

    def _follow(self, fold: QueueFold) -> None:
        """Publish the jobs of a fold that replaces another."""
        self._waiting = None
        self._topic.attach_queue(self, fold.jobs.ended, None)
        fold.when_applied = self._publish

    def _publish(self, fold: QueueFold, head_seq: int = 0) -> None:
        config = self._topic.config
        rejects = config.discard == "reject" and (config.cap_records or config.cap_bytes)
        if not rejects or (config.cap_bytes and not fold.measured):
            if self._waiting is not None:
                self._follow(fold)
            return
        count, size = fold.jobs.table.waiting
        is_first = self._waiting is None
        waiting = self._waiting = self._waiting or WaitingJobs()
        waiting.publish(max(head_seq, fold.heads[JOBS]), count, size)
        if is_first:
            self._topic.attach_queue(self, fold.jobs.ended, waiting)
