"""Promise: claims that come together are served together, job after job to one after the other."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import StrandlineError
from strandline.views.queue.claim import ClaimRequest, deal
from tests.unit.views.queue.world import World, leases_of, queue_of

DEADLINE_S = 20


def _claim_together(world: World, queue, wants: list[int]) -> list[list[bytes]]:
    """Claims by as many threads, the first of which leads; what each got."""
    got: list[list[bytes]] = [[] for _ in wants]
    failures: list[StrandlineError] = []

    def work(place: int) -> None:
        try:
            jobs = queue.claim(wants[place], worker=f"w{place}")
            got[place] = [job.data for job in jobs]
        except StrandlineError as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(wants))
    ]
    for gathered, thread in enumerate(threads, start=1):
        thread.start()
        _until(lambda gathered=gathered: len(queue._claims._cohort) == gathered)
    _until(lambda: world.clock.waiting == 1)
    world.clock.advance(0.1)
    for thread in threads:
        thread.join(DEADLINE_S)
    if failures:
        raise failures[0]
    return got


def test_jobs_are_dealt_one_by_one():
    world = World()
    queue = queue_of(world.store, claim_jitter_ms=50)
    queue.put_many([b"%d" % n for n in range(7)])

    got = _claim_together(world, queue, [5, 1, 5])

    assert got == [[b"0", b"3", b"5"], [b"1"], [b"2", b"4", b"6"]]


def test_a_cohort_is_one_append():
    world = World()
    queue = queue_of(world.store, claim_jitter_ms=50)
    queue.put_many([b"x"] * 10)

    _claim_together(world, queue, [2, 2, 2])

    with_claims = leases_of(world.store).read().records
    assert len(with_claims) == 3
    assert len({record.ts for record in with_claims}) == 1


def test_each_claimer_has_leases_of_its_own():
    world = World()
    queue = queue_of(world.store, claim_jitter_ms=50)
    queue.put_many([b"%d" % n for n in range(4)])
    _claim_together(world, queue, [2, 2])

    assert queue.release("w0") == 2
    assert queue.statistics().in_flight == 2


def test_who_finds_nothing_gets_nothing():
    world = World()
    queue = queue_of(world.store, claim_jitter_ms=50)

    assert _claim_together(world, queue, [3, 3]) == [[], []]


def test_when_serving_fails_everybody_hears_of_it():
    world = World()
    queue = queue_of(world.store, claim_jitter_ms=50, durability="fsync")
    queue.put_many([b"x"] * 10)
    world.disk.fail("*", 1, once=False)

    with pytest.raises(StrandlineError):
        _claim_together(world, queue, [1, 1, 1])


@pytest.mark.parametrize(
    ("count", "wants", "dealt"),
    [
        (0, [1, 1], [[], []]),
        (1, [1, 1], [[0], []]),
        (9, [1, 2], [[0], [1, 2]]),
        (5, [1, 9, 2], [[0], [1, 3], [2, 4]]),
        (3, [5], [[0, 1, 2]]),
        (9, [5], [[0, 1, 2, 3, 4]]),
    ],
)
def test_dealing_goes_round(count, wants, dealt):
    askers = [ClaimRequest(b"", want, None) for want in wants]

    assert [hand.tolist() for hand in deal(count, askers)] == dealt


def _until(happened) -> None:
    pause = threading.Event()
    for _ in range(DEADLINE_S * 1000):
        if happened():
            return
        pause.wait(0.001)
    raise AssertionError("it did not happen")
