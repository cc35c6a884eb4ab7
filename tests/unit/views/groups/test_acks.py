"""Promise: what is acked is done, what is not comes round again, and an ack is accepted once.

Leases, nacks, extensions, members that go, and dead letters.
"""

from __future__ import annotations

import pytest

from strandline.errors import Closed, Fenced, Invalid, TopicFull
from strandline.log.topic.topic import Topic
from strandline.views.groups.dead_letters import META_BYTES_MAX, origin_of
from tests.unit.views.groups.world import LEASE_S, TOPIC, GroupWorld, seqs


def test_an_ack_is_accepted_once():
    world = GroupWorld()
    world.append()
    (delivery,) = world.group().join("ann").read()

    assert delivery.ack()
    assert not delivery.ack()
    assert not delivery.nack()
    assert not delivery.extend()


def test_what_is_not_acked_comes_round_when_its_lease_is_over():
    world = GroupWorld()
    world.append(2)
    group = world.group()
    group.join("ann").read(max=2)
    bob = group.join("bob")

    world.clock.advance(LEASE_S - 0.001)
    early = bob.read(max=9)
    world.clock.advance(0.001)
    found = bob.read(max=9)

    assert early == []
    assert seqs(found) == [1, 2]
    assert [delivery.deliveries for delivery in found] == [2, 2]


def test_a_late_ack_counts_while_nobody_else_has_asked():
    world = GroupWorld()
    world.append()
    group = world.group()
    (delivery,) = group.join("ann").read()

    world.clock.advance(2 * LEASE_S)

    assert delivery.ack()
    assert group.join("bob").read() == []


def test_a_late_ack_is_refused_when_another_has_the_record():
    world = GroupWorld()
    world.append()
    group = world.group()
    (late,) = group.join("ann").read()
    world.clock.advance(LEASE_S)
    (again,) = group.join("bob").read()

    assert not late.ack()
    assert not late.nack()
    assert not late.extend()
    assert again.ack()


def test_a_batch_is_acked_with_one_write():
    world = GroupWorld()
    world.append(100)
    member = world.group().join("ann")
    deliveries = member.read(max=100)
    offsets = world.store.topic(TOPIC + ":groups")
    before = offsets.head_seq

    settled = member.ack_many(deliveries)

    assert (settled.done, settled.skipped) == (100, ())
    assert offsets.head_seq == before + 1
    assert world.stored().floor == 100


def test_a_batch_is_acked_without_those_that_are_no_longer_the_members():
    world = GroupWorld()
    world.append(3)
    group = world.group()
    ann, bob = group.join("ann"), group.join("bob")
    first = ann.read(max=1)
    world.clock.advance(LEASE_S / 2)
    rest = ann.read(max=2)
    world.clock.advance(LEASE_S / 2)
    stolen = bob.read(max=1)

    settled = ann.ack_many([*first, *rest])

    assert (settled.done, settled.skipped) == (2, (1,))
    assert seqs(stolen) == [1]
    assert stolen[0].ack()


def test_nothing_to_ack_writes_nothing():
    world = GroupWorld()
    member = world.group().join("ann")
    before = world.store.topic(TOPIC + ":groups").head_seq

    settled = member.ack_many([])

    assert settled.done == 0
    assert world.store.topic(TOPIC + ":groups").head_seq == before


def test_a_nacked_record_comes_again_after_its_delay():
    world = GroupWorld()
    world.append(2)
    member = world.group().join("ann")
    first, second = member.read(max=2)

    first.nack(delay_s=10)
    second.nack()
    soon = member.read(max=9)
    world.clock.advance(10)

    assert seqs(soon) == [2]
    assert seqs(member.read(max=9)) == [1]


@pytest.mark.parametrize("lease_s", [LEASE_S, 3 * LEASE_S, LEASE_S / 2])
def test_an_extended_delivery_is_kept_for_a_whole_lease_from_then(lease_s):
    world = GroupWorld()
    world.append()
    group = world.group(lease_s=lease_s)
    (delivery,) = group.join("ann").read()
    bob = group.join("bob")
    world.clock.advance(lease_s - 1)

    extended = delivery.extend()
    world.clock.advance(lease_s - 1)
    kept = bob.read()
    world.clock.advance(1)

    assert extended
    assert kept == []
    assert seqs(bob.read()) == [1]


def test_setting_the_wall_clock_ends_no_lease():
    world = GroupWorld()
    world.append()
    group = world.group()
    group.join("ann").read()
    bob = group.join("bob")

    for seconds in (3600.0, -7200.0):
        world.clock.jump_wall(seconds)

        assert bob.read() == []


def test_a_member_that_leaves_gives_back_at_once_and_without_blame():
    world = GroupWorld()
    world.append(2)
    group = world.group()
    with group.join("ann") as ann:
        ann.read(max=2)

    found = group.join("bob").read(max=2)

    assert [(each.seq, each.deliveries) for each in found] == [(1, 1), (2, 1)]


def test_a_member_that_has_left_is_refused():
    world = GroupWorld()
    world.append()
    member = world.group().join("ann")
    (delivery,) = member.read()

    member.leave()
    member.leave()

    with pytest.raises(Closed, match="join again"):
        member.read()
    with pytest.raises(Closed, match="join again"):
        delivery.ack()


def test_a_member_of_the_same_name_takes_over_and_the_earlier_is_told():
    world = GroupWorld()
    world.append(2)
    group = world.group()
    earlier = group.join("ann")
    (held,) = earlier.read()

    later = group.join("ann")

    assert seqs(later.read(max=9)) == [1, 2]
    with pytest.raises(Fenced, match="joined as 'ann'"):
        earlier.read()
    with pytest.raises(Fenced, match="joined as 'ann'"):
        held.ack()
    earlier.leave()
    assert group.statistics().members == ("ann",)


