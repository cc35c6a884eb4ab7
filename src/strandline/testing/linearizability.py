"""Judges a recorded history of concurrent operations: could one thing at a time have answered so?

A history is linearizable when every operation can be given one instant between its invocation and
its return at which it takes effect, such that the answers are those of a sequential model that
meets the operations one by one, in that order.

The search is that of Wing and Gong, with the memory of Lowe: place any operation that was invoked
before the first return still to come, then go on with the rest; when nothing fits, take the last
one back. Whoever comes to the same set of placed operations with the same state of the model by
another way finds out at once that he has been there. A history of n operations of which at most k
overlap costs about n * 2^k steps at worst and about n when it is good, so:

- histories are cut by key first: a thing made of independent parts is linearizable when every part
  is, and a search of 100 + 100 operations is far shorter than one of 200;
- an operation whose end nobody knows (a call that failed half-way) may take effect at any time
  after its invocation, or never. Each of them overlaps with all that follow: keep them few.

A model says which states may follow when an operation takes effect with its answer: none says that
this answer is impossible here, several that the operation leaves something open (an unknown answer
mostly does). States are compared and hashed: make them of tuples, frozensets and numbers.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

STEPS_MAX = 1_000_000
"""Operations tried before the search gives up: some ten seconds."""

Answer = TypeVar("Answer")


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A call, what it was told, and when. ``returned`` is None when nobody knows how it ended."""

    invoked: int
    returned: int | None
    call: tuple[object, ...]
    """What was asked: a verb and its arguments."""
    answer: object = None
    key: Hashable = None
    """The part of the thing that it was about; operations of different keys are independent."""
    thread: str = ""

    def __str__(self) -> str:
        verb, *arguments = self.call
        end = f"-> {self.answer!r}" if self.returned is not None else "-> unknown"
        asked = ", ".join(map(repr, arguments))
        return f"[{self.invoked}, {self.returned}] {self.thread} {verb}({asked}) {end}"


State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """A thing that does one operation at a time."""

    def first(self, key: Hashable) -> State:
        """The state in which a part begins."""
        ...

    def step(self, state: State, operation: Operation) -> Iterable[State]:
        """The states that may follow this operation with its answer; none when it cannot be."""
        ...


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a history that no order explains."""

    key: Hashable
    explained: tuple[Operation, ...]
    """The longest order that was found, with all that it explains."""
    stuck: tuple[Operation, ...]
    """The operations of which none could come next."""
    state: object
    """What the model's state was then."""

    def __str__(self) -> str:
        lines = [f"key {self.key!r}: no order explains these answers. After"]
        lines += [f"    {operation}" for operation in self.explained[-8:]]
        lines += [f"the state is {self.state!r}, and none of these can come next:"]
        lines += [f"    {operation}" for operation in self.stuck]
        return "\n".join(lines)


class Undecided(Exception):
    """The search took too long. Make the history shorter, or with fewer unknown ends."""


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
    """Writes down what threads ask and are told. Safe from many threads.

    Times are places in one count, so that no two events have the same and none depends on how fine
    the machine's clock is.
    """

    def __init__(self) -> None:
        self._moments = itertools.count()
        self._operations: list[Operation] = []

    @property
    def operations(self) -> list[Operation]:
        return sorted(self._operations, key=lambda operation: operation.invoked)

    def now(self) -> int:
        """A moment later than all before. Counting is atomic in CPython."""
        return next(self._moments)

    def record(self, key: Hashable, call: tuple[object, ...], act: Callable[[], Answer]) -> Answer:
        """Do it, and note the answer; an exception that travels leaves the end unknown."""
        invoked = self.now()
        returned: int | None = None
        answer: Answer | None = None
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
        """Add an operation that the caller has timed by ``now``."""
        self._operations.append(
            Operation(
                invoked=invoked,
                returned=returned,
                call=call,
                answer=answer,
                key=key,
                thread=threading.current_thread().name,
            )
        )


class _Placed(Generic[State]):
    """An operation that has its place, and what to try next when it is taken back."""

    __slots__ = ("number", "others", "state")

    def __init__(self, number: int, state: State, others: Iterator[tuple[int, State]]) -> None:
        self.number = number
        self.state = state
        """Before it took effect."""
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
        """Why there is no order; None when there is one."""
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
        """Operations that may come next, each with a state that follows."""
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
        # It still knows its neighbours: operations come back in the reverse order of their going.
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
