"""Promise: threads that use a key-value map at once are answered as if they had taken turns.

Put, get, compare-and-set by version, delete and incr, judged key by key. Threads lose the processor
at random lines of the code under test. A store is closed or killed under them and opened again, and
what they then do not know counts as having happened or not.

Whether the judge is awake is tested too: with a compare-and-set that does not compare, with reads
that do not look at the log, and with decisions that are made without the lock.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import pytest

from strandline.errors import Conflict, StrandlineError
from strandline.testing.linearizability import Operation, Recorder, check
from strandline.views.kv import conditions
from strandline.views.kv.kv import Kv
from strandline.views.view_runner import ViewRunner
from tests.history.delays import random_delays
from tests.property.threads import JOIN_S, UNKNOWN, at_once, decide_without_the_lock, ended
from tests.unit.views.groups.world import GroupWorld

KEYS = (b"a", b"b", b"c")
THREADS = 5
WATCHED = ("views/view_runner.py", "kv/kv.py", "kv/fold.py", "kv/changes.py")


class Value(NamedTuple):
    """A key as the model has it."""

    value: bytes | None = None
    version: int = 0
    """Its version, or what that is larger than."""
    exact: bool = True


class KeyModel:
    """One key of a map. Versions grow; that of an incr is not told, only that it is larger."""

    def first(self, key: Hashable) -> Value:
        del key
        return Value()

    def step(self, state: Value, operation: Operation) -> Iterable[Value]:
        verb, *arguments = operation.call
        known = operation.response != UNKNOWN
        following = list(getattr(self, f"_{verb}")(state, known, operation.response, *arguments))
        return following if known else [*following, state]

    def _put(self, state, known, answer, value):
        if not known:
            yield Value(value, state.version, False)
        elif answer > state.version:
            yield Value(value, answer)

    def _get(self, state, known, answer):
        if not known or answer == state.value:
            yield state

    def _entry(self, state, known, answer):
        if not known or (answer is None and state.value is None):
            yield state
        elif answer is not None and answer[0] == state.value and _may_be(state, answer[1]):
            yield Value(*answer)

    def _cas(self, state, known, answer, value, expected):
        may = expected == 0 if state.value is None else _may_be(state, expected)
        must = may and (state.value is None or state.exact)
        if may and not known:
            yield Value(value, max(state.version, expected), False)
        elif may and answer != "conflict" and answer > max(state.version, expected):
            yield Value(value, answer)
        if not must and (not known or answer == "conflict"):
            yield state

    def _delete(self, state, known, answer):
        if not known or answer == (state.value is not None):
            yield Value(None, state.version)

    def _incr(self, state, known, answer, delta):
        number = int(state.value or b"0") + delta
        if not known or answer == number:
            yield Value(b"%d" % number, state.version, False)


def _may_be(state: Value, version: int) -> bool:
    return version == state.version if state.exact else version > state.version


def change_keys(kv: Kv, recorder: Recorder, seed: int, calls: int) -> None:
    """Do all sorts of things to a few keys, with versions that one has seen lately."""
    rng = random.Random(seed)
    seen: dict[bytes, int] = dict.fromkeys(KEYS, 0)
    for number in range(calls):
        key, value = rng.choice(KEYS), b"%d" % (1000 * seed + number)
        verb = rng.choice(("put", "get", "entry", "entry", "cas", "cas", "cas", "delete", "incr"))
        if verb == "put":
            seen[key] = recorder.record(key, (verb, value), lambda k=key, v=value: kv.put(k, v))
        elif verb == "cas":
            call = (verb, value, seen[key])
            found = recorder.record(key, call, lambda k=key, v=value: _cas(kv, k, v, seen[k]))
            seen[key] = seen[key] if found == "conflict" else found
        elif verb == "entry":
            entry = recorder.record(key, (verb,), lambda k=key: _entry(kv, k))
            seen[key] = 0 if entry is None else entry[1]
        elif verb == "incr":
            recorder.record(key, (verb, seed), lambda k=key: kv.incr(k, seed))
        else:
            recorder.record(key, (verb,), lambda k=key, v=verb: getattr(kv, v)(k))


def _cas(kv: Kv, key: bytes, value: bytes, version: int) -> int | str:
    try:
        return kv.put(key, value, version=version)
    except Conflict:
        return "conflict"


def _entry(kv: Kv, key: bytes) -> tuple[bytes, int] | None:
    entry = kv.entry(key)
    return None if entry is None else (entry.value, entry.version)


def keys_changed(kv: Kv, seed: int, *, calls: int = 60) -> list[Operation]:
    recorder = Recorder()
    bodies = [
        lambda s=s: change_keys(kv, recorder, s, calls)
        for s in range(seed * THREADS + 1, seed * THREADS + 1 + THREADS)
    ]
    with random_delays(seed, WATCHED, chance=0.01):
        failures = at_once(*bodies)
    assert failures == []
    return recorder.operations


@pytest.mark.parametrize("durability", ["disk", "fsync", "memory"])
@pytest.mark.parametrize("seed", range(3))
def test_a_key_value_map_is_linearizable(durability, seed):
    world = GroupWorld()
    kv = world.store.kv("profiles", durability=durability)

    history = keys_changed(kv, seed)

    assert len(history) == 60 * THREADS
    assert list(map(str, check(history, KeyModel()))) == []


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_key_value_map_is_linearizable_across_a_reopening(cleanly, seed):
    """The store ends under the threads: what they were doing has happened, or it has not."""
    world = GroupWorld()
    recorder = Recorder()
    kv = world.store.kv("profiles")
    ending = threading.Event()
    moment = 0

    def work(number: int) -> None:
        change_keys(kv, recorder, number, 40)
        ending.set()
        change_keys(kv, recorder, 100 + number, 100_000)

    def end() -> None:
        nonlocal moment
        assert ending.wait(JOIN_S)
        world.restart(cleanly=cleanly)
        moment = recorder.now()

    failures = at_once(end, *(lambda n=n: work(n) for n in range(1, THREADS + 1)))
    again = world.store.kv("profiles")
    failures_after = at_once(
        *(lambda n=n: change_keys(again, recorder, 200 + n, 30) for n in range(3))
    )

    assert len(failures) == THREADS
    assert all(isinstance(failure, (StrandlineError, OSError)) for failure in failures)
    assert failures_after == []
    assert list(map(str, check(ended(recorder.operations, moment), KeyModel()))) == []


def test_a_compare_and_set_that_does_not_compare_is_caught(monkeypatch):
    monkeypatch.setattr(conditions, "check_version", lambda *_: None)
    world = GroupWorld()

    history = keys_changed(world.store.kv("profiles"), 0)

    assert check(history, KeyModel()) != []


def test_a_read_that_does_not_look_at_the_log_is_caught(monkeypatch):
    """Plain puts are folded in when the next one decides, and reads see what is folded in."""
    monkeypatch.setattr(ViewRunner, "append", _append_without_folding)
    monkeypatch.setattr(Kv, "get", _get_from_the_fold)
    world = GroupWorld()

    history = keys_changed(world.store.kv("profiles"), 0)

    assert check(history, KeyModel()) != []


def _append_without_folding(host: ViewRunner, draft):
    with host.lock:
        return host._place(draft, None).wait()


def _get_from_the_fold(kv: Kv, key: bytes) -> bytes | None:
    slot = kv._host.fold.hot.get(key)
    return None if slot is None else slot.value


def test_decisions_that_are_made_without_the_lock_are_caught(monkeypatch):
    monkeypatch.setattr(ViewRunner, "decide", decide_without_the_lock)
    world = GroupWorld()

    history = keys_changed(world.store.kv("profiles"), 0)

    assert check(history, KeyModel()) != []
