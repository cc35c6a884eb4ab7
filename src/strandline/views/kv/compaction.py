"""Compaction: deletes records that cannot be read any more, to keep the log near its live state.

One run does three things, in small steps:

1. expire    keys that have expired get a delete marker. From then on they are deleted keys.
2. forget    a ``ForgottenMeta`` record is appended with the seq of the newest delete marker that is
             older than the grace period. Folding it drops the keys up to it with all versions.
3. release   dead records are deleted from the log: versions beyond the history, forgotten keys,
             ``ForgottenMeta`` records before the last one.

Why a crash cannot restore anything, and a rebuild gives the same state. After a crash a view is its
saved state S, of position P, and the records after P that are left. A record is released only when
S is durable and the record is at or before P (the host ensures that). So:

- A version beyond the history is dead because of newer versions of its key. S may still list it;
  the newer ones, or those that replaced them, are after P and remove it again. What remains is
  always the newest ``history`` versions of the key.
- A delete marker was in S when it was released: S has the key as deleted or forgotten, never as
  live. Records before it are released before it or with it, in order of their seqs: a marker is
  never gone while a record is left that it had deleted.
- Deleted keys are not in the digest. But a key that is put again has its old versions before it, if
  they were not forgotten by then. The log alone decides: a ``ForgottenMeta`` record is before the
  put, or it is not. That record is released when S covers it and a newer one exists, and after all
  the records that it dropped, which are older: when it is gone, so are they.
- A crash between forgetting and releasing leaves records of forgotten keys. In a rebuild they fold
  to a deleted key, and the ``ForgottenMeta`` record drops it again, with the same dead seqs as
  before.
- If a state older than P were loaded, a ``ForgottenMeta`` record would show it: its bound is above
  that state. The fold raises Corrupt, and the view is rebuilt (`views/kv/fold.py`).

A topic with other views keeps all its records, because they may need them.

Dead seqs are saved with the fold. After a crash they may be released again, which has no effect.
"""

from __future__ import annotations

from itertools import islice, takewhile

import msgspec
from pyroaring import BitMap64

from strandline.views.kv import meta_codec
from strandline.views.kv.fold import KvFold
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

EXPIRE_AT_ONCE = 1_000
FORGET_AT_ONCE = 10_000
RELEASE_AT_ONCE = 100_000


class KvCompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    expired: int
    """Keys that were deleted because they had expired."""
    forgotten: int
    """Deleted keys that were dropped."""
    released: int
    """Records that left the log."""


class Compaction:
    """Compacts one key-value topic. Safe to use from many threads."""

    def __init__(self, host: ViewRunner[KvFold]) -> None:
        self._host = host
        self._clock = host.world.clock

    def run_once(self) -> KvCompactionResult:
        """Do all three steps for everything that is due now."""
        return KvCompactionResult(
            expired=self._expire(), forgotten=self._forget(), released=self._release()
        )

    def _expire(self) -> int:
        count = 0

        def decision(fold: KvFold) -> ViewAppend | None:
            nonlocal count
            keys = fold.expired(self._clock.now_us(), EXPIRE_AT_ONCE)
            count = len(keys)
            if not keys:
                return None
            return ViewAppend(0, [b""] * count, keys, [meta_codec.EXPIRED] * count)

        total = 0
        while self._host.decide(decision) is not None:
            total += count
        return total

    def _forget(self) -> int:
        count = 0

        def decision(fold: KvFold) -> ViewAppend | None:
            nonlocal count
            until_us = self._clock.now_us() - fold.config.grace_ms * 1000
            markers = fold.markers(self._host.secured[0], FORGET_AT_ONCE)
            due = [marker for marker in markers if marker.ts < until_us]
            count = len(due)
            if not due:
                return None
            return ViewAppend(
                0, [b""], None, [meta_codec.encode(meta_codec.ForgottenMeta(due[-1].version))]
            )

        total = 0
        while self._host.decide(decision) is not None:
            total += count
        return total

    def _release(self) -> int:
        total = 0
        while seqs := self._releasable():
            total += self._host.release(0, seqs)
            with self._host.lock:
                self._host.fold.remove_dead(seqs)
        if total:
            self._raise_floor()
        return total

    def _releasable(self) -> BitMap64:
        """The oldest dead records that the saved state covers."""
        with self._host.lock:
            if self._host.foreign_marks():
                # Nothing leaves such a topic. If that changes, a rebuild finds the dead seqs.
                self._host.fold.dead.clear()
            secured = self._host.secured[0]
            oldest = islice(self._host.fold.dead, RELEASE_AT_ONCE)
            return BitMap64(takewhile(secured.__ge__, oldest))

    def _raise_floor(self) -> None:
        """Raise the floor of the topic to its first record: lake files before it are deleted as a
        whole."""
        for first in self._host.topics[0].read(0, 1).records:
            self._host.release(0, before=first.seq)
