"""Promise: a share counts exactly, and whoever wants more goes up the ladder one rung at a time."""

from __future__ import annotations

import threading

import pytest

from strandline.config.memory_budget import Budget, MemoryShare
from strandline.errors import Invalid, MemoryPressure, TooLarge, Unavailable

TOTAL = 32_000
KV = 12_000
RESERVE = 5_000
FAR_AWAY_S = 10.0
"""A deadline that is only met when something hangs."""


class Cache:
    """Something that can be evicted: bytes in a share, up to so many at once."""

    def __init__(self, share: MemoryShare, size: int, *, at_once: int = TOTAL) -> None:
        self.share = share
        self.size = size
        self.at_once = at_once
        self.asked: list[int] = []
        share.charge(size)
        share.add_evictor(self.evict)

    def evict(self, wanted: int) -> int:
        self.asked.append(wanted)
        freed = min(wanted, self.size, self.at_once)
        self.size -= freed
        self.share.release(freed)
        return freed


def test_eight_shares_divide_the_whole_budget_in_the_proportions_of_the_reference():
    use = Budget(TOTAL).use()

    assert {name: each.limit / TOTAL for name, each in use.items()} == {
        "log": 0.125,
        "kv": 0.375,
        "queue": 0.0625,
        "series": 0.125,
        "io": 0.0625,
        "checkpoint": 0.03125,
        "cache": 0.0625,
        "reserve": 0.15625,
    }


@pytest.mark.parametrize("total", [32, 33, 1_000_003, 2**40 + 31])
def test_no_byte_of_the_budget_is_lost_in_rounding(total):
    assert sum(each.limit for each in Budget(total).use().values()) == total


@pytest.mark.parametrize("total", [-1, 0, 31])
def test_a_budget_of_nothing_is_refused(total):
    with pytest.raises(Invalid, match=r"raise views\.memory_bytes"):
        Budget(total)


def test_what_fits_into_the_share_is_admitted_and_nobody_is_asked():
    share = Budget(TOTAL).share("kv")
    cache = Cache(share, 1_000)
    share.charge(KV - 2_000)

    share.admit(1_000)

    assert cache.asked == []
    assert share.used == KV - 1_000


