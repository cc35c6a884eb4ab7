"""All jobs of a queue: where each is, which may be claimed, which wait for a time.

What may be claimed goes out by priority, then by seq. A job that comes back (its lease ran out, it
was nacked, its delay is over) is older than those that nobody has claimed yet, so it comes first.

Nothing here depends on the order in which jobs changed: the columns say all, and the rest (how many
of a priority are ready in a chunk, when a chunk must be looked at) is counted from them.

A chunk goes when its last job is gone, unless jobs may still be added to it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.queue.codec import NO_SEQS, Seqs
from strandline.views.queue.state.job_chunk import (
    BITS,
    BLOCKED,
    DELAYED,
    GONE,
    HELD,
    LAPSED,
    READY,
    SIZE,
    Chunk,
    Ready,
    Rows,
)
from strandline.views.queue.state.timer_heap import Moments

_STATES = 8
_COUNTED = (BLOCKED, DELAYED, READY)
_SEQ_END = 1 << 62
_SIZE_MAX = (1 << 32) - 1
_FIRST = np.zeros(1, dtype=np.int64)


class Part(NamedTuple):
    """Those of some seqs that are alive and in one chunk."""

    chunk: Chunk
    rows: Rows
    places: NDArray[np.int64]
    """Where they stood among the seqs that were asked for."""


class Board:
    """Jobs by seq. Owned by one thread."""

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}
        self.tally: NDArray[np.int64] = np.zeros(_STATES, dtype=np.int64)
        """Jobs of each state."""
        self.sizes: NDArray[np.int64] = np.zeros(_STATES, dtype=np.int64)
        """Bytes of the jobs of each state, of those that were measured."""
        self.nbytes = 0
        self.changed: set[int] = set()
        """Chunks that are not as they were saved."""
        self.dropped: set[int] = set()
        """Chunks that are gone, and were saved once."""
        self.dues = Moments()
        """When delayed jobs are due."""
        self.ends = Moments()
        """When waiting jobs expire."""
        self.untidy: set[int] = set()
        """Chunks that have lost jobs."""
        self._ready: dict[int, list[int]] = {}
        """Chunks that have jobs of a priority that may be claimed, in order."""
        self._newest = -1

    def chunk(self, number: int) -> Chunk:
        """The chunk in which jobs are put; the one before it is complete then."""
        found = self.chunks.get(number)
        if found is None:
            found = self.chunks[number] = Chunk(number)
            self.dropped.discard(number)
            self.nbytes += found.nbytes
            self.untidy.add(self._newest)
            self._newest = number
        assert found.offsets is None, "jobs come in order"
        return found

    def adopt(self, chunk: Chunk) -> None:
        """Take a chunk as it was saved; its states are already what they should be."""
        self.chunks[chunk.number] = chunk
        self._newest = max(self._newest, chunk.number)
        self.nbytes += chunk.nbytes
        self.tally += np.bincount(chunk.state, minlength=_STATES)
        self.tally[GONE] = 0
        if "size" in chunk.extra:
            self.sizes += _bytes_by_state(chunk.state, chunk.extra["size"])
            self.sizes[GONE] = 0
        chunk.live = int(np.count_nonzero(chunk.state))
        self._gain(chunk, (chunk.state >= READY).nonzero()[0])
        delayed = (chunk.state == DELAYED).nonzero()[0]
        if len(delayed):
            self.dues.note(chunk.number, int(chunk.column("not_before")[delayed].min()))
        self.note_ends(chunk, _can_expire(chunk).nonzero()[0])

    def find(self, seqs: Seqs, state: int = BLOCKED) -> Iterator[Part]:
        """The jobs of these seqs that are in this state or a later one, chunk by chunk."""
        if len(seqs) == 1:
            yield from self._find_one(int(seqs[0]), state)
            return
        numbers = seqs >> BITS
        places = np.arange(len(seqs))
        if len(seqs) and (numbers[0] == numbers).all():
            runs = [places]
        else:
            order = np.argsort(numbers, kind="stable")
            cuts = np.flatnonzero(np.diff(numbers[order])) + 1
            runs = np.split(order, cuts) if len(seqs) else []
        for run in runs:
            chunk = self.chunks.get(int(numbers[run[0]]))
            if chunk is None:
                continue
            rows, right = chunk.rows(seqs if len(run) == len(seqs) else seqs[run])
            alive = chunk.state[rows] >= state
            if right is not None:
                alive &= right
            if alive.all():
                yield Part(chunk, rows, run)
            elif alive.any():
                yield Part(chunk, rows[alive], run[alive])

    def _find_one(self, seq: int, state: int) -> Iterator[Part]:
        """The same for a single seq, which is what many workers ask for."""
        found = self.locate(seq)
        if found is not None and found[0].state[found[1]] >= state:
            yield Part(found[0], np.array((found[1],)), _FIRST)

    def locate(self, seq: int) -> tuple[Chunk, int] | None:
        """Chunk and row of one job; None when it has none."""
        chunk = self.chunks.get(seq >> BITS)
        row = -1 if chunk is None else chunk.row(seq)
        return None if chunk is None or row < 0 else (chunk, row)

    def between(self, first: int, following: int) -> list[Chunk]:
        """The chunks that have to do with a range of seqs, in order."""
        numbers = range(first >> BITS, ((following - 1) >> BITS) + 1)
        return [self.chunks[number] for number in sorted(self.chunks) if number in numbers]

    def first_live(self) -> int | None:
        """The oldest job there is, None when there is none."""
        for number in sorted(self.chunks):
            chunk = self.chunks[number]
            rows = (chunk.state >= BLOCKED).nonzero()[0][:1]
            if len(rows):
                return int(chunk.seqs(rows)[0])
        return None

    def add_plain(self, chunk: Chunk, first: int, following: int, priority: int) -> None:
        """Jobs about which nothing was said, in these rows."""
        chunk.state[first:following] = READY
        chunk.priority[first:following] = priority
        chunk.live += following - first
        self.tally[READY] += following - first
        self.changed.add(chunk.number)
        self._count(chunk, priority, following - first, first)

    def move(self, chunk: Chunk, rows: Rows, state: int) -> None:
        """Jobs of a chunk, each once, are in another state now."""
        if len(rows) == 1:
            self._move_one(chunk, int(rows[0]), state)
            return
        old = chunk.state[rows]
        chunk.state[rows] = state
        self.changed.add(chunk.number)
        self.tally -= np.bincount(old, minlength=_STATES)
        self.tally[state] += len(rows)
        self.tally[GONE] = 0
        if state:
            chunk.live += int(np.count_nonzero(old == GONE))
        else:
            chunk.live -= len(rows)
            self.untidy.add(chunk.number)
        if "size" in chunk.extra:
            sizes = chunk.extra["size"][rows]
            self.sizes -= _bytes_by_state(old, sizes)
            self.sizes[state] += int(sizes.sum())
            self.sizes[GONE] = 0
        could = old >= READY
        if state >= READY:
            self._gain(chunk, rows[~could] if could.any() else rows)
        elif could.any():
            self._lose(chunk, rows if could.all() else rows[could])

    def _move_one(self, chunk: Chunk, row: int, state: int) -> None:
        old = int(chunk.state[row])
        chunk.state[row] = state
        self.changed.add(chunk.number)
        self.tally[old] -= 1
        self.tally[state] += 1
        self.tally[GONE] = 0
        if "size" in chunk.extra:
            size = int(chunk.extra["size"][row])
            self.sizes[old] -= size
            self.sizes[state] += size
            self.sizes[GONE] = 0
        if not state:
            self.untidy.add(chunk.number)
        chunk.live += bool(state) - bool(old)
        if (old >= READY) != (state >= READY):
            more = 1 if state >= READY else -1
            self._count(chunk, int(chunk.priority[row]), more, row)

    def tidy(self) -> None:
        """Let go of memory that is no longer needed. Rows that were found before may be others."""
        for number in self.untidy:
            chunk = self.chunks.get(number)
            if chunk is not None and number != self._newest:
                self._tidy(chunk)
        self.untidy.clear()

    def trim(self, number: int) -> None:
        """Forget columns of a chunk that say nothing any more."""
        chunk = self.chunks[number]
        before = chunk.nbytes
        chunk.drop_zeros()
        self.nbytes += chunk.nbytes - before

    def set_column(self, chunk: Chunk, name: str, rows: Rows, values: object) -> None:
        """Say something of jobs that not every job has."""
        if name not in chunk.extra:
            self.nbytes += chunk.column(name).nbytes
        chunk.extra[name][rows] = values
        self.changed.add(chunk.number)

    def measure(self, chunk: Chunk, rows: Rows, sizes: NDArray[np.int64]) -> None:
        """Say how many bytes the records of jobs have, which were not measured before."""
        self.set_column(chunk, "size", rows, np.minimum(sizes, _SIZE_MAX))
        self.sizes += _bytes_by_state(chunk.state[rows], chunk.extra["size"][rows])

    @property
    def waiting(self) -> tuple[int, int]:
        """Jobs that caps count, and their bytes: neither claimed nor on their way out."""
        at = list(_COUNTED)
        return int(self.tally[at].sum()), int(self.sizes[at].sum())

    def waiting_between(self, first: int, following: int) -> Iterator[tuple[Seqs, Seqs]]:
        """Those jobs in a range of seqs, oldest first, chunk by chunk: seqs and sizes."""
        for chunk in self.between(first, following):
            rows = np.isin(chunk.state, _COUNTED).nonzero()[0]
            seqs = chunk.seqs(rows)
            inside = (seqs >= first) & (seqs < following)
            if inside.any():
                yield seqs[inside], chunk.values("size", rows[inside]).astype(np.int64)

    def oldest(self, count: int, size: int) -> Seqs:
        """The oldest of those jobs: at least so many, with at least so many bytes."""
        found: list[Seqs] = [NO_SEQS]
        for seqs, sizes in self.waiting_between(0, _SEQ_END):
            if count <= 0 and size <= 0:
                break
            taken = max(count, 0)
            if size > 0:
                taken = max(taken, int(np.searchsorted(np.cumsum(sizes), size)) + 1)
            found.append(seqs[:taken])
            count, size = count - len(found[-1]), size - int(sizes[:taken].sum())
        return np.concatenate(found)

    def expirable(self, last: int) -> Seqs:
        """Jobs up to a seq that may expire: all that no worker has under a lease that counts."""
        found: list[Seqs] = [NO_SEQS]
        for chunk in self.between(0, last + 1):
            seqs = chunk.seqs(_can_expire(chunk).nonzero()[0])
            found.append(seqs[seqs <= last])
        return np.concatenate(found)

    def select(self, count: int) -> Seqs:
        """The jobs that are next, at most so many."""
        found: list[Seqs] = []
        for priority in sorted(self._ready):
            for number in self._ready[priority]:
                if count <= 0:
                    break
                chunk = self.chunks[number]
                found.append(chunk.seqs(chunk.claimable(priority, count)))
                count -= len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate([NO_SEQS, *found])

    def let_wait(self, chunk: Chunk, rows: Rows) -> None:
        """Jobs that wait from now on: for their time if they have one, else to be claimed."""
        self.note_ends(chunk, rows)
        moments = chunk.values("not_before", rows)
        later = moments > 0
        if later.any():
            self.dues.note(chunk.number, int(moments[later].min()))
            self.move(chunk, rows[later], DELAYED)
            rows = rows[~later]
        if len(rows):
            self.move(chunk, rows, READY)

    def note_ends(self, chunk: Chunk, rows: Rows) -> None:
        """Jobs that wait: look at their chunk when the first of them expires."""
        expires = chunk.extra.get("expires")
        if expires is not None:
            moments = expires[rows]
            moments = moments[moments > 0]
            if len(moments):
                self.ends.note(chunk.number, int(moments.min()))

    def promote(self, now_us: int) -> None:
        """Jobs whose time has come may be claimed."""
        while (number := self.dues.passed(now_us)) is not None:
            chunk = self.chunks[number]
            moments = chunk.column("not_before")
            waiting = chunk.state == DELAYED
            due = (waiting & (moments <= now_us)).nonzero()[0]
            if len(due):
                self.move(chunk, due, READY)
            later = (waiting & (moments > now_us)).nonzero()[0]
            self.dues.correct(number, int(moments[later].min()) if len(later) else None)

    def demote(self, now_us: int) -> None:
        """The clock was set back: the time of some has not come after all."""
        for chunk in self.chunks.values():
            moments = chunk.extra.get("not_before")
            if moments is not None:
                early = ((chunk.state == READY) & (moments > now_us)).nonzero()[0]
                if len(early):
                    self.move(chunk, early, DELAYED)
                    self.dues.note(chunk.number, int(moments[early].min()))

    def expired(self, now_us: int) -> Seqs:
        """Waiting jobs that have expired, those of one chunk; they stay what they are."""
        while (number := self.ends.passed(now_us)) is not None:
            chunk = self.chunks[number]
            expires = chunk.column("expires")
            can = _can_expire(chunk) & (expires > 0)
            over = (can & (expires <= now_us)).nonzero()[0]
            if len(over):
                return chunk.seqs(over)
            later = expires[can]
            self.ends.correct(number, int(later.min()) if len(later) else None)
        return NO_SEQS

    def lapse(self, seqs: Seqs, grant: int) -> None:
        """The time of a grant is over: what it still holds may be claimed."""
        for chunk, rows, _ in self.find(seqs):
            held = (chunk.state[rows] == HELD) & (chunk.values("grant", rows) == grant)
            if held.any():
                self.move(chunk, rows[held], LAPSED)
                self.note_ends(chunk, rows[held])

    def _tidy(self, chunk: Chunk) -> None:
        before = chunk.nbytes
        if not chunk.live:
            del self.chunks[chunk.number]
            self.changed.discard(chunk.number)
            self.dropped.add(chunk.number)
            self.dues.correct(chunk.number, None)
            self.ends.correct(chunk.number, None)
            self.nbytes -= before
        elif chunk.is_sparse():
            chunk.shrink()
            self.nbytes += chunk.nbytes - before

    def _gain(self, chunk: Chunk, rows: Rows) -> None:
        if not len(rows):
            return
        priorities = chunk.priority[rows]
        if (priorities == priorities[0]).all():
            self._count(chunk, int(priorities[0]), len(rows), int(rows.min()))
            return
        for priority in np.unique(priorities).tolist():
            alike = rows[priorities == priority]
            self._count(chunk, priority, len(alike), int(alike.min()))

    def _lose(self, chunk: Chunk, rows: Rows) -> None:
        priorities = chunk.priority[rows]
        if (priorities == priorities[0]).all():
            self._count(chunk, int(priorities[0]), -len(rows), 0)
            return
        for priority in np.unique(priorities).tolist():
            self._count(chunk, priority, -int(np.count_nonzero(priorities == priority)), 0)

    def _count(self, chunk: Chunk, priority: int, more: int, first: int) -> None:
        entry = chunk.ready.get(priority)
        if entry is None:
            entry = chunk.ready[priority] = Ready()
            entry.first = first
            insort(self._ready.setdefault(priority, []), chunk.number)
        elif more > 0 and first < entry.first:
            entry.first = first
        entry.count += more
        if not entry.count:
            del chunk.ready[priority]
            numbers = self._ready[priority]
            del numbers[bisect_left(numbers, chunk.number)]
            if not numbers:
                del self._ready[priority]


def _bytes_by_state(states: NDArray[np.uint8], sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.bincount(states, weights=sizes, minlength=_STATES).astype(np.int64)


def _can_expire(chunk: Chunk) -> NDArray[np.bool_]:
    state = chunk.state
    can: NDArray[np.bool_] = (state == BLOCKED) | (state == DELAYED) | (state >= READY)
    return can


assert SIZE <= 1 << 16, "offsets of a chunk are two bytes"
