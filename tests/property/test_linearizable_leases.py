"""Promise: nobody holds what another holds, and what is done is done once, whoever asks at once.

Leases of queues and of consumer groups, judged job by job while one thread moves the clock: a lease
is granted only on what is in nobody's hands or overdue, and under a number that never was before;
an ack, nack or extension is accepted exactly of who holds the job. Threads lose the processor at
random lines of the code under test, and come late with jobs that are long another's. A store is
killed under them and opened again.

Whether the judge is awake is tested too: with claims that are decided without the lock, leases that
end early, and acks that are taken from anybody.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import numpy as np
import pytest

from strandline.errors import StrandlineError
from strandline.testing.linearizability import Operation, Recorder, check
from strandline.views.groups.inflight import Inflight
from strandline.views.groups.member import Delivery
from strandline.views.queue.job import Job, LeaseTicket
from strandline.views.queue.state.transitions import Jobs
from strandline.views.view_runner import ViewRunner
from tests.history.delays import random_delays
from tests.property.threads import JOIN_S, UNKNOWN, at_once, decide_without_the_lock, ended
from tests.unit.views.groups.world import GroupWorld

THREADS = 5
LEASE_S = 5
MOMENTS = 30
"""Asked or answered, between two steps of the clock."""
WATCHED = (
    *("views/view_runner.py", "queue/claiming.py", "queue/settling.py", "queue/fold.py"),
    *("groups/group.py", "groups/settling.py", "groups/reading.py", "groups/desk.py"),
)

Work = Job | Delivery


class Lease(NamedTuple):
    """A job as the model has it. Times are whole seconds."""

    status: str = "absent"
    lease: int = 0
    """The last that is known."""
    until: int = 0
    now: int = 0


class LeaseModel:
    """One job, and the clock."""

    def __init__(self, *, leases_are_kept: bool) -> None:
        self._leases_are_kept = leases_are_kept

    def first(self, key: Hashable) -> Lease:
        del key
        return Lease()

    def step(self, state: Lease, operation: Operation) -> Iterable[Lease]:
        verb, *arguments = operation.call
        known = operation.response != UNKNOWN
        following = list(getattr(self, f"_{verb}")(state, known, operation.response, *arguments))
        return following if known else [*following, state]

    def _tick(self, state, known, answer, seconds):
        yield state._replace(now=state.now + seconds)

    def _put(self, state, known, answer):
        if state.status == "absent":
            yield state._replace(status="ready")

    def _claim(self, state, known, answer):
        if state.status != "ready" and (state.status == "done" or state.until > state.now):
            return
        until = state.now + LEASE_S
        if not known:
            yield state._replace(status="held by somebody", until=until)
        elif answer > state.lease:
            yield state._replace(status="held", lease=answer, until=until)

    def _find_nothing(self, state, known, answer):
        if state.status != "ready":
            yield state

    def _restart(self, state, known, answer):
        """Queues know who holds what; groups forget it, and count leases anew."""
        if self._leases_are_kept:
            yield state
            return
        status = "ready" if state.status.startswith("held") else state.status
        yield state._replace(status=status, lease=0)

    def _ack(self, state, known, answer, lease):
        yield from self._settle(state, known, answer, lease, state._replace(status="done"))

    def _nack(self, state, known, answer, lease):
        yield from self._settle(state, known, answer, lease, state._replace(status="ready"))

    def _extend(self, state, known, answer, lease):
        longer = state._replace(until=max(state.until, state.now + LEASE_S))
        yield from self._settle(state, known, answer, lease, longer)

    def _settle(self, state, known, answer, lease, after):
        """Who is late may be refused even when nobody else has it."""
        holds = state.status == "held" and state.lease == lease
        if holds and (not known or answer):
            yield after
        if not (holds and state.until > state.now) and (not known or not answer):
            yield state


class Shift:
    """Workers and a clock at work, and what they were told."""

    def __init__(self, world: GroupWorld) -> None:
        self.world = world
        self.recorder = Recorder()
        self._everywhere: list[Operation] = []
        """What is about every job: time that passes, and claims with the jobs that they found."""
        self._ended = 0

    def put(self, append: Callable[[int], list[int]], count: int) -> None:
        invoked = self.recorder.now()
        for seq in append(count):
            returned = self.recorder.now()
            self.recorder.note(seq, ("put",), None, invoked=invoked, returned=returned)

    def tick(self, seconds: int) -> None:
        invoked = self.recorder.now()
        self.world.clock.advance(seconds)
        self._note(("tick", seconds), invoked)

    def kill(self) -> None:
        """End the store under the workers, and open it again."""
        invoked = self.recorder.now()
        self.world.restart(cleanly=False)
        self._note(("restart",), invoked)
        self._ended = self.recorder.now()

    def claim(self, claim: Callable[[int], list[Work]], count: int) -> list[Work]:
        invoked = self.recorder.now()
        try:
            found = claim(count)
        except BaseException:
            self._everywhere.append(Operation(invoked=invoked, returned=None, call=("claim",)))
            raise
        returned = self.recorder.now()
        for job in found:
            lease = lease_of(job)
            self.recorder.note(job.seq, ("claim",), lease, invoked=invoked, returned=returned)
        if len(found) < count:
            seqs = frozenset(job.seq for job in found)
            self._note(("find_nothing",), invoked, seqs)
        return found

    def settle(self, verb: str, job: Work, act: Callable[[], bool] | None = None) -> bool:
        return self.recorder.record(job.seq, (verb, lease_of(job)), act or getattr(job, verb))

    def work(self, claim: Callable[[int], list[Work]], seed: int, turns: int) -> list[Work]:
        """Claim, be slow or quick, ack, nack, extend: also what is long another's."""
        rng = random.Random(seed)
        held: list[Work] = []
        for _ in range(turns):
            if rng.random() < 0.4 or not held:
                held += self.claim(claim, rng.randrange(1, 4))
            else:
                verb = rng.choice(("ack", "nack", "nack", "extend"))
                self.settle(verb, rng.choice(held[-5:]))
        return held

    def pass_time(self, seed: int, turns: int) -> None:
        rng = random.Random(seed)
        for _ in range(turns):
            self.tick(rng.choice((1, 1, 2, LEASE_S)))
            self._let_others_work()

    def put_some(self, append: Callable[[int], list[int]], turns: int) -> None:
        for _ in range(turns):
            self.put(append, 2)
            self._let_others_work()

    def _let_others_work(self) -> None:
        """For so many moments. Looking takes one, so it ends also when nobody does anything."""
        later = self.recorder.now() + MOMENTS
        while self.recorder.now() < later:
            time.sleep(0.0005)

    def history(self) -> list[Operation]:
        """By job, with what was about all of them."""
        told = self.recorder.operations
        jobs = sorted({operation.key for operation in told})
        about_all = [
            Operation(invoked=each.invoked, returned=each.returned, call=each.call, key=job)
            for each in self._everywhere
            for job in jobs
            if job not in (each.response or ())
        ]
        return ended(told + about_all, self._ended)

    def violations(self) -> list[str]:
        model = LeaseModel(leases_are_kept=isinstance(self, QueueShift))
        return list(map(str, check(self.history(), model)))

    def count(self, verb: str, answer: object) -> int:
        """How often somebody was told this: a history without it proves nothing."""
        told = self.recorder.operations
        return sum(each.call[0] == verb and each.response == answer for each in told)

    def _note(self, call: tuple[object, ...], invoked: int, answer: object = None) -> None:
        returned = self.recorder.now()
        self._everywhere.append(
            Operation(invoked=invoked, returned=returned, call=call, response=answer)
        )


