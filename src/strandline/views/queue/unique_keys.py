"""Unique keys: at most one job of a key waits or is in flight."""

from __future__ import annotations

from strandline.views.queue.fold import JOBS, QueueFold
from strandline.views.view_runner import ViewRunner


def job_with_key(host: ViewRunner[QueueFold], fold: QueueFold, key: bytes) -> int:
    """The job that has this key, 0 for none. The fold has only the hash, the record has the key."""
    seq = fold.jobs.by_key(key)
    if not seq:
        return 0
    record = host.record(JOBS, seq)
    return seq if record is not None and record.key == key else 0
