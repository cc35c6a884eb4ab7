"""Promise: after a restart nothing that was acked is delivered again, and everything else is.

Clean restarts and kills; a second opening that takes over; writes of which nobody knows whether
they happened; topics that were made anew.
"""

from __future__ import annotations

from random import Random

import pytest

from strandline.errors import Closed, Fenced, Unavailable
from strandline.testing.crash_choices import Newest, Oldest
from strandline.views.groups.offsets import Offsets, OffsetsEntry, encode
from tests.unit.views.groups.world import GROUP, LEASE_S, TOPIC, GroupWorld, failing_once, seqs


@pytest.mark.parametrize("cleanly", [True, False])
def test_the_ack_floor_survives_a_restart(cleanly):
    world = GroupWorld()
    world.append(5)
    member = world.group().join("ann")
    member.ack_many(member.read(max=5)[:3])

    world.restart(cleanly=cleanly)

    assert seqs(world.group().join("ann").read(max=9)) == [4, 5]


@pytest.mark.parametrize("choices", [Oldest(), Newest(), Random(1), Random(2), Random(3)])
def test_no_ack_of_a_synced_topic_is_lost_with_the_power(choices):
    world = GroupWorld()
    world.store.create_topic(TOPIC, durability="fsync")
    world.append(6)
    first, second, third, *_ = world.group().join("ann").read(max=4)
    third.ack()
    first.ack()
    second.nack()

    world.lose_power(choices)

    found = world.group().join("ann").read(max=9)
    assert [(each.seq, each.deliveries) for each in found] == [(2, 2), (4, 1), (5, 1), (6, 1)]


@pytest.mark.parametrize("choices", [Oldest(), Newest(), Random(1), Random(2), Random(3)])
def test_with_the_power_acks_that_were_not_synced_go_and_no_record_does(choices):
    world = GroupWorld()
    world.append(6)
    member = world.group().join("ann")
    world.store.sync()
    acked = [delivery.seq for delivery in member.read(max=3) if delivery.ack()]

    world.lose_power(choices)

    found = seqs(world.group().join("ann").read(max=9))
    assert acked == [1, 2, 3]
    assert found == list(range(found[0], 7))
    assert found[0] <= 4


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("mode", ["shared", "exclusive", "key_shared"])
def test_acks_above_the_floor_survive_a_restart(cleanly, mode):
    world = GroupWorld()
    world.append(keys=[b"a", b"b", b"c", b"d", b"e"])
    deliveries = world.group(mode=mode).join("ann").read(max=9)
    for delivery in deliveries:
        if delivery.seq in (2, 4):
            delivery.ack()

    world.restart(cleanly=cleanly)

    assert seqs(world.group(mode=mode).join("ann").read(max=9)) == [1, 3, 5]


def test_many_acks_above_the_floor_are_passed_over_at_once():
    world = GroupWorld()
    world.append(5000)
    member = world.group().join("ann")
    deliveries = member.read(max=5000)
    member.ack_many(deliveries[1:])

    world.restart()

    group = world.group()
    assert seqs(group.join("ann").read(max=9)) == [1]
    assert group.lag() == 1


def test_failures_are_counted_across_restarts():
    world = GroupWorld()
    world.append()
    for number in (1, 2):
        (delivery,) = world.group(deliveries_max=3).join("ann").read()
        assert delivery.deliveries == number
        delivery.nack(delay_s=100)
        world.restart()

    (last,) = world.group(deliveries_max=3).join("ann").read()
    last.nack()

    assert last.deliveries == 3
    assert world.dead().head_seq == 1


def test_leases_do_not_survive_a_restart():
    world = GroupWorld()
    world.append()
    world.group().join("ann").read()

    world.restart(cleanly=False)

    assert seqs(world.group().join("bob").read()) == [1]


def test_a_second_opening_takes_over_and_the_first_is_told():
    world = GroupWorld()
    world.append(4)
    first = world.group()
    ann = first.join("ann")
    held = ann.read(max=2)
    held[0].ack()

    bob = world.another().join("bob")
    taken = bob.read(max=9)

    with pytest.raises(Fenced, match="taken over"):
        held[1].ack()
    assert seqs(taken) == [2, 3, 4]
    assert bob.ack_many(taken).done == 3
    assert world.stored().floor == 4
    assert first.is_finished
    with pytest.raises(Fenced):
        ann.read()
    with pytest.raises(Fenced):
        first.join("cat")


def test_two_openings_never_overwrite_each_others_acks():
    """Both go on as if they were alone: the acks that were answered are the ones that count."""
    world = GroupWorld()
    world.append(20)
    members = [world.another().join("ann"), world.another().join("ann")]
    acked = set()

    for turn in range(20):
        place = turn // 2 % 2
        try:
            (delivery,) = members[place].read(max=1)
            assert delivery.ack()
            acked.add(delivery.seq)
        except Fenced:
            members[place] = world.another().join("ann")

    stored = world.stored()
    assert len(acked) == 10
    assert {seq for seq in range(1, 21) if seq in stored} == acked


def test_looking_at_a_group_does_not_take_it_over():
    world = GroupWorld()
    world.append(3)
    member = world.group().join("ann")
    first, *_ = member.read(max=2)
    first.ack()

    other = world.another()
    lag, statistics = other.lag(), other.statistics()

    assert (lag, statistics.floor, statistics.members, other.pending()) == (2, 1, (), [])
    assert len(member.read(max=9)) == 1


