"""Promise: the work of an operation depends on the jobs it names, not on how many jobs wait or are
in flight. Work is counted in calls, never in time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from strandline.views.queue.queue import Queue
from tests.unit.views.queue.world import World, queue_of

FEW, MANY = 4, 400


def _calls(work: Callable[[], object]) -> int:
    """How many functions are called by some work, those in C included."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _busy(claims: int) -> tuple[Queue, list[int]]:
    """A queue in which one worker has made so many claims of one job each."""
    queue = queue_of(World().store, lease_ms=3_600_000)
    queue.put_many([b"job"] * (2 * claims + 2))
    seqs = [queue.claim(worker="w")[0].seq for _ in range(claims)]
    queue.claim(worker="other")
    return queue, seqs


OPERATIONS: dict[str, Callable[[Queue, int], object]] = {
    "ack by node": lambda queue, seq: queue.ack_many(queue.held("w", [seq])),
    "nack by node": lambda queue, seq: queue.nack_many(queue.held("w", [seq])),
    "extend by node": lambda queue, seq: queue.extend_many(queue.held("w", [seq])),
    "claim": lambda queue, _: queue.claim(worker="w"),
    "put": lambda queue, _: queue.put(b"new", key="k"),
    "peek": lambda queue, _: queue.peek(),
    "statistics": lambda queue, _: queue.statistics(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_does_not_visit_the_other_claims_of_its_worker(operation):
    def calls_after(claims: int) -> int:
        queue, seqs = _busy(claims)
        return _calls(lambda: OPERATIONS[operation](queue, seqs[claims // 2]))

    assert calls_after(MANY) < calls_after(FEW) + MANY // 2


def test_only_jobs_of_the_named_worker_are_held_by_it():
    queue, seqs = _busy(FEW)
    others = [seq for seq in range(1, 2 * FEW + 3) if seq not in seqs]

    held = queue.held("w", [*reversed(seqs), *seqs, *others, 10**12])

    assert [ticket.seq for ticket in held] == sorted(seqs)
    assert queue.held("nobody", seqs) == []
    assert queue.ack_many(held).done == FEW
    assert queue.held("w", seqs) == []
