"""Who is in a group. Pure; time is a number of monotonic seconds.

A member is there while it does something, and a lease's time longer. Whoever was silent for that
long is gone, as if it had left; when it asks again, it joins again, behind the others. A name that
joins twice is the same worker started anew: the earlier one is shut out.
"""

from __future__ import annotations


class Membership:
    """The members of a group. Owned by one thread."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._until: dict[str, float] = {}
        self._incarnations: dict[str, int] = {}
        """Of those who are there."""
        self._count = 0

    @property
    def names(self) -> list[str]:
        """Who is there, in the order of joining."""
        return list(self._until)

    def join(self, name: str, now: float) -> int:
        """Let a member in; its incarnation, by which it is told from one of the same name."""
        self._count += 1
        self.leave(name)
        self._enter(name, self._count, now)
        return self._count

    def is_shut_out(self, name: str, incarnation: int) -> bool:
        """Whether another has joined under its name since."""
        return self._incarnations.get(name, incarnation) != incarnation

    def touch(self, name: str, incarnation: int, now: float) -> bool:
        """A member does something; True when it had been given up, and is there again."""
        returned = name not in self._until
        self._enter(name, incarnation, now)
        return returned

    def leave(self, name: str) -> None:
        """Let a member go; nothing happens when it is not there."""
        self._until.pop(name, None)
        self._incarnations.pop(name, None)

    def over(self, now: float) -> list[str]:
        """Those who were silent for too long. They are gone."""
        gone = [name for name, until in self._until.items() if until <= now]
        for name in gone:
            self.leave(name)
        return gone

    def next_end(self) -> float | None:
        """When the next one will have been silent for too long; None when nobody is there."""
        return min(self._until.values(), default=None)

    def _enter(self, name: str, incarnation: int, now: float) -> None:
        self._until[name] = now + self._lease_s
        self._incarnations[name] = incarnation
