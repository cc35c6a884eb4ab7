"""A spin lock for steps of microseconds, which an interrupt cannot leave held.

A blocking lock costs a switch of the interpreter per append (see docs/benchmarks.md), so a thread
that finds this one held yields and tries again.

Ctrl-C and other signal handlers may raise in the main thread after any call it makes, also right
after the call that acquired a lock and before the ``try`` that would release it; a plain lock then
stays held for ever. So acquiring is one call into C that stores the caller's own claim, and it is
inside the ``try``: the interrupted code can check whether its claim was stored.

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
is the dictionary's own method, because a Python function could be interrupted on its first line.

A thread that appends without pause holds the lock nearly all the time, and the interpreter changes
threads only every five milliseconds, most likely while it is held. So a thread that only tries may
fail ten times in a row, for 50 ms. A sync must not wait as long: ``acquire_first`` adds its claim
to ``urgent``. ``acquire`` then yields before it takes the lock, and the writer makes fast appends
do the same (``Writer._make_room``). Threads that append do not add to ``urgent``: each append would
cost a switch of the interpreter.
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
"""How often ``acquire`` yields to urgent claims: not for ever, they may belong to a thread that is
below a signal handler."""
_SPIN_SLEEP_S = 0.0002


class SpinLock:
    """Held by one step of one thread at a time."""

    __slots__ = ("claims", "on_urgent", "release", "urgent")

    def __init__(self, on_urgent: Callable[[], None] = lambda: None) -> None:
        self.claims: dict[int, list[object]] = {}
        self.release: Callable[[], None] = self.claims.clear
        self.urgent: list[list[object]] = []
        """Claims that are to get the lock next."""
        self.on_urgent = on_urgent
        """Called when ``urgent`` has changed."""

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock. It is never held while waiting for the disk to sync."""
        claim: list[object] = [threading.get_ident()]
        try:
            if self.urgent or self.claims.setdefault(0, claim) is not claim:
                self.wait(claim)
        except BaseException:
            self.drop(claim)
            raise

    def acquire_first(self, tries: int = 1) -> None:
        """Acquire the lock before all callers of ``acquire``, after so many failed tries."""
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
        """Acquire the lock after a first try failed: yield and try again."""
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
        """Raise when a step of the same thread holds the lock: it cannot continue before this call
        returns."""
        holder = self.claims.get(0)
        if holder is not None and _is_held_below(holder):
            # Not a RuntimeError: threading.Condition swallows those, and one may be in between.
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
