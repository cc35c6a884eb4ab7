"""Promise: every mode delivers by its rule, and no record to two members at a time."""

from __future__ import annotations

from tests.unit.views.groups.world import LEASE_S, GroupWorld, seqs


def test_a_delivery_is_the_record():
    world = GroupWorld()
    world.topic.append(b"tea", key=b"k", tag="eu", meta=b"m")
    member = world.group().join("ann")

    (delivery,) = member.read()

    record = delivery.record
    assert (delivery.seq, delivery.data, delivery.key) == (1, b"tea", b"k")
    assert (record.tag, record.meta, delivery.deliveries) == ("eu", b"m", 1)


def test_shared_records_go_to_one_member_each():
    world = GroupWorld()
    world.append(5)
    group = world.group()
    ann, bob = group.join("ann"), group.join("bob")

    found = [seqs(ann.read(max=2)), seqs(bob.read(max=2)), seqs(ann.read(max=9))]

    assert found == [[1, 2], [3, 4], [5]]


def test_shared_records_may_be_acked_in_any_order():
    world = GroupWorld()
    world.append(4)
    member = world.group().join("ann")
    deliveries = member.read(max=4)

    for place in (2, 0, 3):
        assert deliveries[place].ack()

    assert world.stored().floor == 1
    assert list(world.stored().done) == [3, 4]
    assert seqs(member.read(max=9)) == []


def test_an_exclusive_topic_goes_to_the_first_member_only():
    world = GroupWorld()
    world.append(3)
    group = world.group(mode="exclusive")
    ann, bob = group.join("ann"), group.join("bob")

    assert seqs(bob.read(max=9)) == []
    assert seqs(ann.read(max=9)) == [1, 2, 3]


def test_an_exclusive_topic_goes_to_the_next_member_when_the_first_leaves():
    world = GroupWorld()
    world.append(3)
    group = world.group(mode="exclusive")
    ann, bob = group.join("ann"), group.join("bob")
    first, *_ = ann.read(max=3)
    first.ack()

    ann.leave()

    assert seqs(bob.read(max=9)) == [2, 3]


def test_an_exclusive_topic_goes_to_the_next_member_when_the_first_is_silent():
    world = GroupWorld()
    world.append(3)
    group = world.group(mode="exclusive")
    ann, bob = group.join("ann"), group.join("bob")
    ann.read(max=2)
    world.clock.advance(LEASE_S - 1)
    early = bob.read(max=9)

    world.clock.advance(1)

    assert early == []
    assert seqs(bob.read(max=9)) == [1, 2, 3]


def test_an_exclusive_record_that_was_nacked_comes_before_those_behind_it():
    world = GroupWorld()
    world.append(3)
    member = world.group(mode="exclusive").join("ann")
    first, second = member.read(max=2)

    first.nack(delay_s=5)
    second.nack()
    early = member.read(max=9)
    world.clock.advance(5)

    assert early == []
    assert seqs(member.read(max=9)) == [1, 2, 3]


def test_a_key_goes_to_one_member_and_is_in_flight_once():
    world = GroupWorld()
    world.append(keys=[b"a", b"b", b"a", b"b", None, b"a"])
    group = world.group(mode="key_shared")
    members = [group.join("ann"), group.join("bob")]

    rounds = []
    while found := [each for member in members for each in member.read(max=9)]:
        rounds.append(sorted(seqs(found)))
        for delivery in found:
            delivery.ack()

    assert rounds == [[1, 2, 5], [3, 4], [6]]


def test_a_key_that_was_nacked_waits_and_the_others_go_on():
    world = GroupWorld()
    world.append(keys=[b"a", b"a", b"b"])
    member = world.group(mode="key_shared").join("ann")
    first, other = member.read(max=9)
    other.ack()

    first.nack(delay_s=10)
    world.append(keys=[b"b", b"a"])
    meanwhile = member.read(max=9)
    world.clock.advance(10)

    assert seqs(meanwhile) == [4]
    assert seqs(member.read(max=9)) == [1]


def test_keys_move_to_the_members_that_are_there():
    world = GroupWorld()
    keys = [b"k%d" % number for number in range(50)]
    world.append(keys=keys)
    group = world.group(mode="key_shared")
    ann, bob = group.join("ann"), group.join("bob")
    taken = ann.read(max=99)

    ann.leave()

    assert 10 < len(taken) < 40
    assert sorted(seqs(bob.read(max=99))) == list(range(1, 51))


def test_a_key_in_flight_does_not_move_to_a_member_that_joins():
    world = GroupWorld()
    world.append(keys=[b"k%d" % number for number in range(20)] * 2)
    group = world.group(mode="key_shared")
    ann = group.join("ann")
    held = {delivery.key for delivery in ann.read(max=99)}

    bob = group.join("bob")

    assert len(held) == 20
    assert bob.read(max=99) == []


def test_many_records_of_other_members_keys_are_passed_over():
    world = GroupWorld()
    group = world.group(mode="key_shared")
    ann, bob = group.join("ann"), group.join("bob")
    world.append(keys=[b"a"] * 700 + [b"k%d" % number for number in range(50)])

    found = ann.read(max=999) + bob.read(max=999)

    assert len(found) == 51


def test_no_more_records_wait_than_the_window_has_room_for():
    world = GroupWorld()
    world.append(50)
    group = world.group(window=10)
    member = group.join("ann")

    first = member.read(max=50)
    none = member.read(max=50)
    first[0].ack()

    assert (len(first), none) == (10, [])
    assert seqs(member.read(max=50)) == [11]
    assert group.lag() == 49


def test_two_groups_of_a_topic_do_not_know_each_other():
    world = GroupWorld()
    world.append(3)
    one, other = world.group("one").join("ann"), world.group("other").join("ann")

    one.ack_many(one.read(max=9))

    assert seqs(other.read(max=9)) == [1, 2, 3]
    assert (world.group("one").lag(), world.group("other").lag()) == (0, 3)
