"""The job table: all jobs of a queue in chunks, which may be claimed, which wait for a time.

Jobs are claimed by priority, then by seq. A job that is ready again (its lease expired, it was
nacked, its delay ended) is older than those that were never claimed, so it comes first.

Nothing here depends on the order in which jobs changed: the columns are the state, and the rest
(ready jobs of a priority in a chunk, the next time at which a chunk is due) is derived from them.

A chunk is removed when its last job is gone, unless jobs may still be added to it.
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
    JobChunk,
    ReadyJobs,
    Rows,
)
from strandline.views.queue.state.timer_heap import TimerHeap

_STATES = 8
_COUNTED = (BLOCKED, DELAYED, READY)
_SEQ_END = 1 << 62
_SIZE_MAX = (1 << 32) - 1
_FIRST = np.zeros(1, dtype=np.int64)


class ChunkRows(NamedTuple):
    """Those of some seqs that are live and in one chunk."""

    chunk: JobChunk
    rows: Rows
    indexes: NDArray[np.int64]
    """Their indexes in the given seqs."""


class JobTable:
    """Jobs by seq. Owned by one thread."""

    def __init__(self) -> None:
        self.chunks: dict[int, JobChunk] = {}
        self.tally: NDArray[np.int64] = np.zeros(_STATES, dtype=np.int64)
        """Jobs of each state."""
        self.sizes: NDArray[np.int64] = np.zeros(_STATES, dtype=np.int64)
        """Bytes of the measured jobs of each state."""
        self.nbytes = 0
        self.changed: set[int] = set()
        """Chunks that have changed since the last save."""
        self.dropped: set[int] = set()
        """Chunks that were removed since the last save."""
        self.delay_timers = TimerHeap()
        """When delayed jobs are due."""
        self.expiry_timers = TimerHeap()
        """When waiting jobs expire."""
        self.shrinkable: set[int] = set()
        """Chunks that have lost jobs."""
        self._ready: dict[int, list[int]] = {}
        """By priority, the chunks with jobs that may be claimed, in order."""
        self._newest = -1

    def chunk(self, number: int) -> JobChunk:
        """The chunk for new jobs, created if it does not exist; it completes the one before."""
        chunk = self.chunks.get(number)
        if chunk is None:
            chunk = self.chunks[number] = JobChunk(number)
            self.dropped.discard(number)
            self.nbytes += chunk.nbytes
            self.shrinkable.add(self._newest)
            self._newest = number
        assert chunk.offsets is None, "jobs come in order"
        return chunk

    def adopt(self, chunk: JobChunk) -> None:
        """Add a chunk as it was saved, and derive the counters from its states."""
        self.chunks[chunk.number] = chunk
        self._newest = max(self._newest, chunk.number)
        self.nbytes += chunk.nbytes
        self.tally += np.bincount(chunk.state, minlength=_STATES)
        self.tally[GONE] = 0
        if "size" in chunk.extra:
            self.sizes += _bytes_by_state(chunk.state, chunk.extra["size"])
            self.sizes[GONE] = 0
        chunk.live = int(np.count_nonzero(chunk.state))
        self._add_ready(chunk, (chunk.state >= READY).nonzero()[0])
        delayed = (chunk.state == DELAYED).nonzero()[0]
        if len(delayed):
            self.delay_timers.schedule(chunk.number, int(chunk.column("not_before")[delayed].min()))
        self.note_ends(chunk, _can_expire(chunk).nonzero()[0])

    def find(self, seqs: Seqs, state: int = BLOCKED) -> Iterator[ChunkRows]:
        """The jobs of these seqs in this state or a later one, by chunk."""
        if len(seqs) == 1:
            yield from self._find_one(int(seqs[0]), state)
            return
        numbers = seqs >> BITS
        indexes = np.arange(len(seqs))
        if len(seqs) and (numbers[0] == numbers).all():
            runs = [indexes]
        else:
            order = np.argsort(numbers, kind="stable")
            cuts = np.flatnonzero(np.diff(numbers[order])) + 1
            runs = np.split(order, cuts) if len(seqs) else []
        for run in runs:
            chunk = self.chunks.get(int(numbers[run[0]]))
            if chunk is None:
                continue
            rows, exists = chunk.rows(seqs if len(run) == len(seqs) else seqs[run])
            matches = chunk.state[rows] >= state
            if exists is not None:
                matches &= exists
            if matches.all():
                yield ChunkRows(chunk, rows, run)
            elif matches.any():
                yield ChunkRows(chunk, rows[matches], run[matches])

    def _find_one(self, seq: int, state: int) -> Iterator[ChunkRows]:
        """The same for a single seq, a frequent case."""
        location = self.locate(seq)
        if location is not None and location[0].state[location[1]] >= state:
            yield ChunkRows(location[0], np.array((location[1],)), _FIRST)

    def locate(self, seq: int) -> tuple[JobChunk, int] | None:
        """Chunk and row of one job, None if it has none."""
        chunk = self.chunks.get(seq >> BITS)
        row = -1 if chunk is None else chunk.row(seq)
        return None if chunk is None or row < 0 else (chunk, row)

    def between(self, first: int, following: int) -> list[JobChunk]:
        """The chunks that overlap a range of seqs, in order."""
        numbers = range(first >> BITS, ((following - 1) >> BITS) + 1)
        return [self.chunks[number] for number in sorted(self.chunks) if number in numbers]

    def first_live(self) -> int | None:
        """The oldest live job, None if there is none."""
        for number in sorted(self.chunks):
            chunk = self.chunks[number]
            rows = (chunk.state >= BLOCKED).nonzero()[0][:1]
            if len(rows):
                return int(chunk.seqs(rows)[0])
        return None

    def add_plain(self, chunk: JobChunk, first: int, following: int, priority: int) -> None:
        """Add jobs with default options in these rows."""
        chunk.state[first:following] = READY
        chunk.priority[first:following] = priority
        chunk.live += following - first
        self.tally[READY] += following - first
        self.changed.add(chunk.number)
        self._adjust_ready(chunk, priority, following - first, first)

    def move(self, chunk: JobChunk, rows: Rows, state: int) -> None:
        """Change the state of jobs of a chunk, each of them once."""
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
            self.shrinkable.add(chunk.number)
        if "size" in chunk.extra:
            sizes = chunk.extra["size"][rows]
            self.sizes -= _bytes_by_state(old, sizes)
            self.sizes[state] += int(sizes.sum())
            self.sizes[GONE] = 0
        was_ready = old >= READY
        if state >= READY:
            self._add_ready(chunk, rows[~was_ready] if was_ready.any() else rows)
        elif was_ready.any():
            self._remove_ready(chunk, rows if was_ready.all() else rows[was_ready])

    def _move_one(self, chunk: JobChunk, row: int, state: int) -> None:
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
            self.shrinkable.add(chunk.number)
        chunk.live += bool(state) - bool(old)
        if (old >= READY) != (state >= READY):
            more = 1 if state >= READY else -1
            self._adjust_ready(chunk, int(chunk.priority[row]), more, row)

    def shrink_chunks(self) -> None:
        """Free memory that is not needed any more. Rows from before may be invalid after this."""
        for number in self.shrinkable:
            chunk = self.chunks.get(number)
            if chunk is not None and number != self._newest:
                self._drop_or_shrink(chunk)
        self.shrinkable.clear()

    def trim(self, number: int) -> None:
        """Remove columns of a chunk that have only zeros."""
        chunk = self.chunks[number]
        before = chunk.nbytes
        chunk.drop_zeros()
        self.nbytes += chunk.nbytes - before

    def set_column(self, chunk: JobChunk, name: str, rows: Rows, values: object) -> None:
        """Set a column of jobs that not every chunk has."""
        if name not in chunk.extra:
            self.nbytes += chunk.column(name).nbytes
        chunk.extra[name][rows] = values
        self.changed.add(chunk.number)

    def measure(self, chunk: JobChunk, rows: Rows, sizes: NDArray[np.int64]) -> None:
        """Set the sizes of jobs that were not measured before."""
        self.set_column(chunk, "size", rows, np.minimum(sizes, _SIZE_MAX))
        self.sizes += _bytes_by_state(chunk.state[rows], chunk.extra["size"][rows])

    @property
    def waiting(self) -> tuple[int, int]:
        """The jobs that caps count and their bytes: neither claimed nor being buried."""
        states = list(_COUNTED)
        return int(self.tally[states].sum()), int(self.sizes[states].sum())

    def waiting_between(self, first: int, following: int) -> Iterator[tuple[Seqs, Seqs]]:
        """Those jobs in a range of seqs, oldest first, by chunk: seqs and sizes."""
        for chunk in self.between(first, following):
            rows = np.isin(chunk.state, _COUNTED).nonzero()[0]
            seqs = chunk.seqs(rows)
            inside = (seqs >= first) & (seqs < following)
            if inside.any():
                yield seqs[inside], chunk.values("size", rows[inside]).astype(np.int64)

    def oldest(self, count: int, size: int) -> Seqs:
        """The oldest of those jobs: at least ``count``, with at least ``size`` bytes."""
        found: list[Seqs] = [NO_SEQS]
        for seqs, sizes in self.waiting_between(0, _SEQ_END):
            if count <= 0 and size <= 0:
                break
            end = max(count, 0)
            if size > 0:
                end = max(end, int(np.searchsorted(np.cumsum(sizes), size)) + 1)
            found.append(seqs[:end])
            count, size = count - len(found[-1]), size - int(sizes[:end].sum())
        return np.concatenate(found)

    def expirable(self, last: int) -> Seqs:
        """Jobs up to a seq that may expire: all without a valid lease that are not being buried."""
        found: list[Seqs] = [NO_SEQS]
        for chunk in self.between(0, last + 1):
            seqs = chunk.seqs(_can_expire(chunk).nonzero()[0])
            found.append(seqs[seqs <= last])
        return np.concatenate(found)

    def select(self, count: int) -> Seqs:
        """The jobs that are claimed next, at most ``count``."""
        found: list[Seqs] = []
        for priority in sorted(self._ready):
            for number in self._ready[priority]:
                if count <= 0:
                    break
                chunk = self.chunks[number]
                found.append(chunk.seqs(chunk.claimable(priority, count)))
                count -= len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate([NO_SEQS, *found])

    def make_wait(self, chunk: JobChunk, rows: Rows) -> None:
        """Make jobs wait: for their time if they have one, else to be claimed."""
        self.note_ends(chunk, rows)
        times = chunk.values("not_before", rows)
        later = times > 0
        if later.any():
            self.delay_timers.schedule(chunk.number, int(times[later].min()))
            self.move(chunk, rows[later], DELAYED)
            rows = rows[~later]
        if len(rows):
            self.move(chunk, rows, READY)

    def note_ends(self, chunk: JobChunk, rows: Rows) -> None:
        """Add the expiries of waiting jobs to the timer of their chunk."""
        expires = chunk.extra.get("expires")
        if expires is not None:
            times = expires[rows]
            times = times[times > 0]
            if len(times):
                self.expiry_timers.schedule(chunk.number, int(times.min()))

    def promote(self, now_us: int) -> None:
        """Make delayed jobs ready whose time has come."""
        while (number := self.delay_timers.first_due(now_us)) is not None:
            chunk = self.chunks[number]
            times = chunk.column("not_before")
            waiting = chunk.state == DELAYED
            due = (waiting & (times <= now_us)).nonzero()[0]
            if len(due):
                self.move(chunk, due, READY)
            later = (waiting & (times > now_us)).nonzero()[0]
            self.delay_timers.reschedule(number, int(times[later].min()) if len(later) else None)

    def demote(self, now_us: int) -> None:
        """Delay jobs again whose time has not come, after the clock was set back."""
        for chunk in self.chunks.values():
            times = chunk.extra.get("not_before")
            if times is not None:
                early = ((chunk.state == READY) & (times > now_us)).nonzero()[0]
                if len(early):
                    self.move(chunk, early, DELAYED)
                    self.delay_timers.schedule(chunk.number, int(times[early].min()))

    def expired(self, now_us: int) -> Seqs:
        """Waiting jobs of one chunk that have expired. Their state does not change."""
        while (number := self.expiry_timers.first_due(now_us)) is not None:
            chunk = self.chunks[number]
            expires = chunk.column("expires")
            can_expire = _can_expire(chunk) & (expires > 0)
            rows = (can_expire & (expires <= now_us)).nonzero()[0]
            if len(rows):
                return chunk.seqs(rows)
            later = expires[can_expire]
            self.expiry_timers.reschedule(number, int(later.min()) if len(later) else None)
        return NO_SEQS

    def lapse(self, seqs: Seqs, grant: int) -> None:
        """Make the jobs that an expired grant still holds claimable."""
        for chunk, rows, _ in self.find(seqs):
            held = (chunk.state[rows] == HELD) & (chunk.values("grant", rows) == grant)
            if held.any():
                self.move(chunk, rows[held], LAPSED)
                self.note_ends(chunk, rows[held])

    def _drop_or_shrink(self, chunk: JobChunk) -> None:
        before = chunk.nbytes
        if not chunk.live:
            del self.chunks[chunk.number]
            self.changed.discard(chunk.number)
            self.dropped.add(chunk.number)
            self.delay_timers.reschedule(chunk.number, None)
            self.expiry_timers.reschedule(chunk.number, None)
            self.nbytes -= before
        elif chunk.is_sparse():
            chunk.shrink()
            self.nbytes += chunk.nbytes - before

    def _add_ready(self, chunk: JobChunk, rows: Rows) -> None:
        if not len(rows):
            return
        priorities = chunk.priority[rows]
        if (priorities == priorities[0]).all():
            self._adjust_ready(chunk, int(priorities[0]), len(rows), int(rows.min()))
            return
        for priority in np.unique(priorities).tolist():
            alike = rows[priorities == priority]
            self._adjust_ready(chunk, priority, len(alike), int(alike.min()))

    def _remove_ready(self, chunk: JobChunk, rows: Rows) -> None:
        priorities = chunk.priority[rows]
        if (priorities == priorities[0]).all():
            self._adjust_ready(chunk, int(priorities[0]), -len(rows), 0)
            return
        for priority in np.unique(priorities).tolist():
            self._adjust_ready(chunk, priority, -int(np.count_nonzero(priorities == priority)), 0)

    def _adjust_ready(self, chunk: JobChunk, priority: int, more: int, first: int) -> None:
        entry = chunk.ready.get(priority)
        if entry is None:
            entry = chunk.ready[priority] = ReadyJobs()
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


def _can_expire(chunk: JobChunk) -> NDArray[np.bool_]:
    state = chunk.state
    mask: NDArray[np.bool_] = (state == BLOCKED) | (state == DELAYED) | (state >= READY)
    return mask


assert SIZE <= 1 << 16, "offsets of a chunk are two bytes"