def lease_of(job: Work) -> int:
    return job.lease if isinstance(job, Job) else job.token


class QueueShift(Shift):
    """Workers of a queue."""

    def __init__(self, durability: str = "disk") -> None:
        super().__init__(GroupWorld())
        self.durability = durability
        self.queue = self._open()

    def append(self, count: int) -> list[int]:
        return [put.seq for put in self.queue.put_many([b"job"] * count)]

    def claimer(self, number: int) -> Callable[[int], list[Work]]:
        queue = self.queue
        return lambda count: queue.claim(count, worker=f"w{number}", lease=LEASE_S)

    def kill(self) -> None:
        super().kill()
        self.queue = self._open()

    def _open(self):
        return self.world.store.queue("mails", durability=self.durability, deliveries_max=0)


class GroupShift(Shift):
    """Members of a group; none is given up while the others work."""

    def __init__(self, mode: str = "shared") -> None:
        super().__init__(GroupWorld())
        self.mode = mode
        self.group = self._open()

    def append(self, count: int) -> list[int]:
        return self.world.append(keys=[b"k%d" % number for number in range(count)])

    def claimer(self, number: int) -> Callable[[int], list[Work]]:
        member = self.group.join(f"w{number}")
        return lambda count: member.read(max=count)

    def kill(self) -> None:
        super().kill()
        self.group = self._open()

    def _open(self):
        return self.world.group(mode=self.mode, lease_s=LEASE_S, deliveries_max=0)


