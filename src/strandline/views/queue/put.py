"""Puts jobs: one batch for each call, and with unique keys at most one job of a key.

A key is in use from the put of its job until that job has ended. A put with a key in use returns
the existing job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from strandline.views.queue import expiry
from strandline.views.queue.fold import JOBS, QueueFold
from strandline.views.queue.job import PutResult
from strandline.views.queue.unique_keys import job_with_key
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

T = TypeVar("T")


class JobBatch:
    """Jobs to put, as columns."""

    def __init__(
        self,
        data: Sequence[bytes],
        keys: Sequence[bytes | None] | None,
        metas: Sequence[bytes | None] | None,
        tag: str | None,
    ) -> None:
        self.data = data
        self.keys = keys
        self.metas = metas
        self.tags = None if tag is None else [tag] * len(data)

    def draft(self, indexes: Sequence[int] | None = None) -> ViewAppend:
        """The append of all jobs, or of those at some indexes."""
        if indexes is None:
            return ViewAppend(JOBS, self.data, self.keys, self.metas, self.tags)
        return ViewAppend(
            JOBS,
            [self.data[index] for index in indexes],
            _select(self.keys, indexes),
            _select(self.metas, indexes),
            _select(self.tags, indexes),
        )


def put(host: ViewRunner[QueueFold], batch: JobBatch) -> list[PutResult]:
    """Put jobs; return their seqs."""
    if not batch.data:
        return []
    if batch.keys is None:
        appended = host.append(batch.draft())
        return [PutResult(seq) for seq in range(appended.first_seq, appended.last_seq + 1)]
    return _put_unique(host, batch, batch.keys)


def _put_unique(
    host: ViewRunner[QueueFold], batch: JobBatch, keys: Sequence[bytes | None]
) -> list[PutResult]:
    expiry.sweep(host)  # an expired job must not keep its key
    existing: dict[int, int] = {}
    duplicates: dict[int, int] = {}
    new: list[int] = []

    def decision(fold: QueueFold) -> ViewAppend | None:
        existing.clear()
        duplicates.clear()
        new.clear()
        first: dict[bytes, int] = {}
        for index, key in enumerate(keys):
            if key is not None and key in first:
                duplicates[index] = first[key]
                continue
            seq = 0 if key is None else job_with_key(host, fold, key)
            if seq:
                existing[index] = seq
            else:
                new.append(index)
                if key is not None:
                    first[key] = index
        return batch.draft(new) if new else None

    appended = host.decide(decision)
    seqs = dict(existing)
    if appended is not None:
        seqs |= zip(new, range(appended.first_seq, appended.last_seq + 1), strict=True)
    seqs |= {index: seqs[other] for index, other in duplicates.items()}
    fresh = set(new)
    return [PutResult(seqs[index], index not in fresh) for index in range(len(keys))]


def _select(column: Sequence[T] | None, indexes: Sequence[int]) -> list[T] | None:
    return None if column is None else [column[index] for index in indexes]