def test_a_silent_member_is_given_up_and_is_there_again_when_it_speaks():
    world = GroupWorld()
    group = world.group()
    ann = group.join("ann")

    world.clock.advance(LEASE_S)
    silent = group.statistics().members
    ann.read()

    assert silent == ()
    assert group.statistics().members == ("ann",)


@pytest.mark.parametrize("end", ["nack", "expire"])
def test_a_record_that_fails_too_often_becomes_a_dead_letter(end):
    world = GroupWorld()
    world.topic.append(b"bad", key=b"k", tag="eu", node="n", meta=b"m")
    group = world.group(deliveries_max=3)
    member = group.join("ann")

    numbers = []
    while found := member.read():
        numbers.append(found[0].deliveries)
        if end == "nack":
            found[0].nack()
        else:
            world.clock.advance(LEASE_S)

    (letter,) = world.dead().read().records
    origin = origin_of(letter)
    assert numbers == [1, 2, 3]
    assert (letter.data, letter.key, letter.tag, letter.node) == (b"bad", b"k", "eu", "n")
    assert (origin.topic, origin.group, origin.seq, origin.meta) == (TOPIC, "billing", 1, b"m")
    assert (group.lag(), world.stored().floor, group.statistics().dead) == (0, 1, 1)


def test_a_record_that_is_delivered_again_after_a_seek_can_die_again():
    world = GroupWorld()
    world.append()
    group = world.group(deliveries_max=1)
    member = group.join("ann")
    member.read()[0].nack()
    world.dead().delete(before=2)

    group.seek("earliest")
    member.read()[0].nack()

    assert [origin_of(letter).seq for letter in world.dead().read().records] == [1]


def test_a_dead_letter_does_not_hold_up_its_key():
    world = GroupWorld()
    world.append(keys=[b"k", b"k"])
    member = world.group(mode="key_shared", deliveries_max=1).join("ann")
    (first,) = member.read(max=9)

    first.nack()

    assert seqs(member.read(max=9)) == [2]


def test_without_a_limit_a_record_is_delivered_for_ever():
    world = GroupWorld()
    world.append()
    member = world.group(deliveries_max=0).join("ann")

    for number in range(1, 20):
        (delivery,) = member.read()
        assert delivery.deliveries == number
        delivery.nack()


def test_a_very_large_meta_is_left_out_of_the_dead_letter():
    world = GroupWorld()
    world.topic.append(b"bad", meta=b"m" * (META_BYTES_MAX + 1))
    member = world.group(deliveries_max=1).join("ann")

    member.read()[0].nack()

    (letter,) = world.dead().read().records
    assert origin_of(letter).meta is None


def full_dead_letters(world: GroupWorld) -> Topic:
    """A topic of dead letters that takes no more."""
    topic = world.store.topic(f"{TOPIC}:billing:dead", cap_records=1, discard="reject")
    topic.append(b"the last that fits")
    return topic


def test_a_dead_letter_that_cannot_be_written_stays_with_its_member():
    world = GroupWorld()
    world.append()
    letters = full_dead_letters(world)
    group = world.group(deliveries_max=1)
    (delivery,) = group.join("ann").read()

    with pytest.raises(TopicFull):
        delivery.nack()
    held = seqs_held(group)
    letters.alter(cap_records=0)

    assert held == [1]
    assert delivery.nack()
    assert letters.head_seq == 2


def test_a_reader_that_cannot_write_a_dead_letter_holds_nothing_back():
    world = GroupWorld()
    world.append(2)
    letters = full_dead_letters(world)
    group = world.group(deliveries_max=1)
    member = group.join("ann")
    member.read(max=1)
    world.clock.advance(LEASE_S)

    with pytest.raises(TopicFull):
        member.read(max=2)
    held = seqs_held(group)
    letters.alter(cap_records=0)

    assert held == []
    assert seqs(member.read(max=2)) == [2]
    assert letters.head_seq == 2


@pytest.mark.parametrize("wrong", [0, -1, 10_001, 1.5, "3", True])
def test_how_many_to_read_is_checked(wrong):
    member = GroupWorld().group().join("ann")

    with pytest.raises(Invalid, match="max"):
        member.read(max=wrong)


@pytest.mark.parametrize("wrong", ["", None, 3])
def test_a_member_has_a_name(wrong):
    with pytest.raises(Invalid, match="name of a member"):
        GroupWorld().group().join(wrong)


def seqs_held(group) -> list[int]:
    return [pending.seq for pending in group.pending()]


def test_pending_tells_who_holds_what_and_for_how_long():
    world = GroupWorld()
    world.append(2)
    group = world.group()
    group.join("ann").read()
    world.clock.advance(10)
    group.join("bob").read()

    found = [(each.seq, each.member, each.held_s, each.left_s) for each in group.pending()]

    assert found == [(1, "ann", 10.0, 20.0), (2, "bob", 0.0, 30.0)]


def test_statistics_count_what_has_happened():
    world = GroupWorld()
    world.append(4)
    group = world.group()
    ann = group.join("ann")
    first, second, _ = ann.read(max=3)
    first.ack()
    second.nack()
    world.clock.advance(LEASE_S)
    ann.read(max=9)

    found = group.statistics()

    assert (found.topic, found.name, found.mode, found.members) == (
        TOPIC,
        "billing",
        "shared",
        ("ann",),
    )
    assert (found.floor, found.lag, found.pending) == (1, 3, 3)
    assert (found.delivered, found.redelivered, found.acked) == (6, 2, 1)
    assert (found.nacked, found.expired, found.dead) == (1, 1, 0)
