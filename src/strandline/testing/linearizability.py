"""Checks whether a recorded history of concurrent operations is linearizable.

A history is linearizable when every operation can be assigned one instant between its invocation
and its return at which it takes effect, such that the responses are those of a sequential model
that executes the operations one by one, in that order.

The search is that of Wing and Gong, with the cache of Lowe: place any operation that was invoked
before the first remaining return, then continue with the rest; when nothing fits, undo the last
placement. A combination of placed operations and model state that was reached before is not
searched again. A history of n operations of which at most k overlap costs about n * 2^k steps at
worst and about n when it is linearizable, so:

- histories are divided by key first: an object of independent parts is linearizable when every part
  is, and two searches of 100 operations are far shorter than one of 200;
- an operation whose end is unknown (a call that failed half-way) may take effect at any time after
  its invocation, or never. Each of them overlaps with all later ones: keep them few.

A model returns the states that may follow when an operation takes effect with its response: none if
the response is impossible, several if the operation leaves something open (as an unknown response
mostly does). States are compared and hashed: use tuples, frozensets and numbers.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

STEPS_MAX = 1_000_000
"""Most placements that the search tries: some ten seconds."""

Response = TypeVar("Response")


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its response and times. ``returned`` is None when its end is unknown."""

    invoked: int
    returned: int | None
    call: tuple[object, ...]
    """The verb and its arguments."""
    response: object = None
    key: Hashable = None
    """The part of the object that it concerns; operations of different keys are independent."""
    thread: str = ""

    def __str__(self) -> str:
        verb, *arguments = self.call
        end = f"-> {self.response!r}" if self.returned is not None else "-> unknown"
        listed = ", ".join(map(repr, arguments))
        return f"[{self.invoked}, {self.returned}] {self.thread} {verb}({listed}) {end}"


