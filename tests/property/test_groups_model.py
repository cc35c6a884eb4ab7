"""Promise: whatever is done to a group, in any order, it delivers as a plain list of records would.

A model knows every record, who is done with it, who holds it and until when, and who is there. With
deletes and caps of the topic, time passing, members that come and go, seeks, restarts, kills, and
openings that take over from each other. At every step:

- a member gets the first records that its mode allows it, alive, not done, and in nobody's hands;
- an ack or nack is accepted exactly when the member still holds the record;
- lag is what is alive and not done, pending is what is held;
- a record becomes a dead letter exactly when it has failed too often.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.errors import Fenced, UnknownTopic
from strandline.views.groups.assignment import owner_of
from strandline.views.groups.dead_letters import origin_of
from strandline.views.groups.member import Delivery, Member
from tests.unit.views.groups.world import LEASE_S, GroupWorld, seqs

NAMES = ("ann", "bob", "cat")
KEYS = st.sampled_from((None, b"a", b"b", b"c"))
TAGS = st.sampled_from((None, "eu", "us"))
NOT_NOW = st.sampled_from((True, True, True, True, False))
"""What begins everything anew is done rarely, so that there is something to begin anew."""


class Held(NamedTuple):
    """A delivery as the model has it."""

    delivery: Delivery
    member: str
    until: float


class GroupMachine(RuleBasedStateMachine):
    """A group, and a list of all records with what has become of them."""

    @initialize(
        mode=st.sampled_from(("shared", "exclusive", "key_shared")),
        deliveries_max=st.sampled_from((0, 2, 3)),
    )
    def begin(self, mode, deliveries_max):
        self.world = GroupWorld()
        self.options = {"mode": mode, "deliveries_max": deliveries_max}
        self.mode, self.most = mode, deliveries_max
        self.group = self.world.group(**self.options)
        self.keys: dict[int, bytes | None] = {}
        self.done: set[int] = set()
        self.failures: dict[int, int] = {}
        self.stored_failures: dict[int, int] = {}
        self.due: dict[int, float] = {}
        self.held: dict[int, Held] = {}
        self.old: list[Delivery] = []
        self.members: dict[str, Member] = {}
        self.silent_at: dict[str, float] = {}
        """Members that are there, in the order of joining, and when they are given up."""
        self.dead: set[int] = set()
        self.letters = 0
        self.append([(key, "eu") for key in (b"a", b"a", None, b"b", b"a", b"c")])
        self._join_all()

    def _join_all(self) -> None:
        for name in NAMES[:2]:
            self.join(name)

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    def _alive(self) -> set[int]:
        return {record.seq for record in self.world.topic.read().records}

    def _stored(self) -> None:
        self.stored_failures = dict(self.failures)

    def _touch(self, name: str) -> None:
        self.silent_at[name] = self.now + LEASE_S

    def _pass_time(self) -> None:
        for seq, held in list(self.held.items()):
            if held.until <= self.now:
                self._take_back(seq)
                self.failures[seq] = self.failures.get(seq, 0) + 1
        self.silent_at = {name: at for name, at in self.silent_at.items() if at > self.now}

    def _take_back(self, seq: int, due: float = 0.0) -> Delivery:
        delivery = self.held.pop(seq).delivery
        self.due[seq] = due
        self.old.append(delivery)
        return delivery

    def _settle(self, seq: int) -> None:
        self.done.add(seq)
        self.failures.pop(seq, None)

    def _is_hopeless(self, seq: int) -> bool:
        return bool(self.most) and self.failures.get(seq, 0) >= self.most

    def _waiting_for(self, name: str) -> list[int]:
        """What this member may get, in order, gone and hopeless ones included."""
        due = self.due
        waiting = [seq for seq in sorted(self.keys) if seq not in self.done | self.held.keys()]
        if self.mode == "shared":
            return [seq for seq in waiting if due.get(seq, 0) <= self.now]
        if self.mode == "exclusive":
            if next(iter(self.silent_at), None) != name:
                return []
            held_up = next((seq for seq in waiting if due.get(seq, 0) > self.now), None)
            return waiting if held_up is None else waiting[: waiting.index(held_up)]
        busy = {self.keys[seq] for seq in self.held} - {None}
        found = []
        for seq in waiting:
            key = self.keys[seq]
            mine = key is None or (key not in busy and owner_of(key, list(self.silent_at)) == name)
            if mine and due.get(seq, 0) <= self.now:
                found.append(seq)
            if key is not None:
                busy.add(key)
        return found

    @rule(rows=st.lists(st.tuples(KEYS, TAGS), min_size=1, max_size=8))
    def append(self, rows):
        first = self.world.topic.head_seq + 1
        keys, tags = [row[0] for row in rows], [row[1] for row in rows]
        self.world.topic.append_many([b"x"] * len(rows), keys=keys, tags=tags)
        self.keys.update(enumerate(keys, start=first))

    @rule(tag=st.sampled_from(("eu", "us")))
    def delete(self, tag):
        self.world.topic.delete(match=tag)

    @rule(cap=st.sampled_from((0, 5, 20)))
    def cap(self, cap):
        self.world.topic.alter(cap_records=cap)

    @rule()
    def checkpoint(self):
        self.world.store.checkpoint()

    @rule(seconds=st.sampled_from((1.0, 10.0, LEASE_S)))
    def let_time_pass(self, seconds):
        self.world.clock.advance(seconds)

    @rule(name=st.sampled_from(NAMES))
    def join(self, name):
        self._pass_time()
        for seq in [seq for seq, held in self.held.items() if held.member == name]:
            self._take_back(seq)
        self.silent_at.pop(name, None)
        self._touch(name)

        self.members[name] = self.group.join(name)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data):
        name = data.draw(st.sampled_from(sorted(self.members)))
        for seq in [seq for seq, held in self.held.items() if held.member == name]:
            self._take_back(seq)
        self.silent_at.pop(name, None)

        self.members.pop(name).leave()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), count=st.integers(1, 6))
    def read(self, data, count):
        self._read(data.draw(st.sampled_from(sorted(self.members))), count)

    def _read(self, name: str, count: int) -> None:
        self._touch(name)
        self._pass_time()
        alive = self._alive()
        waiting = self._waiting_for(name)
        whole = all(seq in alive and not self._is_hopeless(seq) for seq in waiting)

        found = self.members[name].read(max=count)

        self._look_for_dead_letters()
        gone = [seq for seq in waiting if seq not in alive or seq in self.dead]
        expected = [seq for seq in waiting if seq not in gone and not self._is_hopeless(seq)]
        if self.mode == "key_shared":
            # What was gone or given up let the next of its key go, in the same read.
            free = [seq for seq in seqs(found) if seq not in expected]
            assert not free or not whole
            expected = sorted(expected + free)
        assert seqs(found) == expected[: len(found)]
        assert found or not expected
        assert len(found) == min(count, len(expected)) or not whole
        for delivery in found:
            self._deliver(delivery, name)

    def _deliver(self, delivery: Delivery, name: str) -> None:
        seq = delivery.seq
        assert seq not in self.held
        assert seq not in self.done
        assert delivery.key == self.keys[seq]
        assert delivery.deliveries == self.failures.get(seq, 0) + 1
        self.due.pop(seq, None)
        self.held[seq] = Held(delivery, name, self.now + LEASE_S)

    def _look_for_dead_letters(self) -> None:
        try:
            letters = self.world.dead().read(self.letters).records
        except UnknownTopic:
            return  # none was written so far
        for letter in letters:
            self.letters = letter.seq
            seq = origin_of(letter).seq
            assert self._is_hopeless(seq)
            self.dead.add(seq)
            self._settle(seq)
            self._stored()

    @precondition(lambda self: self.members)
    @rule(count=st.integers(1, 3), seconds=st.sampled_from((0.0, 0.0, 10.0, LEASE_S)))
    def all_read_after_a_while(self, count, seconds):
        self.world.clock.advance(seconds)
        for name in sorted(self.members):
            self._read(name, count)

    @precondition(lambda self: self.held)
    @rule(verbs=st.lists(st.sampled_from(("ack", "nack", "late")), min_size=1, max_size=4))
    def settle_some(self, verbs):
        for verb, seq in zip(verbs, sorted(self.held), strict=False):
            if verb == "ack":
                self._ack(self.held[seq].member, [seq])
            elif verb == "nack":
                self._nack(seq, 0.0)
        self._try_with_old_ones()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), count=st.integers(1, 4))
    def ack(self, data, count):
        name = data.draw(st.sampled_from(sorted({held.member for held in self.held.values()})))
        own = sorted(seq for seq, held in self.held.items() if held.member == name)
        self._ack(name, data.draw(st.permutations(own))[:count])

    def _ack(self, name: str, chosen: list[int]) -> None:
        self._touch(name)

        settled = self.members[name].ack_many([self.held[seq].delivery for seq in chosen])

        assert (settled.done, settled.skipped) == (len(chosen), ())
        for seq in chosen:
            self.old.append(self.held.pop(seq).delivery)
            self._settle(seq)
        self._stored()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.sampled_from((0.0, 5.0)))
    def nack(self, data, delay):
        self._nack(data.draw(st.sampled_from(sorted(self.held))), delay)

    def _nack(self, seq: int, delay: float) -> None:
        held = self.held[seq]
        self._touch(held.member)

        assert held.delivery.nack(delay)

        self._take_back(seq, self.now + delay)
        self.failures[seq] = self.failures.get(seq, 0) + 1
        if self._is_hopeless(seq) and seq in self._alive():
            self._look_for_dead_letters()
            assert seq in self.dead
        elif self._is_hopeless(seq):
            self._settle(seq)
        self._stored()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def extend(self, data):
        seq = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[seq]
        self._touch(held.member)

        assert held.delivery.extend()

        self.held[seq] = held._replace(until=self.now + LEASE_S)

    def _try_with_old_ones(self) -> None:
        """Whoever comes with what is no longer its own changes nothing."""
        for place, delivery in enumerate(self.old[-6:]):
            member = delivery.member
            if self.members.get(member.name) is member:
                self._touch(member.name)

                assert not (delivery.ack, delivery.nack, delivery.extend)[place % 3]()

    @rule(data=st.data(), not_now=NOT_NOW)
    def seek(self, data, not_now):
        if not_now:
            return
        to = data.draw(st.integers(1, self.world.topic.head_seq + 1))

        self.group.seek(to)

        for seq in list(self.held):
            self._take_back(seq)
        self.done = {seq for seq in self.keys if seq < to}
        self.dead.clear()
        self.failures.clear()
        self.due.clear()
        self._stored()

    def _forget_leases(self) -> None:
        self.old.clear()
        self.held.clear()
        self.due.clear()
        self.members.clear()
        self.silent_at.clear()
        self.failures = dict(self.stored_failures)

    @rule(cleanly=st.booleans(), joined=st.booleans(), not_now=NOT_NOW)
    def restart(self, cleanly, joined, not_now):
        if not_now:
            return
        self.world.restart(cleanly=cleanly)
        self._forget_leases()
        self.group = self.world.group(**self.options)
        if joined:
            self._join_all()

    @precondition(lambda self: self.members)
    @rule(name=st.sampled_from(NAMES), not_now=NOT_NOW)
    def take_over(self, name, not_now):
        if not_now:
            return
        before = next(iter(self.held.values()), None)
        member = next(iter(self.members.values()))
        self._forget_leases()
        self.group = self.world.another(**self.options)

        self.join(name)

        if before is not None:
            with pytest.raises(Fenced):
                before.delivery.ack()
            with pytest.raises(Fenced):
                member.read()

    @rule()
    def pending(self):
        self._pass_time()

        found = [(each.seq, each.member) for each in self.group.pending()]

        assert found == [(seq, self.held[seq].member) for seq in sorted(self.held)]
        assert set(self.group.statistics().members) == set(self.silent_at)

    @invariant()
    def lag_is_what_is_alive_and_not_done(self):
        if hasattr(self, "group"):
            assert self.group.lag() == len(self._alive() - self.done)


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
