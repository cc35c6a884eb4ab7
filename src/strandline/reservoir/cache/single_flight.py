"""Single flight: of many threads that need the same result, one computes it and all get it.

The first thread leads, the others wait. A Strandline error is a result as well, and all get it: an
object store that does not respond is not called again by each of them in turn. When the leader is
interrupted, another thread leads.

A thread that joins just after the end leads a new flight: ``work`` first checks whether it is still
necessary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from strandline.errors import StrandlineError
from strandline.platform.remote_wait import remote_wait

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Running calls by number. Safe from many threads; holds no lock during work or a wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[int, _Flight[Result]] = {}

    def waiting(self) -> int:
        """Number of threads that wait for another thread's result."""
        with self._lock:
            return sum(flight.joined - 1 for flight in self._flights.values())

    def join(self, number: int, work: Callable[[], Result]) -> Result:
        """Run ``work`` once for all threads that join meanwhile; return its result."""
        while True:
            own: _Flight[Result] = _Flight()
            with self._lock:
                flight = self._flights.setdefault(number, own)
                flight.joined += 1
            if flight is own:
                return self._lead(number, own, work)
            with remote_wait():
                flight.landed.wait()
            if flight.error is not None:
                raise flight.error
            if flight.result is not None:
                return flight.result

    def _lead(self, number: int, flight: _Flight[Result], work: Callable[[], Result]) -> Result:
        try:
            flight.result = work()
            return flight.result
        except StrandlineError as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                del self._flights[number]
            flight.landed.set()


class _Flight(Generic[Result]):
    """A result or an error; neither when the leader was interrupted."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.joined = 0
        self.result: Result | None = None
        self.error: StrandlineError | None = None
