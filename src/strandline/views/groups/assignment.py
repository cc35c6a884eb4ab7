"""Which record comes next, and for whom: the three modes of a group. Pure; time is a number.

    shared      every record to whoever asks first; one that came back is older, so it goes first
    exclusive   one member at a time, the one that joined first; all in order, so a record that
                waits for its delay holds up those behind it
    key_shared  records of a key go to one member at a time and one after another: the next when
                the one before is done. Records without a key go to whoever asks first

The member of a key has the highest score of all (rendezvous hashing): every process finds the same
one, and when a member comes or goes only its own keys move. A key that moves while a record of it
is in flight stays where it is until that record is done or given back.

What waits here is not done and not in flight. Whatever is taken must be handed back in one of two
ways: ``settled`` or ``give_back``.
"""

from __future__ import annotations

import functools
import heapq
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import xxhash

Mode = Literal["shared", "exclusive", "key_shared"]


class Waiting(NamedTuple):
    """A record that nobody holds."""

    seq: int
    key: bytes | None


class Backlog(Protocol):
    """Records that wait for a member. Owned by one thread."""

    def __len__(self) -> int: ...

    def offer(self, seq: int, key: bytes | None) -> None:
        """A record of the topic; they come in order."""
        ...

    def take(self, member: str, count: int, now: float) -> list[Waiting]:
        """What this member gets, at most so many."""
        ...

    def settled(self, taken: Waiting) -> None:
        """A record that was taken is done."""
        ...

    def give_back(self, taken: Waiting, due: float) -> None:
        """A record that was taken waits again, until then for nobody."""
        ...

    def change_members(self, members: Sequence[str]) -> None:
        """Who is there now, in the order of their joining."""
        ...

    def next_due(self) -> float | None:
        """When the next of those that wait for their time can be had; None when none does."""
        ...


def backlog_for(mode: Mode) -> Backlog:
    """An empty backlog."""
    backlogs: dict[str, type[Shared | Exclusive | KeyShared]] = {
        "shared": Shared,
        "exclusive": Exclusive,
        "key_shared": KeyShared,
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


class Shared:
    """Records for anybody, the oldest first."""

    def __init__(self) -> None:
        self._ready: list[int] = []
        self._delayed: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._ready) + len(self._delayed)

    def offer(self, seq: int, key: bytes | None) -> None:
        del key
        heapq.heappush(self._ready, seq)

    def take(self, member: str, count: int, now: float) -> list[Waiting]:
        del member
        self._pass_time(now)
        count = min(count, len(self._ready))
        return [Waiting(heapq.heappop(self._ready), None) for _ in range(count)]

    def first(self, now: float) -> int | None:
        """The seq that would be taken next, None when there is nothing."""
        self._pass_time(now)
        return self._ready[0] if self._ready else None

    def settled(self, taken: Waiting) -> None:
        pass

    def give_back(self, taken: Waiting, due: float) -> None:
        heapq.heappush(self._delayed, (due, taken.seq))

    def change_members(self, members: Sequence[str]) -> None:
        pass

    def next_due(self) -> float | None:
        return self._delayed[0][0] if self._delayed else None

    def _pass_time(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._delayed)[1])


class Exclusive:
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

    def take(self, member: str, count: int, now: float) -> list[Waiting]:
        taken: list[Waiting] = []
        if member != self._active:
            return taken
        waiting = self._waiting
        while waiting and len(taken) < count and self._due.get(waiting[0], now) <= now:
            seq = heapq.heappop(waiting)
            self._due.pop(seq, None)
            taken.append(Waiting(seq, None))
        return taken

    def settled(self, taken: Waiting) -> None:
        pass

    def give_back(self, taken: Waiting, due: float) -> None:
        heapq.heappush(self._waiting, taken.seq)
        self._due[taken.seq] = due

    def change_members(self, members: Sequence[str]) -> None:
        self._active = members[0] if members else None

    def next_due(self) -> float | None:
        return self._due.get(self._waiting[0]) if self._waiting else None


class _Lane:
    """The records of one key."""

    __slots__ = ("due", "seqs", "taken")

    def __init__(self) -> None:
        self.seqs: deque[int] = deque()
        self.taken = False
        self.due: float | None = None
        """When the first may be taken, if it must wait."""


class KeyShared:
    """Records in lanes by key, each lane for one member and one record at a time."""

    def __init__(self) -> None:
        self._keyless = Shared()
        self._lanes: dict[bytes, _Lane] = {}
        self._members: tuple[str, ...] = ()
        self._ready: dict[str, list[tuple[int, bytes]]] = {}
        """By member, the first seqs of lanes that it may take."""
        self._delayed: list[tuple[float, bytes]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._keyless)

    def offer(self, seq: int, key: bytes | None) -> None:
        if key is None:
            self._keyless.offer(seq, key)
            return
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        lane.seqs.append(seq)
        self._count += 1
        if len(lane.seqs) == 1 and not lane.taken:
            self._make_ready(key, lane)

    def take(self, member: str, count: int, now: float) -> list[Waiting]:
        self._pass_time(now)
        taken: list[Waiting] = []
        ready = self._ready.get(member, [])
        while len(taken) < count:
            keyless = self._keyless.first(now)
            if ready and (keyless is None or ready[0][0] < keyless):
                taken.append(self._take_lane(*heapq.heappop(ready)))
            elif keyless is not None:
                taken += self._keyless.take(member, 1, now)
            else:
                break
        return taken

    def settled(self, taken: Waiting) -> None:
        if taken.key is None:
            return
        lane = self._lanes[taken.key]
        lane.taken = False
        if lane.seqs:
            self._make_ready(taken.key, lane)
        else:
            del self._lanes[taken.key]

    def give_back(self, taken: Waiting, due: float) -> None:
        if taken.key is None:
            self._keyless.give_back(taken, due)
            return
        lane = self._lanes[taken.key]
        lane.taken = False
        lane.seqs.appendleft(taken.seq)
        lane.due = due
        self._count += 1
        heapq.heappush(self._delayed, (due, taken.key))

    def change_members(self, members: Sequence[str]) -> None:
        self._members = tuple(members)
        self._ready = {member: [] for member in members}
        for key, lane in self._lanes.items():
            if lane.seqs and not lane.taken and lane.due is None:
                self._make_ready(key, lane)

    def next_due(self) -> float | None:
        dues = [self._keyless.next_due(), self._delayed[0][0] if self._delayed else None]
        return min((due for due in dues if due is not None), default=None)

    def _take_lane(self, seq: int, key: bytes) -> Waiting:
        lane = self._lanes[key]
        lane.seqs.popleft()
        lane.taken = True
        self._count -= 1
        return Waiting(seq, key)

    def _pass_time(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            _, key = heapq.heappop(self._delayed)
            lane = self._lanes[key]
            lane.due = None
            self._make_ready(key, lane)

    def _make_ready(self, key: bytes, lane: _Lane) -> None:
        if self._members:
            owner = owner_of(key, self._members)
            heapq.heappush(self._ready[owner], (lane.seqs[0], key))
