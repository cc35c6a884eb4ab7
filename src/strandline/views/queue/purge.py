"""Throws waiting jobs away: all, those of a range of seqs, those with a tag.

A job that is in flight is left to its worker, also when its lease has run out.
"""

from __future__ import annotations

import msgspec
import numpy as np

from strandline.errors import Invalid
from strandline.log.topic.validation import check_whole
from strandline.views.queue.acks import said
from strandline.views.queue.codec import END, NO_SEQS, PURGED, Seqs, Word
from strandline.views.queue.fold import JOBS, QueueFold
from strandline.views.view import Draft
from strandline.views.view_runner import Host

_JOBS_AT_ONCE = 1000
_SEQ_MAX = (1 << 62) - 1


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which waiting jobs: those that fit all of this; without any, all."""

    tag: str | None = None
    """With a ``*`` at its end every tag that begins so."""
    from_seq: int | None = None
    to_seq: int | None = None
    """The last seq, included."""

    def checked(self) -> JobFilter:
        """The filter itself, or an error that says what to give."""
        if self.tag is not None and (not isinstance(self.tag, str) or "*" in self.tag[:-1]):
            raise Invalid(
                f"cannot match {self.tag!r}: give a tag, or its beginning with one * at the end"
            )
        given = {"from_seq": self.from_seq, "to_seq": self.to_seq}
        for name, seq in given.items():
            if seq is not None:
                check_whole(**{name: seq})
                if not 1 <= seq <= _SEQ_MAX:
                    raise Invalid(f"{name} is a seq, at least 1, not {seq}")
        return self

    def has(self, tag: str | None) -> bool:
        """Whether a job with this tag fits."""
        if self.tag is None:
            return True
        if self.tag.endswith("*"):
            return tag is not None and tag.startswith(self.tag[:-1])
        return tag == self.tag


def purge(host: Host[QueueFold], chosen: JobFilter, *, dry_run: bool) -> int:
    """Throw the waiting jobs of a filter away, of those that are there now; how many."""
    first, following = chosen.from_seq or 1, (chosen.to_seq or _SEQ_MAX) + 1
    with host.reading() as fold:
        seqs = _waiting(fold, first, min(following, fold.heads[JOBS] + 1))
    purged = 0
    for at in range(0, len(seqs), _JOBS_AT_ONCE):
        some = seqs[at : at + _JOBS_AT_ONCE]
        if chosen.tag is not None:
            records = host.records(JOBS, some.tolist())
            fitting = [record.seq for record in records if chosen.has(record.tag)]
            some = np.array(fitting, dtype=np.int64)
        purged += len(some) if dry_run else _end(host, some)
    return purged


def _end(host: Host[QueueFold], seqs: Seqs) -> int:
    ended = 0

    def decision(fold: QueueFold) -> Draft | None:
        nonlocal ended
        still = NO_SEQS
        if len(seqs):
            still = np.intersect1d(seqs, _waiting(fold, int(seqs[0]), int(seqs[-1]) + 1))
        ended = len(still)
        return said([Word(END, still, PURGED)]) if ended else None

    host.decide(decision)
    return ended


def _waiting(fold: QueueFold, first: int, following: int) -> Seqs:
    if first >= following:
        return NO_SEQS
    parts = [seqs for seqs, _ in fold.jobs.board.waiting_between(first, following)]
    return np.concatenate([NO_SEQS, *parts])
