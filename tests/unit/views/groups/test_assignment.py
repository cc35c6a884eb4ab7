"""Promise: every mode gives records out by its rule, whatever came back, waits or is in flight.

The backlogs against a model that looks through a plain list each time; the shares of keys by
counting.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.views.groups.assignment import (
    ExclusiveBacklog,
    KeySharedBacklog,
    SharedBacklog,
    WaitingRecord,
    backlog_for,
    owner_of,
)

MODES = ("shared", "exclusive", "key_shared")
KEYS = (None, b"a", b"b", b"c", b"d")
MEMBERS = ("ann", "bob", "cat")


class BacklogMachine(RuleBasedStateMachine):
    """A backlog beside a list of all that is not done."""

    @initialize(mode=st.sampled_from(MODES))
    def begin(self, mode):
        self.mode = mode
        self.backlog = backlog_for(mode)
        self.members: tuple[str, ...] = ()
        self.now = 0.0
        self.head = 0
        self.waiting: dict[int, float] = {}
        """Seq, and when it may be taken."""
        self.keys: dict[int, bytes | None] = {}
        self.taken: dict[int, WaitingRecord] = {}

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=6))
    def offer(self, keys):
        for key in keys:
            self.head += 1
            self.backlog.offer(self.head, key)
            self.keys[self.head] = key
            self.waiting[self.head] = 0.0

    @rule(members=st.permutations(MEMBERS), count=st.integers(0, 3))
    def change_members(self, members, count):
        self.members = tuple(members[:count])
        self.backlog.change_members(self.members)

    @rule(seconds=st.sampled_from((0.5, 1.0, 5.0)))
    def let_time_pass(self, seconds):
        self.now += seconds

    @rule(member=st.sampled_from(MEMBERS), count=st.integers(1, 5))
    def take(self, member, count):
        expected = self._due_to(member)[:count]

        found = self.backlog.take(member, count, self.now)

        assert [taken.seq for taken in found] == expected
        for taken in found:
            del self.waiting[taken.seq]
            self.taken[taken.seq] = taken

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def settle(self, data):
        seq = data.draw(st.sampled_from(sorted(self.taken)))

        self.backlog.finish(self.taken.pop(seq))

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), delay=st.sampled_from((0.0, 1.0, 3.0)))
    def give_back(self, data, delay):
        seq = data.draw(st.sampled_from(sorted(self.taken)))

        self.backlog.give_back(self.taken.pop(seq), self.now + delay)

        self.waiting[seq] = self.now + delay

    @invariant()
    def everything_that_waits_is_counted(self):
        if hasattr(self, "backlog"):
            assert len(self.backlog) == len(self.waiting)

    @invariant()
    def nobody_waits_longer_than_until_the_next_is_due(self):
        """Whoever sleeps until then misses nothing."""
        if not hasattr(self, "backlog") or not self.members:
            return
        later = [due for due in self.waiting.values() if due > self.now]
        for due in sorted(set(later)):
            before, self.now = self.now, due
            more = any(self._due_to(member) for member in self.members)
            self.now = before
            if more and not any(self._due_to(member) for member in self.members):
                assert self.backlog.next_due() <= due

    def _due_to(self, member: str) -> list[int]:
        """Everything that this member could take now, in order."""
        now, waiting = self.now, self.waiting
        if self.mode == "shared":
            return sorted(seq for seq, due in waiting.items() if due <= now)
        if self.mode == "exclusive":
            if self.members[:1] != (member,):
                return []
            held_up = min((seq for seq, due in waiting.items() if due > now), default=self.head + 1)
            return sorted(seq for seq in waiting if seq < held_up)
        busy = {self.keys[seq] for seq in self.taken}
        due = []
        for seq in sorted(waiting):
            key = self.keys[seq]
            mine = key is None or (
                key not in busy and self.members and owner_of(key, self.members) == member
            )
            if mine and waiting[seq] <= now:
                due.append(seq)
            if key is not None:
                busy.add(key)
        return due


TestBacklog = BacklogMachine.TestCase
TestBacklog.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)


def offered(
    backlog: SharedBacklog | ExclusiveBacklog | KeySharedBacklog,
    *keys: bytes | None,
    members=("ann",),
):
    backlog.change_members(members)
    for seq, key in enumerate(keys, start=1):
        backlog.offer(seq, key)
    return backlog


def test_a_shared_record_goes_to_whoever_asks_first():
    backlog = offered(SharedBacklog(), None, None, None)

    assert [taken.seq for taken in backlog.take("bob", 2, 0.0)] == [1, 2]
    assert [taken.seq for taken in backlog.take("ann", 2, 0.0)] == [3]


def test_a_shared_record_that_came_back_goes_before_newer_ones():
    backlog = offered(SharedBacklog(), None, None, None)
    (taken,) = backlog.take("ann", 1, 0.0)

    backlog.give_back(taken, 0.0)

    assert [taken.seq for taken in backlog.take("ann", 3, 0.0)] == [1, 2, 3]


def test_an_exclusive_record_goes_only_to_the_member_that_joined_first():
    backlog = offered(ExclusiveBacklog(), None, None, members=("ann", "bob"))

    assert backlog.take("bob", 9, 0.0) == []
    assert len(backlog.take("ann", 9, 0.0)) == 2


def test_an_exclusive_record_that_waits_holds_up_those_behind_it():
    backlog = offered(ExclusiveBacklog(), None, None)
    (first,) = backlog.take("ann", 1, 0.0)

    backlog.give_back(first, 5.0)

    assert backlog.take("ann", 9, 4.9) == []
    assert [taken.seq for taken in backlog.take("ann", 9, 5.0)] == [1, 2]


def test_a_key_is_not_in_flight_twice():
    backlog = offered(KeySharedBacklog(), b"k", b"k")
    (first,) = backlog.take("ann", 9, 0.0)

    assert backlog.take("ann", 9, 0.0) == []
    backlog.finish(first)
    assert [taken.seq for taken in backlog.take("ann", 9, 0.0)] == [2]


def test_a_record_that_comes_while_the_last_of_its_key_is_in_flight_waits():
    backlog = offered(KeySharedBacklog(), b"k")
    (first,) = backlog.take("ann", 9, 0.0)

    backlog.offer(2, b"k")

    assert backlog.take("ann", 9, 0.0) == []
    backlog.finish(first)
    assert [taken.seq for taken in backlog.take("ann", 9, 0.0)] == [2]


def test_a_key_in_flight_stays_with_its_member_when_another_becomes_its_owner():
    backlog = offered(KeySharedBacklog(), b"k", b"k", members=("ann",))
    (first,) = backlog.take("ann", 1, 0.0)

    backlog.change_members(["bob"])

    assert backlog.take("bob", 9, 0.0) == []
    backlog.finish(first)
    assert [taken.seq for taken in backlog.take("bob", 9, 0.0)] == [2]


def test_a_key_whose_delay_is_over_moves_with_its_owner():
    backlog = offered(KeySharedBacklog(), b"k", members=("ann",))
    (first,) = backlog.take("ann", 1, 0.0)
    backlog.give_back(first, 5.0)
    nothing = backlog.take("bob", 9, 6.0)

    backlog.change_members(["bob"])

    assert nothing == []
    assert [taken.seq for taken in backlog.take("bob", 9, 6.0)] == [1]


def test_keys_are_shared_out_about_evenly():
    keys = [f"key-{number}".encode() for number in range(9000)]

    shares = Counter(owner_of(key, MEMBERS) for key in keys)

    assert all(2700 < shares[member] < 3300 for member in MEMBERS)


def test_only_the_keys_of_a_member_that_goes_change_hands():
    keys = [f"key-{number}".encode() for number in range(1000)]

    before = {key: owner_of(key, MEMBERS) for key in keys}
    after = {key: owner_of(key, MEMBERS[:2]) for key in keys}

    assert {before[key] for key in keys if before[key] != after[key]} == {"cat"}


@pytest.mark.parametrize("members", [MEMBERS, MEMBERS[::-1]])
def test_the_owner_of_a_key_is_the_same_in_every_process(members):
    """Found once and written down: a change would move keys while old and new processes run."""
    owners = [owner_of(key, members) for key in (b"a", b"b", b"c", b"d", b"", b"long" * 99)]

    assert owners == ["bob", "ann", "cat", "cat", "cat", "ann"]
