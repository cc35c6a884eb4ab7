"""Purges waiting jobs: all, those of a range of seqs, those with a tag.

A job in flight stays with its worker, even if its lease has expired.
"""

from __future__ import annotations

import msgspec
import numpy as np

from strandline.errors import Invalid
from strandline.log.topic.validation import check_whole
from strandline.views.queue.acks import lease_append
from strandline.views.queue.codec import END, NO_SEQS, PURGED, LeaseRecord, Seqs
from strandline.views.queue.fold import JOBS, QueueFold
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

_JOBS_AT_ONCE = 1000
_SEQ_MAX = (1 << 62) - 1


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Matches waiting jobs that fulfil all conditions; all jobs without a condition."""

    tag: str | None = None
    """A tag; with a ``*`` at its end, a prefix of tags."""
    from_seq: int | None = None
    to_seq: int | None = None
    """The last seq, included."""

    def checked(self) -> JobFilter:
        """The filter itself. Raises Invalid if it is malformed."""
        if self.tag is not None and (not isinstance(self.tag, str) or "*" in self.tag[:-1]):
            raise Invalid(
                f"cannot match {self.tag!r}: give a tag, or its beginning with one * at the end"
            )
        seqs = {"from_seq": self.from_seq, "to_seq": self.to_seq}
        for name, seq in seqs.items():
            if seq is not None:
                check_whole(**{name: seq})
                if not 1 <= seq <= _SEQ_MAX:
                    raise Invalid(f"{name} is a seq, at least 1, not {seq}")
        return self

    def has(self, tag: str | None) -> bool:
        """Whether a job with this tag matches."""
        if self.tag is None:
            return True
        if self.tag.endswith("*"):
            return tag is not None and tag.startswith(self.tag[:-1])
        return tag == self.tag


def purge(host: ViewRunner[QueueFold], filter: JobFilter, *, dry_run: bool) -> int:
    """End the current waiting jobs that a filter matches; return how many."""
    first, following = filter.from_seq or 1, (filter.to_seq or _SEQ_MAX) + 1
    with host.reading() as fold:
        seqs = _waiting(fold, first, min(following, fold.heads[JOBS] + 1))
    purged = 0
    for at in range(0, len(seqs), _JOBS_AT_ONCE):
        some = seqs[at : at + _JOBS_AT_ONCE]
        if filter.tag is not None:
            records = host.records(JOBS, some.tolist())
            matching = [record.seq for record in records if filter.has(record.tag)]
            some = np.array(matching, dtype=np.int64)
        purged += len(some) if dry_run else _end(host, some)
    return purged


def _end(host: ViewRunner[QueueFold], seqs: Seqs) -> int:
    ended = 0

    def decision(fold: QueueFold) -> ViewAppend | None:
        nonlocal ended
        waiting = NO_SEQS
        if len(seqs):
            waiting = np.intersect1d(seqs, _waiting(fold, int(seqs[0]), int(seqs[-1]) + 1))
        ended = len(waiting)
        return lease_append([LeaseRecord(END, waiting, PURGED)]) if ended else None

    host.decide(decision)
    return ended


def _waiting(fold: QueueFold, first: int, following: int) -> Seqs:
    if first >= following:
        return NO_SEQS
    parts = [seqs for seqs, _ in fold.jobs.table.waiting_between(first, following)]
    return np.concatenate([NO_SEQS, *parts])