State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """A sequential object: it executes one operation at a time."""

    def first(self, key: Hashable) -> State:
        """The initial state of a part."""
        ...

    def step(self, state: State, operation: Operation) -> Iterable[State]:
        """The states that may follow the operation with its response; none if it is impossible."""
        ...


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a history without a valid order."""

    key: Hashable
    explained: tuple[Operation, ...]
    """The longest valid order that was found."""
    stuck: tuple[Operation, ...]
    """The operations that could not come next."""
    state: object
    """The state of the model at that point."""

    def __str__(self) -> str:
        lines = [f"key {self.key!r}: no order explains these responses. After"]
        lines += [f"    {operation}" for operation in self.explained[-8:]]
        lines += [f"the state is {self.state!r}, and none of these can come next:"]
        lines += [f"    {operation}" for operation in self.stuck]
        return "\n".join(lines)


class Undecided(Exception):
    """The search took too long. Use a shorter history, or fewer unknown ends."""


def check(
    history: Iterable[Operation], model: Model[State], *, steps_max: int = STEPS_MAX
) -> list[Violation]:
    """The parts of a history that are not linearizable; empty when all are."""
    parts: dict[Hashable, list[Operation]] = {}
    for operation in history:
        parts.setdefault(operation.key, []).append(operation)
    searches = [_Search(key, part, model, steps_max) for key, part in parts.items()]
    return [found for search in searches if (found := search.run()) is not None]


class Recorder:
    """Records the calls of threads and their responses. Safe from many threads.

    Times are numbers of one counter, so that they are distinct and do not depend on the resolution
    of the machine's clock.
    """

    def __init__(self) -> None:
        self._moments = itertools.count()
        self._operations: list[Operation] = []

    @property
    def operations(self) -> list[Operation]:
        return sorted(self._operations, key=lambda operation: operation.invoked)

    def now(self) -> int:
        """A time later than all before. ``next`` of a counter is atomic in CPython."""
        return next(self._moments)

    def record(
        self, key: Hashable, call: tuple[object, ...], act: Callable[[], Response]
    ) -> Response:
        """Execute and record a call; an exception leaves its end unknown."""
        invoked = self.now()
        returned: int | None = None
        answer: Response | None = None
        try:
            answer = act()
            returned = self.now()
        finally:
            self.note(key, call, answer, invoked=invoked, returned=returned)
        return answer

    def note(
        self,
        key: Hashable,
        call: tuple[object, ...],
        answer: object,
        *,
        invoked: int,
        returned: int | None,
    ) -> None:
        """Add an operation with times from ``now``."""
        self._operations.append(
            Operation(
                invoked=invoked,
                returned=returned,
                call=call,
                response=answer,
                key=key,
                thread=threading.current_thread().name,
            )
        )


class _Placed(Generic[State]):
    """A placed operation, with the alternatives to try when it is undone."""

    __slots__ = ("number", "others", "state")

    def __init__(self, number: int, state: State, others: Iterator[tuple[int, State]]) -> None:
        self.number = number
        self.state = state
        """The state before it took effect."""
        self.others = others


class _Search(Generic[State]):
    """Looks for an order of one part. Owned by one thread.

    Operations are numbered by their invocation. Those without a place are a linked list, so that
    the ones that may come next are its beginning: all that were invoked before the earliest return
    among them.
    """

    def __init__(
        self, key: Hashable, part: Sequence[Operation], model: Model[State], steps_max: int
    ) -> None:
        self._key = key
        self._operations = sorted(part, key=lambda operation: operation.invoked)
        self._model = model
        self._steps_left = steps_max
        count = len(self._operations)
        self._following = [*range(1, count + 1), 0]  # the last entry is the head of the list
        self._preceding = [count, *range(count)]
        self._placed: list[_Placed[State]] = []
        self._set = 0
        self._known = sum(operation.returned is not None for operation in self._operations)
        self._depth = -1
        self._longest: tuple[Operation, ...] = ()
        self._stuck: tuple[Operation, ...] = ()
        self._stuck_state: object = None

    def run(self) -> Violation | None:
        """The violation if there is no valid order, else None."""
        state = self._model.first(self._key)
        seen: set[tuple[int, State]] = {(0, state)}
        choices = self._choices(state)
        while self._known:
            for number, following in choices:
                if (self._set | 1 << number, following) not in seen:
                    break
            else:
                self._note_stuck(state)
                if not self._placed:
                    return self._violation()
                state, choices = self._take_back()
                continue
            self._place(number, state, choices)
            state = following
            seen.add((self._set, state))
            choices = self._choices(state)
        return None

    def _choices(self, state: State) -> Iterator[tuple[int, State]]:
        """Operations that may come next, each with a following state."""
        for number in list(self._candidates()):
            self._steps_left -= 1
            if self._steps_left < 0:
                raise Undecided(f"no verdict on key {self._key!r} within the steps allowed")
            for following in self._model.step(state, self._operations[number]):
                yield number, following

    def _candidates(self) -> Iterator[int]:
        head = len(self._operations)
        number = self._following[head]
        earliest: int | None = None
        while number != head:
            operation = self._operations[number]
            if earliest is not None and operation.invoked > earliest:
                return
            yield number
            if operation.returned is not None:
                first = operation.returned
                earliest = first if earliest is None else min(first, earliest)
            number = self._following[number]

    def _place(self, number: int, state: State, others: Iterator[tuple[int, State]]) -> None:
        self._placed.append(_Placed(number, state, others))
        self._set |= 1 << number
        self._known -= self._operations[number].returned is not None
        before, after = self._preceding[number], self._following[number]
        self._following[before], self._preceding[after] = after, before

    def _take_back(self) -> tuple[State, Iterator[tuple[int, State]]]:
        last = self._placed.pop()
        number = last.number
        self._set ^= 1 << number
        self._known += self._operations[number].returned is not None
        # Its neighbours are unchanged: operations are restored in the reverse order of removal.
        self._following[self._preceding[number]] = number
        self._preceding[self._following[number]] = number
        return last.state, last.others

    def _note_stuck(self, state: State) -> None:
        if len(self._placed) > self._depth:
            self._depth = len(self._placed)
            self._longest = tuple(self._operations[placed.number] for placed in self._placed)
            self._stuck = tuple(self._operations[number] for number in self._candidates())
            self._stuck_state = state

    def _violation(self) -> Violation:
        return Violation(
            key=self._key,
            explained=self._longest,
            stuck=self._stuck,
            state=self._stuck_state,
        )
