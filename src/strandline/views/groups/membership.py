"""The members of a group. Pure; time is a number of monotonic seconds.

A member is present for the time of a lease after its last call. A member that made no call for that
long has left; its next call adds it again, after the others. A name that joins twice is a restarted
worker: the earlier member is fenced.
"""

from __future__ import annotations


class Membership:
    """The members of a group. Owned by one thread."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._until: dict[str, float] = {}
        self._incarnations: dict[str, int] = {}
        """By name, of the present members."""
        self._count = 0

    @property
    def names(self) -> list[str]:
        """The present members, in the order in which they joined."""
        return list(self._until)

    def join(self, name: str, now: float) -> int:
        """Add a member; return its incarnation, which distinguishes members of the same name."""
        self._count += 1
        self.leave(name)
        self._enter(name, self._count, now)
        return self._count

    def is_fenced(self, name: str, incarnation: int) -> bool:
        """Whether another member has joined with its name since."""
        return self._incarnations.get(name, incarnation) != incarnation

    def touch(self, name: str, incarnation: int, now: float) -> bool:
        """Mark a member as present; return whether it had left and was added again."""
        is_added = name not in self._until
        self._enter(name, incarnation, now)
        return is_added

    def leave(self, name: str) -> None:
        """Remove a member, if it is present."""
        self._until.pop(name, None)
        self._incarnations.pop(name, None)

    def expire(self, now: float) -> list[str]:
        """Remove the members that made no call for the time of a lease; return them."""
        expired = [name for name, until in self._until.items() if until <= now]
        for name in expired:
            self.leave(name)
        return expired

    def next_end(self) -> float | None:
        """When the next member will be removed without a call; None without members."""
        return min(self._until.values(), default=None)

    def _enter(self, name: str, incarnation: int, now: float) -> None:
        self._until[name] = now + self._lease_s
        self._incarnations[name] = incarnation