def test_a_group_that_was_never_joined_is_behind_by_everything():
    world = GroupWorld()
    world.append(3)

    assert world.group().lag() == 3
    assert world.group("late", start="latest").lag() == 0


@pytest.mark.parametrize("happened", [True, False])
def test_an_ack_that_fails_can_be_tried_again(monkeypatch, happened):
    world = GroupWorld()
    world.append(2)
    group = world.group()
    first, second = group.join("ann").read(max=2)
    kv = world.store.kv(TOPIC + ":groups")
    monkeypatch.setattr(kv, "put", failing_once(kv, after=happened))

    with pytest.raises(Unavailable):
        first.ack()
    pending = [each.seq for each in group.pending()]

    assert pending == [1, 2]
    assert first.ack()
    assert second.ack()
    assert world.stored().floor == 2


@pytest.mark.parametrize("happened", [True, False])
def test_an_ack_that_failed_is_not_lost_by_the_next_write(monkeypatch, happened):
    world = GroupWorld()
    world.append(3)
    first, second, _ = world.group().join("ann").read(max=3)
    kv = world.store.kv(TOPIC + ":groups")
    monkeypatch.setattr(kv, "put", failing_once(kv, after=happened))

    with pytest.raises(Unavailable):
        first.ack()
    second.ack()

    assert (1 in world.stored(), 2 in world.stored()) == (happened, True)


@pytest.mark.parametrize("happened", [True, False])
def test_a_failed_nack_leaves_the_record_with_its_member(monkeypatch, happened):
    world = GroupWorld()
    world.append()
    group = world.group()
    (delivery,) = group.join("ann").read()
    kv = world.store.kv(TOPIC + ":groups")
    monkeypatch.setattr(kv, "put", failing_once(kv, after=happened))

    with pytest.raises(Unavailable):
        delivery.nack()

    assert [each.seq for each in group.pending()] == [1]
    assert delivery.ack()


@pytest.mark.parametrize("happened", [True, False])
def test_a_crash_between_a_dead_letter_and_the_offsets_writes_no_second_one(monkeypatch, happened):
    world = GroupWorld()
    world.append()
    (delivery,) = world.group(deliveries_max=1).join("ann").read()
    kv = world.store.kv(TOPIC + ":groups")
    monkeypatch.setattr(kv, "put", failing_once(kv, after=happened))
    with pytest.raises(Unavailable):
        delivery.nack()
    world.restart(cleanly=False)

    again = world.group(deliveries_max=1).join("ann").read()
    for delivery in again:
        delivery.nack()

    assert len(again) == (0 if happened else 1)
    assert world.dead().head_seq == 1


def test_a_topic_made_anew_is_read_from_its_beginning():
    world = GroupWorld()
    world.append(5)
    member = world.group().join("ann")
    member.ack_many(member.read(max=5))
    world.store.delete_topic(TOPIC)
    world.append(2)

    found = world.group().join("ann").read(max=9)

    assert seqs(found) == [1, 2]
    assert world.group().lag() == 2


def test_offsets_beyond_the_head_are_forgotten():
    """As after a restore that took the topic further back than the group."""
    world = GroupWorld()
    world.append(3)
    member = world.group().join("ann")
    member.ack_many(member.read(max=3))
    stored = world.stored()
    stored.mark_range_done(4, 9)
    store_as_is(world, stored)

    group = world.another()
    found = group.join("bob")
    world.append(2)

    assert seqs(found.read(max=9)) == [4, 5]


def store_as_is(world: GroupWorld, offsets: Offsets) -> None:
    entry = OffsetsEntry(7, world.topic.identity[0], offsets)
    world.store.kv(TOPIC + ":groups").put("cg:" + GROUP, encode(entry))


def test_a_closed_group_is_refused_and_a_new_one_goes_on():
    world = GroupWorld()
    world.append(2)
    group = world.group()
    member = group.join("ann")
    (delivery,) = member.read()

    group.close()

    with pytest.raises(Closed):
        member.read()
    with pytest.raises(Closed):
        delivery.ack()
    assert seqs(world.group().join("ann").read(max=9)) == [1, 2]


def test_a_deleted_group_begins_anew_and_its_members_are_told():
    world = GroupWorld()
    world.append(2)
    member = world.group().join("ann")
    (delivery,) = member.read()
    delivery.ack()

    there, again = world.groups.delete(TOPIC, GROUP), world.groups.delete(TOPIC, GROUP)

    assert (there, again) == (True, False)
    with pytest.raises(Closed):
        member.read()
    assert seqs(world.group().join("ann").read(max=9)) == [1, 2]


def test_a_group_that_another_process_deleted_is_not_brought_back_by_an_ack():
    world = GroupWorld()
    world.append(2)
    (delivery,) = world.group().join("ann").read()
    world.store.kv(TOPIC + ":groups").delete("cg:" + GROUP)

    with pytest.raises(Fenced, match="deleted"):
        delivery.ack()

    assert world.groups.names(TOPIC) == []


def test_what_happens_while_an_ack_is_written_is_not_forgotten(monkeypatch):
    world = GroupWorld()
    world.append(2)
    group = world.group()
    first, _ = group.join("ann").read(max=2)
    kv = world.store.kv(TOPIC + ":groups")
    put = kv.put

    def slow(*arguments: object, **options: object) -> int:
        world.clock.advance(LEASE_S)
        group.pending()
        return put(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(kv, "put", slow)
        first.ack()

    (again,) = group.join("ann").read(max=9)
    assert (again.seq, again.deliveries) == (2, 2)
