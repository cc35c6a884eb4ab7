"""Assigns records to members: the three modes of a group. Pure; time is a number.

    shared      a record goes to the first member that reads; a returned record is older than new
                ones, so it goes first
    exclusive   all records go to one member, the one that joined first, in order; a record that
                waits for its delay blocks those after it
    key_shared  records of a key go to one member and one after the other: the next one when the one
                before is done. Records without a key go to the first member that reads

The member of a key is the one with the highest score (rendezvous hashing): every process computes
the same one, and when a member joins or leaves only its own keys move. A key with a record in
flight does not move until that record is done or returned.

A waiting record is not done and not in flight. After ``take``, the caller must call either
``settled`` or ``give_back`` for each record.
"""

from __future__ import annotations

import functools
import heapq
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import xxhash

Mode = Literal["shared", "exclusive", "key_shared"]


class WaitingRecord(NamedTuple):
    """A record that no member holds."""

    seq: int
    key: bytes | None


class Backlog(Protocol):
    """Records that wait for a member. Owned by one thread."""

    def __len__(self) -> int: ...

    def offer(self, seq: int, key: bytes | None) -> None:
        """Add a record of the topic. Records come in order."""
        ...

    def take(self, member: str, count: int, now: float) -> list[WaitingRecord]:
        """Remove and return the next records for this member, at most ``count``."""
        ...

    def finish(self, record: WaitingRecord) -> None:
        """Finish a record that was taken."""
        ...

    def give_back(self, record: WaitingRecord, due: float) -> None:
        """Let a record that was taken wait again. It is not taken again before ``due``."""
        ...

    def change_members(self, members: Sequence[str]) -> None:
        """Replace the members, in the order in which they joined."""
        ...

    def next_due(self) -> float | None:
        """When the next delayed record is due; None if there is none."""
        ...


def backlog_for(mode: Mode) -> Backlog:
    """An empty backlog."""
    backlogs: dict[str, type[SharedBacklog | ExclusiveBacklog | KeySharedBacklog]] = {
        "shared": SharedBacklog,
        "exclusive": ExclusiveBacklog,
        "key_shared": KeySharedBacklog,
    }
    return backlogs[mode]()


def owner_of(key: bytes, members: Sequence[str]) -> str:
    """The member that gets the records of a key."""
    return max(members, key=lambda member: (_score(key, member), member))


def _score(key: bytes, member: str) -> int:
    return xxhash.xxh3_64_intdigest(key, _seed(member))


@functools.lru_cache(maxsize=1024)
def _seed(member: str) -> int:
    return xxhash.xxh3_64_intdigest(member.encode())


class SharedBacklog:
    """Records for any member, the oldest first."""

    def __init__(self) -> None:
        self._ready: list[int] = []
        self._delayed: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._ready) + len(self._delayed)

    def offer(self, seq: int, key: bytes | None) -> None:
        del key
        heapq.heappush(self._ready, seq)

    def take(self, member: str, count: int, now: float) -> list[WaitingRecord]:
        del member
        self._pass_time(now)
        count = min(count, len(self._ready))
        return [WaitingRecord(heapq.heappop(self._ready), None) for _ in range(count)]

    def first(self, now: float) -> int | None:
        """The seq that would be taken next, None if there is none."""
        self._pass_time(now)
        return self._ready[0] if self._ready else None

    def finish(self, record: WaitingRecord) -> None:
        pass

    def give_back(self, record: WaitingRecord, due: float) -> None:
        heapq.heappush(self._delayed, (due, record.seq))

    def change_members(self, members: Sequence[str]) -> None:
        pass

    def next_due(self) -> float | None:
        return self._delayed[0][0] if self._delayed else None

    def _pass_time(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._delayed)[1])


