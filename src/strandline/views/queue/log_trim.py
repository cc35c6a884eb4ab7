"""Trims the log of a queue: records of ended jobs, and old records of leases.

Runs after every save of the views (``Shelf.save_and_maintain``), so that no caller waits for it.

- Jobs that have ended in the saved state are deleted from the topic of jobs.
- When the topic of leases has become much larger than the state of the leases, a survey is appended
  that contains this state (`views/queue/state/lease_snapshot.py`). When the survey is part of the
  saved state, all records before it are deleted.
"""

from __future__ import annotations

import threading

from pyroaring import BitMap64

from strandline.errors import TooLarge
from strandline.records import AppendResult
from strandline.views.queue import expiry
from strandline.views.queue.codec import NO_SEQS, SURVEY, LeaseRecord, encode_lease_record
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.queue.state import lease_snapshot
from strandline.views.queue.state.lease_snapshot import SurveyRange
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

SURVEY_BYTES_MIN = 1 << 20
"""The topic of leases is not surveyed before it has this many bytes."""
SURVEY_SHARE = 4
"""Nor before it has this many times the bytes of the survey before."""
_ROWS_MIN = 16


class LogTrim:
    """Trims one queue. Safe to use from many threads."""

    def __init__(self, host: ViewRunner[QueueFold]) -> None:
        self._host = host
        self._working = threading.Lock()
        self._released_before = 0

    def run_once(self) -> None:
        """Delete what is not needed any more, and write a survey if one is due."""
        with self._working:
            expiry.sweep(self._host)
            self._release_jobs()
            self._release_leases()
            fold = self._host.fold
            if fold.lease_bytes > max(SURVEY_BYTES_MIN, SURVEY_SHARE * fold.survey_bytes):
                self._survey()

    def survey(self) -> None:
        """Write a survey, whatever the size of the topic."""
        with self._working:
            self._survey()

    def _release_jobs(self) -> None:
        host = self._host
        with host.lock:
            fold, released = host.fold, host.fold.releasable
        if released.leases_head > host.secured[LEASES] or not released.seqs:
            return
        scattered = BitMap64(released.seqs)
        scattered.remove_range(0, released.before)
        host.release(JOBS, scattered, before=released.before)
        with host.lock:
            if host.fold is fold:
                fold.forget(released)

    def _release_leases(self) -> None:
        host = self._host
        begin = host.fold.survey_begin
        if self._released_before < begin and host.fold.survey_end <= host.secured[LEASES]:
            host.release(LEASES, before=begin)
            self._released_before = begin

    def _survey(self) -> None:
        with self._host.reading() as fold:
            end = fold.heads[JOBS] + 1
        begin, first, rows_max = 0, 1, lease_snapshot.ROWS_MAX
        while first < end or not begin:
            try:
                appended, following = self._append_statement(
                    SurveyRange(begin, first, end), rows_max
                )
            except TooLarge:
                if rows_max <= _ROWS_MIN:
                    raise
                rows_max //= 4  # the topic limits records to less than usual
                continue
            begin, first = begin or appended.first_seq, following

    def _append_statement(self, span: SurveyRange, rows_max: int) -> tuple[AppendResult, int]:
        """Append one record of a survey; return it and the first seq of the next one."""
        following = span.first

        def decision(fold: QueueFold) -> ViewAppend:
            nonlocal following
            part = lease_snapshot.survey_record(fold.jobs.table, fold.jobs.leases, span, rows_max)
            if not span.begin:
                number, seqs = fold.burial or (0, NO_SEQS)
                part = lease_snapshot.first_record(
                    part, paused=fold.paused, burial=number, buried=seqs
                )
            following = part.following
            return ViewAppend(
                LEASES,
                [encode_lease_record(LeaseRecord(SURVEY, NO_SEQS, 0, lease_snapshot.encode(part)))],
            )

        appended = self._host.decide(decision)
        assert appended is not None, "the decision always returns a record"
        return appended, following
