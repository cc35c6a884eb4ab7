"""Promise: whoever asks before charging, whatever the order, the budget as a whole is never passed;
every loan is given back; and nobody is refused while something could be evicted or borrowed. A
cache gives way only to what is to be kept there."""

from __future__ import annotations

import threading

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.config.memory_budget import CACHE, Budget
from strandline.errors import MemoryPressure, TooLarge

TOTAL = 3_205
WRITTEN = ("log", "kv", "queue", "series", "io", "checkpoint")
NAMES = (*WRITTEN, CACHE)
names = st.sampled_from(WRITTEN)
sizes = st.integers(0, TOTAL // 4)


class Writers(RuleBasedStateMachine):
    """Writers of all shares, each with things that can be evicted and things that cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(TOTAL)
        self.limits = {name: use.limit for name, use in self.budget.use().items()}
        self.kept = dict.fromkeys(NAMES, 0)
        self.cached = dict.fromkeys(NAMES, 0)
        self.refused = dict.fromkeys(NAMES, 0)
        self.granularity = 1
        for name in NAMES:
            self.budget.share(name).add_evictor(lambda wanted, name=name: self.evict(name, wanted))

    def evict(self, name: str, wanted: int) -> int:
        step = self.granularity
        freed = min(self.cached[name], -(-wanted // step) * step)
        self.cached[name] -= freed
        self.budget.share(name).release(freed)
        return freed

    @rule(step=st.integers(1, 200))
    def evict_in_steps_of(self, step: int) -> None:
        self.granularity = step

    @rule(name=names, size=sizes, can_be_evicted=st.booleans())
    def bring_in(self, name: str, size: int, can_be_evicted: bool) -> None:
        share = self.budget.share(name)
        reserve_left = self.limits["reserve"] - sum(
            max(0, self.kept[each] + self.cached[each] - self.limits[each])
            for each in NAMES
            if each != name
        )
        could_fit = self.kept[name] + size <= self.limits[name] + reserve_left
        try:
            share.admit(size)
        except TooLarge:
            assert size > self.limits[name] + self.limits["reserve"]
            self.refused[name] += 1
        except MemoryPressure:
            assert not could_fit
            self.refused[name] += 1
        else:
            assert could_fit
            share.charge(size)
            (self.cached if can_be_evicted else self.kept)[name] += size

    @rule(size=sizes)
    def keep_in_the_cache(self, size: int) -> None:
        share, before = self.budget.share(CACHE), self.cached[CACHE]

        if share.try_evict(size):
            share.charge(size)
            self.cached[CACHE] += size
            assert self.cached[CACHE] <= self.limits[CACHE]
        else:
            assert size > self.limits[CACHE]
        if before + size <= self.limits[CACHE]:
            assert self.cached[CACHE] == before + size, "nothing had to go"

    @rule(name=names, part=st.floats(0, 1))
    def let_go(self, name: str, part: float) -> None:
        size = int(self.kept[name] * part)
        self.kept[name] -= size
        self.budget.share(name).release(size)

    @precondition(lambda self: any(self.kept.values()))
    @rule()
    def let_everything_go(self) -> None:
        for name in NAMES:
            self.budget.share(name).release(self.kept[name])
            self.kept[name] = 0

    @rule()
    def relieve(self) -> None:
        cache = self.cached[CACHE]

        self.budget.run_once()

        assert self.cached[CACHE] == cache, "a full cache is of most use"
        for name in WRITTEN:
            if self.kept[name] + self.cached[name] > int(self.limits[name] * 0.85):
                assert self.cached[name] == 0

    @invariant()
    def the_budget_is_never_passed(self) -> None:
        use = self.budget.use()

        assert sum(use[name].used for name in NAMES) <= TOTAL
        assert use["reserve"].used <= use["reserve"].limit

    @invariant()
    def what_is_borrowed_is_what_is_used_beyond_the_limits(self) -> None:
        use = self.budget.use()

        for name in NAMES:
            assert use[name].used == self.kept[name] + self.cached[name]
            assert use[name].borrowed == max(0, use[name].used - use[name].limit)
            assert use[name].refusals == self.refused[name]
        assert use["reserve"].used == sum(use[name].borrowed for name in NAMES)


TestWriters = Writers.TestCase


def test_many_threads_pass_the_budget_at_most_by_what_they_have_in_flight():
    budget = Budget(TOTAL)
    size, threads, rounds = 7, 4, 400
    highest = [0] * threads
    going = threading.Barrier(threads)

    def write(number: int) -> None:
        share = budget.share(NAMES[number % 2])
        held = 0
        going.wait(30.0)
        for _ in range(rounds):
            try:
                share.admit(size)
            except MemoryPressure:
                share.release(held)
                held = 0
                continue
            share.charge(size)
            held += size
            # Shares are read one after the other: only two looks that agree are one moment.
            first, second = ([budget.use()[name].used for name in NAMES] for _ in range(2))
            if first == second:
                highest[number] = max(highest[number], sum(first))
        share.release(held)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    lent = budget.use()["reserve"]
    kept_within = sum(budget.share(name).limit for name in NAMES[:2]) + lent.limit
    assert 0 < max(highest) <= kept_within + threads * size
    assert [use.used for use in budget.use().values()] == [0] * 8
