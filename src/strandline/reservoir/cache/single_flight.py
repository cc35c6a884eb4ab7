"""Single flight: of many who need the same thing at once, one fetches it and all get it.

The first who asks leads, the others wait. An error of ours is an answer as well, and all get it: a
store that does not answer is not asked again by each of them in turn. When the leader is broken off
(an interrupt), somebody else leads.

Who joins a moment after the flight has landed leads another one: ``work`` looks first whether it
has become needless.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from strandline.errors import StrandlineError
from strandline.platform.remote_wait import remote_wait

Answer = TypeVar("Answer")


class Flights(Generic[Answer]):
    """What is being fetched. Safe from many threads; holds no lock while anybody works or waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[int, _Flight[Answer]] = {}

    def waiting(self) -> int:
        """How many wait for what another fetches."""
        with self._lock:
            return sum(flight.joined - 1 for flight in self._flights.values())

    def join(self, number: int, work: Callable[[], Answer]) -> Answer:
        """What ``work`` gives, for all who join while it is done once."""
        while True:
            mine: _Flight[Answer] = _Flight()
            with self._lock:
                flight = self._flights.setdefault(number, mine)
                flight.joined += 1
            if flight is mine:
                return self._lead(number, mine, work)
            with remote_wait():
                flight.landed.wait()
            if flight.error is not None:
                raise flight.error
            if flight.answer is not None:
                return flight.answer

    def _lead(self, number: int, flight: _Flight[Answer], work: Callable[[], Answer]) -> Answer:
        try:
            flight.answer = work()
            return flight.answer
        except StrandlineError as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                del self._flights[number]
            flight.landed.set()


class _Flight(Generic[Answer]):
    """An answer or an error, neither when the leader was broken off."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.joined = 0
        self.answer: Answer | None = None
        self.error: StrandlineError | None = None