def worked(shift: QueueShift | GroupShift, seed: int, *, turns: int = 40) -> list[BaseException]:
    """Let all work; what has stopped them."""
    shift.put(shift.append, 6)
    claimers = [shift.claimer(number) for number in range(THREADS)]
    bodies = [lambda c=c, n=n: shift.work(c, seed * 100 + n, turns) for n, c in enumerate(claimers)]
    with random_delays(seed, WATCHED, chance=0.01):
        return at_once(
            lambda: shift.pass_time(seed, 25),
            lambda: shift.put_some(shift.append, 8),
            *bodies,
        )


def finished(shift: QueueShift | GroupShift) -> set[int]:
    """Wait until nobody holds anything, then do what is left; which jobs that was."""
    shift.tick(10 * LEASE_S)
    claim = shift.claimer(99)
    left: set[int] = set()
    while found := shift.claim(claim, 100):
        left |= {job.seq for job in found if shift.settle("ack", job)}
    return left


def done_once(shift: Shift, left: set[int]) -> bool:
    """Whether every job was acked once, by somebody before or in the end."""
    told = shift.recorder.operations
    acked = [each.key for each in told if each.call[0] == "ack" and each.response]
    return sorted(acked) == sorted({each.key for each in told}) and left <= set(acked)


@pytest.mark.parametrize("durability", ["disk", "fsync"])
@pytest.mark.parametrize("seed", range(3))
def test_leases_of_a_queue_are_linearizable(durability, seed):
    shift = QueueShift(durability)

    failures = worked(shift, seed)
    left = finished(shift)

    assert failures == []
    assert shift.violations() == []
    assert done_once(shift, left)
    assert shift.count("ack", True)
    assert shift.count("ack", False) + shift.count("nack", False) > 5


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
@pytest.mark.parametrize("seed", range(3))
def test_leases_of_a_group_are_linearizable(mode, seed):
    shift = GroupShift(mode)
    if mode == "key_shared":
        shift._note = only_time(shift)  # a member finds nothing of what is another's

    failures = worked(shift, seed)
    left = finished(shift) if mode == "shared" else set()

    assert failures == []
    assert shift.violations() == []
    assert mode == "key_shared" or done_once(shift, left)
    assert shift.count("ack", True)
    assert shift.count("ack", False) + shift.count("nack", False) > 5


def only_time(shift: Shift) -> Callable[..., None]:
    note = shift._note
    return lambda call, *told: None if call == ("find_nothing",) else note(call, *told)


@pytest.mark.parametrize("make", [QueueShift, GroupShift])
@pytest.mark.parametrize("seed", range(3))
def test_leases_are_linearizable_when_the_store_is_killed_under_the_workers(make, seed):
    shift = make()
    shift.put(shift.append, 12)
    claimers = [shift.claimer(number) for number in range(THREADS)]
    held: list[Work] = []
    ending = threading.Event()

    def work(claim: Callable[[int], list[Work]], number: int) -> None:
        held.extend(shift.work(claim, seed * 100 + number, 15))
        ending.set()
        shift.work(claim, seed * 100 + 50 + number, 100_000)

    def end() -> None:
        assert ending.wait(JOIN_S)
        shift.kill()

    failures = at_once(end, *(lambda c=c, n=n: work(c, n) for n, c in enumerate(claimers)))
    if isinstance(shift, QueueShift):
        for job in held:  # leases outlive the process, for who remembers them
            ticket = LeaseTicket(job.seq, job.lease)
            shift.settle("ack", job, lambda t=ticket: shift.queue.ack(t))
    after = worked(shift, seed + 10, turns=20)
    finished(shift)

    assert len(failures) == THREADS
    assert all(isinstance(failure, (StrandlineError, OSError)) for failure in failures)
    assert after == []
    assert shift.violations() == []


def test_claims_that_are_decided_without_the_lock_are_caught(monkeypatch):
    monkeypatch.setattr(ViewRunner, "decide", decide_without_the_lock)
    shift = QueueShift()

    worked(shift, 0)

    assert shift.violations() != []


def test_acks_that_a_queue_takes_from_anybody_are_caught(monkeypatch):
    monkeypatch.setattr(Jobs, "holds", lambda _, seqs, leases: np.ones(len(seqs), dtype=bool))
    shift = QueueShift()

    worked(shift, 0)

    assert shift.violations() != []


def test_acks_that_a_group_takes_from_anybody_are_caught(monkeypatch):
    monkeypatch.setattr(Inflight, "held", lambda inflight, seq, _: inflight._leases.get(seq))
    shift = GroupShift()

    worked(shift, 0)

    assert shift.violations() != []


def test_leases_of_a_group_that_end_early_are_caught(monkeypatch):
    over = Inflight.expire
    monkeypatch.setattr(Inflight, "expire", lambda inflight, now: over(inflight, now + 4))
    shift = GroupShift()

    worked(shift, 0)

    assert shift.violations() != []
