"""Puts jobs: one batch for each call, and with unique keys at most one job of a key.

A key is in use from the put of its job until that job has ended. A put with a key in use returns
the existing job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from strandline.views.queue import expiry
from strandline.views.queue.fold import JOBS, QueueFold
from strandline.views.queue.job import Put
from strandline.views.queue.unique_keys import taken
from strandline.views.view import Draft
from strandline.views.view_runner import Host

T = TypeVar("T")


class Batch:
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

    def draft(self, indexes: Sequence[int] | None = None) -> Draft:
        """The append of all jobs, or of those at some indexes."""
        if indexes is None:
            return Draft(JOBS, self.data, self.keys, self.metas, self.tags)
        return Draft(
            JOBS,
            [self.data[index] for index in indexes],
            _select(self.keys, indexes),
            _select(self.metas, indexes),
            _select(self.tags, indexes),
        )


def put(host: Host[QueueFold], batch: Batch) -> list[Put]:
    """Put jobs; return their seqs."""
    if not batch.data:
        return []
    if batch.keys is None:
        appended = host.append(batch.draft())
        return [Put(seq) for seq in range(appended.first_seq, appended.last_seq + 1)]
    return _put_unique(host, batch, batch.keys)


def _put_unique(host: Host[QueueFold], batch: Batch, keys: Sequence[bytes | None]) -> list[Put]:
    expiry.sweep(host)  # an expired job must not keep its key
    existing: dict[int, int] = {}
    duplicates: dict[int, int] = {}
    new: list[int] = []

    def decision(fold: QueueFold) -> Draft | None:
        existing.clear()
        duplicates.clear()
        new.clear()
        first: dict[bytes, int] = {}
        for index, key in enumerate(keys):
            if key is not None and key in first:
                duplicates[index] = first[key]
                continue
            seq = 0 if key is None else taken(host, fold, key)
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
    return [Put(seqs[index], index not in fresh) for index in range(len(keys))]


def _select(column: Sequence[T] | None, indexes: Sequence[int]) -> list[T] | None:
    return None if column is None else [column[index] for index in indexes]
