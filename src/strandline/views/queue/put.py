"""Puts jobs: one batch each, and with unique keys at most one job of a key.

A key is taken from the moment at which its job is put until that job has ended. Whoever puts
another with it gets the one that is there.
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

    def draft(self, places: Sequence[int] | None = None) -> Draft:
        """All jobs, or those at some places."""
        if places is None:
            return Draft(JOBS, self.data, self.keys, self.metas, self.tags)
        return Draft(
            JOBS,
            [self.data[place] for place in places],
            _chosen(self.keys, places),
            _chosen(self.metas, places),
            _chosen(self.tags, places),
        )


def put(host: Host[QueueFold], batch: Batch) -> list[Put]:
    """Put jobs; where they are."""
    if not batch.data:
        return []
    if batch.keys is None:
        appended = host.append(batch.draft())
        return [Put(seq) for seq in range(appended.first_seq, appended.last_seq + 1)]
    return _put_unique(host, batch, batch.keys)


def _put_unique(host: Host[QueueFold], batch: Batch, keys: Sequence[bytes | None]) -> list[Put]:
    expiry.sweep(host)  # a job that has expired must not keep its key
    known: dict[int, int] = {}
    twice: dict[int, int] = {}
    new: list[int] = []

    def decision(fold: QueueFold) -> Draft | None:
        known.clear()
        twice.clear()
        new.clear()
        first: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if key is not None and key in first:
                twice[place] = first[key]
                continue
            seq = 0 if key is None else taken(host, fold, key)
            if seq:
                known[place] = seq
            else:
                new.append(place)
                if key is not None:
                    first[key] = place
        return batch.draft(new) if new else None

    appended = host.decide(decision)
    seqs = dict(known)
    if appended is not None:
        seqs |= zip(new, range(appended.first_seq, appended.last_seq + 1), strict=True)
    seqs |= {place: seqs[other] for place, other in twice.items()}
    fresh = set(new)
    return [Put(seqs[place], place not in fresh) for place in range(len(keys))]


def _chosen(column: Sequence[T] | None, places: Sequence[int]) -> list[T] | None:
    return None if column is None else [column[place] for place in places]