def test_what_does_not_fit_is_asked_of_evictors_with_a_tenth_of_headroom():
    budget = Budget(TOTAL)
    share = budget.share("kv")
    cache = Cache(share, KV)

    share.admit(500)

    assert cache.asked == [500 + KV // 10]
    assert share.used == KV - 500 - KV // 10
    assert budget.use()["kv"].evicted_bytes == 500 + KV // 10
    assert budget.use()["reserve"].used == 0


def test_evictors_are_asked_only_until_enough_is_free():
    share = Budget(TOTAL).share("kv")
    caches = [Cache(share, KV // 4) for _ in range(4)]

    share.admit(100)

    assert sorted(len(cache.asked) for cache in caches) == [0, 0, 0, 1]


def test_the_next_evictor_is_asked_for_what_is_still_missing():
    share = Budget(TOTAL).share("kv")
    caches = [Cache(share, KV // 2, at_once=300) for _ in range(2)]

    share.admit(500)

    assert sorted(cache.asked for cache in caches) == [[200 + KV // 10], [500 + KV // 10]]


def test_evictors_take_turns():
    share = Budget(TOTAL).share("kv")
    caches = [Cache(share, KV // 3) for _ in range(3)]

    for _ in range(3):
        share.admit(KV - share.used + 1)

    assert [len(cache.asked) for cache in caches] == [1, 1, 1]


def test_the_reserve_lends_only_what_evictors_could_not_free():
    budget = Budget(TOTAL)
    share = budget.share("kv")
    cache = Cache(share, 300)
    share.charge(KV - 300)

    share.admit(1_000)
    share.charge(1_000)

    assert cache.size == 0
    assert budget.use()["kv"].borrowed == 700
    assert budget.use()["reserve"].used == 700


def test_what_is_released_is_given_back_to_the_reserve_first():
    budget = Budget(TOTAL)
    share = budget.share("kv")
    share.charge(KV + 700)

    share.release(500)

    assert budget.use()["kv"].borrowed == 200
    assert budget.use()["reserve"].used == 200


def test_shares_borrow_from_one_reserve():
    budget = Budget(TOTAL)
    budget.share("kv").charge(KV + RESERVE - 10)
    queue = budget.share("queue")
    queue.charge(queue.limit)

    queue.admit(10)

    with pytest.raises(MemoryPressure):
        queue.admit(11)


def test_pressure_is_told_when_the_reserve_is_lent_and_goes_away_by_itself():
    budget = Budget(TOTAL)
    share = budget.share("kv")
    share.charge(KV + RESERVE)

    with pytest.raises(MemoryPressure) as caught:
        share.admit(1)

    assert isinstance(caught.value, Unavailable)
    assert caught.value.code == "memory_pressure"
    for told in ("1 more bytes", "'kv'", str(KV), "retry later", "views.memory_bytes"):
        assert told in str(caught.value)
    share.release(1)
    share.admit(1)


def test_a_request_that_can_never_fit_is_refused_for_good_and_evicts_nothing():
    share = Budget(TOTAL).share("kv")
    cache = Cache(share, 500)

    share.admit(KV + RESERVE)
    with pytest.raises(TooLarge, match="split the request"):
        share.admit(KV + RESERVE + 1)

    assert cache.asked == [500]


def test_refusals_are_counted():
    budget = Budget(TOTAL)
    share = budget.share("kv")
    share.charge(KV + RESERVE)

    for size in (1, TOTAL):
        with pytest.raises((MemoryPressure, TooLarge)):
            share.admit(size)

    assert budget.use()["kv"].refusals == 2


def test_the_ladder_believes_what_was_released_not_what_an_evictor_says():
    share = Budget(TOTAL).share("kv")
    share.charge(KV + RESERVE)
    share.add_evictor(lambda wanted: wanted)

    with pytest.raises(MemoryPressure):
        share.admit(1)


def test_a_forgotten_evictor_is_not_asked():
    share = Budget(TOTAL).share("kv")
    cache = Cache(share, KV)

    share.remove_evictor(cache.evict)
    share.admit(1)

    assert cache.asked == []


def test_a_share_above_the_high_mark_is_brought_down_to_the_low_one():
    budget = Budget(TOTAL)
    busy, calm = budget.share("kv"), budget.share("queue")
    Cache(busy, int(KV * 0.86))
    Cache(calm, int(calm.limit * 0.84))

    budget.run_once()

    assert busy.used == int(KV * 0.70)
    assert calm.used == int(calm.limit * 0.84)


def test_a_full_cache_is_left_alone():
    budget = Budget(TOTAL)
    share = budget.share("cache")
    Cache(share, share.limit)

    budget.run_once()

    assert share.used == share.limit


def test_room_is_made_of_all_in_turn_and_no_more_than_is_wanted():
    share = Budget(TOTAL).share("cache")
    caches = [Cache(share, share.limit // 2) for _ in range(2)]

    for _ in caches:
        assert share.try_evict(100)
        share.charge(100)

    assert [each.size for each in caches] == [share.limit // 2 - 100] * 2


def test_room_is_not_made_of_the_reserve():
    share = Budget(TOTAL).share("cache")
    share.charge(share.limit)

    assert not share.try_evict(1)


def test_two_threads_that_charge_at_once_are_both_counted():
    share = Budget(TOTAL).share("kv")
    other = threading.Thread(target=share.charge, args=(100,))

    class Slow(int):
        """A size that lets the other thread run in the middle of being added."""

        def __radd__(self, before: int) -> int:
            other.start()
            other.join(0.05)
            return before + int(self)

    share.charge(Slow(10))
    other.join(FAR_AWAY_S)

    assert share.used == 110


def test_an_evictor_that_cannot_have_its_lock_is_passed_over():
    share = Budget(TOTAL).share("kv")
    locks = [threading.Lock(), threading.Lock()]
    held = threading.Barrier(2)
    done = threading.Barrier(2)

    def evict(lock: threading.Lock) -> int:
        if not lock.acquire(blocking=False):
            return 0
        lock.release()
        return 0

    def write(own: threading.Lock) -> None:
        with own:
            held.wait(FAR_AWAY_S)
            share.admit(KV + 1)
            done.wait(FAR_AWAY_S)

    for lock in locks:
        share.add_evictor(lambda _, lock=lock: evict(lock))
    writers = [threading.Thread(target=write, args=(lock,), daemon=True) for lock in locks]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(FAR_AWAY_S)

    assert not any(writer.is_alive() for writer in writers)


def test_others_are_counted_while_an_evictor_runs():
    share = Budget(TOTAL).share("kv")
    share.charge(KV)
    other = threading.Thread(target=share.release, args=(5_000,), daemon=True)
    went_on = []

    def evict(wanted: int) -> int:
        other.start()
        other.join(1.0)
        went_on.append(not other.is_alive())
        return 0

    share.add_evictor(evict)
    share.admit(100)

    assert went_on == [True]
    assert share.used == KV - 5_000


def test_a_finalizer_that_releases_in_the_middle_of_counting_does_not_hang():
    share = Budget(TOTAL).share("kv")
    share.charge(100)

    class Collected(int):
        """A size whose addition lets go of something that was charged."""

        def __radd__(self, before: int) -> int:
            share.release(0)
            return before + int(self)

    counting = threading.Thread(target=share.charge, args=(Collected(10),), daemon=True)
    counting.start()
    counting.join(FAR_AWAY_S)

    assert not counting.is_alive()
    assert share.used == 110