class ExclusiveBacklog:
    """Records for one member, in order."""

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self._due: dict[int, float] = {}
        self._active: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, seq: int, key: bytes | None) -> None:
        del key
        heapq.heappush(self._waiting, seq)

    def take(self, member: str, count: int, now: float) -> list[WaitingRecord]:
        records: list[WaitingRecord] = []
        if member != self._active:
            return records
        waiting = self._waiting
        while waiting and len(records) < count and self._due.get(waiting[0], now) <= now:
            seq = heapq.heappop(waiting)
            self._due.pop(seq, None)
            records.append(WaitingRecord(seq, None))
        return records

    def finish(self, record: WaitingRecord) -> None:
        pass

    def give_back(self, record: WaitingRecord, due: float) -> None:
        heapq.heappush(self._waiting, record.seq)
        self._due[record.seq] = due

    def change_members(self, members: Sequence[str]) -> None:
        self._active = members[0] if members else None

    def next_due(self) -> float | None:
        return self._due.get(self._waiting[0]) if self._waiting else None


class _KeyQueue:
    """The records of one key."""

    __slots__ = ("due", "in_flight", "seqs")

    def __init__(self) -> None:
        self.seqs: deque[int] = deque()
        self.in_flight = False
        self.due: float | None = None
        """When the first record may be taken, None for now."""


class KeySharedBacklog:
    """Records in queues by key, each queue for one member and one record at a time."""

    def __init__(self) -> None:
        self._keyless = SharedBacklog()
        self._queues: dict[bytes, _KeyQueue] = {}
        self._members: tuple[str, ...] = ()
        self._ready: dict[str, list[tuple[int, bytes]]] = {}
        """By member, the first seqs of the queues that it may take from."""
        self._delayed: list[tuple[float, bytes]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._keyless)

    def offer(self, seq: int, key: bytes | None) -> None:
        if key is None:
            self._keyless.offer(seq, key)
            return
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _KeyQueue()
        queue.seqs.append(seq)
        self._count += 1
        if len(queue.seqs) == 1 and not queue.in_flight:
            self._make_ready(key, queue)

    def take(self, member: str, count: int, now: float) -> list[WaitingRecord]:
        self._pass_time(now)
        records: list[WaitingRecord] = []
        ready = self._ready.get(member, [])
        while len(records) < count:
            keyless = self._keyless.first(now)
            if ready and (keyless is None or ready[0][0] < keyless):
                records.append(self._take_first(*heapq.heappop(ready)))
            elif keyless is not None:
                records += self._keyless.take(member, 1, now)
            else:
                break
        return records

    def finish(self, record: WaitingRecord) -> None:
        if record.key is None:
            return
        queue = self._queues[record.key]
        queue.in_flight = False
        if queue.seqs:
            self._make_ready(record.key, queue)
        else:
            del self._queues[record.key]

    def give_back(self, record: WaitingRecord, due: float) -> None:
        if record.key is None:
            self._keyless.give_back(record, due)
            return
        queue = self._queues[record.key]
        queue.in_flight = False
        queue.seqs.appendleft(record.seq)
        queue.due = due
        self._count += 1
        heapq.heappush(self._delayed, (due, record.key))

    def change_members(self, members: Sequence[str]) -> None:
        self._members = tuple(members)
        self._ready = {member: [] for member in members}
        for key, queue in self._queues.items():
            if queue.seqs and not queue.in_flight and queue.due is None:
                self._make_ready(key, queue)

    def next_due(self) -> float | None:
        dues = [self._keyless.next_due(), self._delayed[0][0] if self._delayed else None]
        return min((due for due in dues if due is not None), default=None)

    def _take_first(self, seq: int, key: bytes) -> WaitingRecord:
        queue = self._queues[key]
        queue.seqs.popleft()
        queue.in_flight = True
        self._count -= 1
        return WaitingRecord(seq, key)

    def _pass_time(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            _, key = heapq.heappop(self._delayed)
            queue = self._queues[key]
            queue.due = None
            self._make_ready(key, queue)

    def _make_ready(self, key: bytes, queue: _KeyQueue) -> None:
        if self._members:
            owner = owner_of(key, self._members)
            heapq.heappush(self._ready[owner], (queue.seqs[0], key))
