"""Lets records go that nobody can see any more, so that the log is as large as what is alive.

One turn does three things, in small steps:

1. expire    keys whose time is over get a delete marker. From then on they are deleted keys.
2. forget    delete markers that are older than the grace period end: a ``Forgotten`` record says up
             to which marker. Folding it drops those keys with all their versions.
3. release   what the fold has noted as dead leaves the log: versions beyond the history, keys that
             were forgotten, ``Forgotten`` records before the last one.

Why a crash cannot bring anything back, nor a rebuild find something else. After a crash a view is
its saved state S, of position P, and the records behind P that are still there. A record is
released only when it is at or before P for good (the host sees to that). So:

- A version beyond the history died of newer ones of its key. S may still list it; the newer ones,
  or those that made them die in turn, are behind P and push it out again. What remains is always
  the newest ``history`` of the key.
- A delete marker was in S when it was released: S knows the key as deleted, or forgotten, never as
  alive. The records before it are released before it or with it, in order of their seqs: a marker
  is never gone while something is left that it had deleted.
- Deleted keys are not in the digest. But a key that comes back has its old versions before it, if
  they were not forgotten by then. Whether they were is told by the log alone: a ``Forgotten``
  record lies before the put, or it does not. That record is released when S has seen it and a newer
  one is there, and after everything that it dropped, which is older: who does not find it any more
  does not find what it was about.
- A crash between forgetting and releasing leaves records of forgotten keys. Rebuilt, they fold to a
  deleted key, and the ``Forgotten`` record drops it again, with the same dead seqs as before.
- If an older state than P were loaded, a ``Forgotten`` record tells: its bound is above that state.
  The fold refuses to go on, and the view is rebuilt (fold.py).

A topic with other views keeps all its records, for they may need them.

What is dead is saved with the fold, and released again after a crash, which changes nothing.
"""

from __future__ import annotations

from itertools import islice, takewhile

import msgspec
from pyroaring import BitMap64

from strandline.views.kv import meta_codec
from strandline.views.kv.fold import KvFold
from strandline.views.view import Draft
from strandline.views.view_runner import Host

EXPIRE_AT_ONCE = 1_000
FORGET_AT_ONCE = 10_000
RELEASE_AT_ONCE = 100_000


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn has done."""

    expired: int
    """Keys that were deleted because their time was over."""
    forgotten: int
    """Deleted keys that were dropped."""
    released: int
    """Records that left the log."""


class Compaction:
    """Compacts one key-value topic. Safe from many threads."""

    def __init__(self, host: Host[KvFold]) -> None:
        self._host = host
        self._clock = host.world.clock

    def run_once(self) -> Compacted:
        """One turn: as much as there is to do now."""
        return Compacted(expired=self._expire(), forgotten=self._forget(), released=self._release())

    def _expire(self) -> int:
        count = 0

        def decision(fold: KvFold) -> Draft | None:
            nonlocal count
            keys = fold.expired(self._clock.now_us(), EXPIRE_AT_ONCE)
            count = len(keys)
            if not keys:
                return None
            return Draft(0, [b""] * count, keys, [meta_codec.EXPIRED] * count)

        total = 0
        while self._host.decide(decision) is not None:
            total += count
        return total

    def _forget(self) -> int:
        count = 0

        def decision(fold: KvFold) -> Draft | None:
            nonlocal count
            until_us = self._clock.now_us() - fold.config.grace_ms * 1000
            markers = fold.markers(self._host.secured[0], FORGET_AT_ONCE)
            over = [marker for marker in markers if marker.ts < until_us]
            count = len(over)
            if not over:
                return None
            return Draft(
                0, [b""], None, [meta_codec.encode(meta_codec.Forgotten(over[-1].version))]
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
                self._host.fold.released(seqs)
        if total:
            self._raise_floor()
        return total

    def _releasable(self) -> BitMap64:
        """The oldest dead records that the saved state has seen."""
        with self._host.lock:
            if self._host.strangers():
                # Nothing leaves such a topic. A rebuild finds what is dead if that changes.
                self._host.fold.dead.clear()
            secured = self._host.secured[0]
            oldest = islice(self._host.fold.dead, RELEASE_AT_ONCE)
            return BitMap64(takewhile(secured.__ge__, oldest))

    def _raise_floor(self) -> None:
        """Nothing is left before the first record: files of the lake that end there go whole."""
        for first in self._host.topics[0].read(0, 1).records:
            self._host.release(0, before=first.seq)
