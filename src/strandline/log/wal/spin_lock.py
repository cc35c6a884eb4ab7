"""A lock for steps of microseconds: tried, never queued for, and not lost to an interrupt.

A blocked lock costs a hand-over of the interpreter per append (see docs/benchmarks.md), so whoever
finds it taken yields and tries again.

Ctrl-C and other signal handlers may raise in the main thread after any call it makes, also right
after the one that took a lock and before the ``try`` that would release it; a plain lock is then
held by nobody for good. So taking is one call into C that leaves the caller's own claim behind, and
it stands inside the ``try``: whoever is interrupted can tell whether the claim had been made.

    claim: list[object] = [None]
    try:
        if baton.claims.setdefault(0, claim) is not claim:
            baton.wait(claim)
        ...
        baton.release()
    except BaseException:
        baton.drop(claim)
        raise

Where nanoseconds do not count: ``acquire()``, then ``try`` and ``finally: release()``. ``release``
is the dictionary's own method, because a function of ours could be interrupted on its first line.

A thread that appends without pause holds the baton nearly all the time, and the interpreter changes
threads only every five milliseconds, most likely while it is held. So a thread that only tries may
fail ten times in a row, for 50 ms. A sync must not wait as long: ``acquire_first`` announces itself
in ``urgent``. ``acquire`` then yields before it takes the baton, and the writer sends appends of
the fast lane there (``Writer._make_room``). Threads that append do not announce themselves: each
append would cost a hand-over of the interpreter.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType

from strandline.errors import Invalid
from strandline.platform.clock import yield_to_other_threads

_SPINS_MAX = 1000
_POLITE_SPINS_MAX = 50
"""How often others are let first: not for ever, they may be waiting below a signal handler."""
_SPIN_SLEEP_S = 0.0002


class Baton:
    """Held by one step of one thread at a time."""

    __slots__ = ("claims", "on_urgent", "release", "urgent")

    def __init__(self, on_urgent: Callable[[], None] = lambda: None) -> None:
        self.claims: dict[int, list[object]] = {}
        self.release: Callable[[], None] = self.claims.clear
        self.urgent: list[list[object]] = []
        """Claims of those that are to have it next."""
        self.on_urgent = on_urgent
        """Called when ``urgent`` has changed."""

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take it. Never held while waiting for the disk to sync."""
        claim: list[object] = [threading.get_ident()]
        try:
            if self.urgent or self.claims.setdefault(0, claim) is not claim:
                self.wait(claim)
        except BaseException:
            self.drop(claim)
            raise

    def acquire_first(self, tries: int = 1) -> None:
        """Take it before all that only ``acquire`` it, when so many tries have failed."""
        claim: list[object] = [threading.get_ident()]
        try:
            for attempt in range(tries):
                if attempt:
                    yield_to_other_threads()
                if self.claims.setdefault(0, claim) is claim:
                    return
            self.urgent.append(claim)
            self.on_urgent()
            self._spin(claim)
        except BaseException:
            self.drop(claim)
            raise
        finally:
            if claim in self.urgent:
                self.urgent.remove(claim)
                self.on_urgent()

    def wait(self, claim: list[object]) -> None:
        """Take it after a first try failed: yield rather than queue."""
        for _ in range(_POLITE_SPINS_MAX):
            if not self.urgent:
                break
            yield_to_other_threads()
        self._spin(claim)

    def _spin(self, claim: list[object]) -> None:
        claims = self.claims
        spins = 0
        while claims.setdefault(0, claim) is not claim:
            spins += 1
            if spins == _SPINS_MAX:
                self.refuse_reentry()
            if self.urgent:
                self.on_urgent()
            yield_to_other_threads(0 if spins < _SPINS_MAX else _SPIN_SLEEP_S)

    def refuse_reentry(self) -> None:
        """Raise when a step of this very thread holds it: that step waits for us to return."""
        holder = self.claims.get(0)
        if holder is not None and _is_held_below(holder):
            # Not a RuntimeError: threading.Condition swallows those, and one may lie in between.
            raise Invalid(
                "a signal handler used the store in the middle of one of its own steps: let the "
                "handler raise SystemExit or set a flag instead"
            )

    def drop(self, claim: list[object]) -> None:
        """Release it if this claim holds it."""
        if self.claims.get(0) is claim:
            self.release()


def _is_held_below(holder: list[object]) -> bool:
    """Whether the holder is a function further down the stack of this thread."""
    if holder[0] == threading.get_ident():
        return True
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_locals.get("claim") is holder:
            return True
        frame = frame.f_back
    return False
