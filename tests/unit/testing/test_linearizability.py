"""Promise: the checker accepts every history that some order explains, and no other.

Known good and bad histories by hand; small random ones against a search that simply tries all
orders; long ones of threads that use a thing with a lock, and one that forgets it.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Hashable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.testing.linearizability import (
    Operation,
    Recorder,
    Undecided,
    check,
)

JOIN_S = 60.0


class Register:
    """A number that is read, written and compared-and-set; 0 at first."""

    def first(self, key: Hashable) -> int:
        del key
        return 0

    def step(self, state: int, operation: Operation) -> Iterable[int]:
        verb, *arguments = operation.call
        unknown = operation.returned is None
        if verb == "write":
            return [arguments[0]]
        if verb == "cas":
            fits = state == arguments[0]
            if not unknown and fits != operation.response:
                return []
            return [arguments[1] if fits else state]
        return [state] if unknown or operation.response == state else []


def operation(
    invoked: int, returned: int | None, *call: object, answer: object = None, key: Hashable = None
) -> Operation:
    return Operation(invoked=invoked, returned=returned, call=call, response=answer, key=key)


def judge(*history: Operation) -> bool:
    return not check(history, Register())


def test_nothing_is_linearizable():
    assert judge()


def test_one_after_another_must_answer_as_the_model_does():
    assert judge(operation(0, 1, "write", 5), operation(2, 3, "read", answer=5))
    assert not judge(operation(0, 1, "write", 5), operation(2, 3, "read", answer=0))


def test_a_read_beside_a_write_may_see_either():
    write = operation(0, 9, "write", 5)

    assert judge(write, operation(1, 2, "read", answer=0))
    assert judge(write, operation(1, 2, "read", answer=5))
    assert not judge(write, operation(1, 2, "read", answer=6))


def test_what_one_reader_has_seen_a_later_one_does_not_miss():
    write = operation(0, 9, "write", 5)

    assert judge(write, operation(1, 2, "read", answer=0), operation(3, 4, "read", answer=5))
    assert not judge(write, operation(1, 2, "read", answer=5), operation(3, 4, "read", answer=0))


def test_intervals_that_touch_overlap():
    assert judge(operation(0, 2, "write", 5), operation(2, 3, "read", answer=0))


def test_a_compare_and_set_succeeds_once():
    both = [operation(0, 9, "cas", 0, 1, answer=True), operation(1, 8, "cas", 0, 2, answer=True)]
    one = [both[0], operation(1, 8, "cas", 0, 2, answer=False)]

    assert not judge(*both)
    assert judge(*one)


def test_a_lost_update_is_noticed():
    """Both read 0 and both wrote: the first write was overwritten by one who had not seen it."""
    first = operation(2, 3, "cas", 0, 1, answer=True)
    second = operation(4, 5, "cas", 0, 1, answer=True)

    assert not judge(first, second)


def test_an_operation_without_an_answer_may_have_happened():
    unknown = operation(0, None, "write", 5)

    assert judge(unknown, operation(10, 11, "read", answer=5))
    assert judge(unknown, operation(10, 11, "read", answer=0))


def test_an_operation_without_an_answer_may_happen_late_but_only_once():
    unknown = operation(0, None, "cas", 0, 5)

    late = [operation(1, 2, "read", answer=0), operation(3, 4, "read", answer=5)]
    twice = [*late, operation(5, 6, "write", 0), operation(7, 8, "read", answer=5)]

    assert judge(unknown, *late)
    assert not judge(unknown, *twice)


def test_an_operation_does_not_happen_before_it_was_invoked():
    assert not judge(operation(1, 2, "read", answer=5), operation(3, None, "write", 5))


def test_keys_are_independent():
    history = [
        operation(0, 1, "write", 5, key="a"),
        operation(2, 3, "read", answer=0, key="b"),
        operation(4, 5, "read", answer=0, key="a"),
    ]

    violations = check(history, Register())

    assert [violation.key for violation in violations] == ["a"]


def test_a_violation_tells_what_was_explained_and_what_cannot_come_next():
    write, read = operation(0, 1, "write", 5), operation(2, 3, "read", answer=7)

    (violation,) = check([write, read], Register())

    assert violation.explained == (write,)
    assert violation.stuck == (read,)
    assert violation.state == 5
    assert "read() -> 7" in str(violation)
    assert "state is 5" in str(violation)


def test_a_search_that_takes_too_long_is_no_verdict():
    history = [operation(0, 99, "write", number) for number in range(12)]
    history.append(operation(100, 101, "read", answer=-1))

    with pytest.raises(Undecided):
        check(history, Register(), steps_max=1000)


def test_a_recorder_notes_an_exception_as_an_unknown_end():
    recorder = Recorder()

    with pytest.raises(ZeroDivisionError):
        recorder.record("a", ("write", 5), lambda: 1 // 0)
    answer = recorder.record("a", ("read",), lambda: 5)

    failed, read = recorder.operations
    assert (answer, failed.returned, read.response) == (5, None, 5)
    assert failed.invoked < read.invoked < read.returned
    assert not check(recorder.operations, Register())


def could_be(history: list[Operation]) -> bool:
    """Tries every order of every choice of unknown operations."""
    known = [number for number, one in enumerate(history) if one.returned is not None]
    unknown = [number for number, one in enumerate(history) if one.returned is None]
    return any(
        _explains([history[number] for number in order])
        for count in range(len(unknown) + 1)
        for happened in itertools.combinations(unknown, count)
        for order in itertools.permutations([*known, *happened])
    )


def _explains(order: list[Operation]) -> bool:
    for before, after in itertools.combinations(order, 2):
        if after.returned is not None and after.returned < before.invoked:
            return False
    states = {0}
    for one in order:
        states = {following for state in states for following in Register().step(state, one)}
    return bool(states)


@st.composite
def histories(draw) -> list[Operation]:
    """Operations of a few threads, each one after another, with answers that may be true."""
    history = []
    for _ in range(draw(st.integers(1, 3))):
        moment = 0
        for _ in range(draw(st.integers(1, 2))):
            moment += draw(st.integers(1, 4))
            invoked = moment
            moment += draw(st.integers(1, 6))
            call, answer = draw(CALLS)
            returned = draw(st.sampled_from((moment, moment, moment, None)))
            history.append(operation(invoked, returned, *call, answer=answer))
            if returned is None:
                break
    return history


SMALL = st.integers(0, 2)
CALLS = st.one_of(
    st.tuples(st.tuples(st.just("write"), SMALL), st.none()),
    st.tuples(st.tuples(st.just("read")), SMALL),
    st.tuples(st.tuples(st.just("cas"), SMALL, SMALL), st.booleans()),
)


@given(histories())
def test_the_verdict_is_that_of_trying_every_order(history):
    assert judge(*history) == could_be(history)


class Cell:
    """A number with a compare-and-set, which is atomic only with its lock."""

    def __init__(self, *, locked: bool) -> None:
        self.value = 0
        self._lock = threading.Lock() if locked else None
        self._between = threading.Barrier(2)

    def cas(self, expected: int, value: int) -> bool:
        if self._lock is None:
            return self._cas(expected, value)
        with self._lock:
            return self._cas(expected, value)

    def _cas(self, expected: int, value: int) -> bool:
        if self.value != expected:
            return False
        if self._lock is None:
            self._meet()
        self.value = value
        return True

    def _meet(self) -> None:
        """Let another thread come to the same place, if there is one."""
        try:
            self._between.wait(0.05)
        except threading.BrokenBarrierError:
            self._between.reset()


def use(cells: dict[str, Cell], recorder: Recorder, seed: int, calls: int) -> None:
    rng = random.Random(seed)
    for _ in range(calls):
        key = rng.choice(sorted(cells))
        cell, seen, value = cells[key], rng.randrange(3), rng.randrange(3)
        if rng.random() < 0.4:
            recorder.record(key, ("read",), lambda cell=cell: cell.value)
        else:
            recorder.record(
                key,
                ("cas", seen, value),
                lambda cell=cell, seen=seen, value=value: cell.cas(seen, value),
            )


def history_of(*, locked: bool, threads: int, calls: int) -> list[Operation]:
    cells = {key: Cell(locked=locked) for key in ("a", "b")}
    recorder = Recorder()
    workers = [
        threading.Thread(target=use, args=(cells, recorder, seed, calls)) for seed in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(JOIN_S)
    assert not any(worker.is_alive() for worker in workers)
    return recorder.operations


def test_a_cell_with_a_lock_is_linearizable_for_eight_threads():
    history = history_of(locked=True, threads=8, calls=100)

    assert len(history) == 800
    assert check(history, Register()) == []


def test_a_cell_without_its_lock_is_caught():
    history = history_of(locked=False, threads=4, calls=20)

    assert check(history, Register()) != []


def long_history(count: int, width: int, seed: int) -> list[Operation]:
    """A true history of which always ``width`` operations overlap."""
    rng = random.Random(seed)
    value = 0
    made = []
    for place in range(count):
        verb = rng.choice(("read", "write", "cas"))
        if verb == "read":
            call, answer = (verb,), value
        elif verb == "write":
            call, answer = (verb, rng.randrange(4)), None
            value = call[1]
        else:
            call = (verb, rng.randrange(4), rng.randrange(4))
            answer = value == call[1]
            value = call[2] if answer else value
        invoked = 10 * place - rng.randrange(5 * width)
        made.append(
            operation(invoked, 10 * place + rng.randrange(1, 5 * width), *call, answer=answer)
        )
    return made


@pytest.mark.parametrize("seed", range(5))
def test_a_long_history_of_eight_at_once_is_judged_within_the_steps(seed):
    assert judge(*long_history(500, 8, seed))


@pytest.mark.parametrize("seed", range(5))
def test_one_wrong_answer_in_a_long_history_is_found_within_the_steps(seed):
    history = long_history(500, 8, seed)
    history.insert(250, operation(2500, 2501, "read", answer=77))

    assert not judge(*history)
