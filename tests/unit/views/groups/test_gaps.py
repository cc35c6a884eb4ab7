"""Promise: records that are gone are skipped and counted, never silently; lag counts the living."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.config.settings import SegmentSettings
from strandline.testing.crash_choices import Oldest
from tests.unit.views.groups.world import LEASE_S, GroupWorld, seqs


def test_deleted_records_are_skipped_and_counted():
    world = GroupWorld()
    world.append(2)
    world.topic.append([b"x", b"y"], tag="eu")
    world.append(1)
    group = world.group()
    member = group.join("ann")
    world.topic.delete(match="eu")

    found = member.read(max=9)
    member.ack_many(found)

    assert seqs(found) == [1, 2, 5]
    assert (group.statistics().deleted, group.statistics().lost, group.gaps()) == (2, 0, [])
    assert world.stored().floor == 5


def test_deleted_records_at_the_end_are_done_too():
    world = GroupWorld()
    world.append(1)
    world.topic.append(b"x", tag="eu")
    world.topic.delete(match="eu")
    group = world.group()
    member = group.join("ann")

    (delivery,) = member.read(max=9)
    delivery.ack()
    member.read(max=9)

    assert group.lag() == 0
    assert group.statistics().floor == 2


def test_evicted_records_are_told_as_a_gap():
    world = GroupWorld()
    world.append(3)
    group = world.group()
    member = group.join("ann")
    world.append(7)
    world.topic.alter(cap_records=4)

    found = member.read(max=99)

    (gap,) = group.gaps()
    assert seqs(found) == [7, 8, 9, 10]
    assert (gap.gap_from, gap.gap_to, gap.reason) == (1, 6, "cap")
    assert group.statistics().lost == 6


def test_a_new_group_does_not_complain_of_what_was_gone_before_it():
    world = GroupWorld()
    world.append(10)
    world.topic.alter(cap_records=4)

    group = world.group()
    found = group.join("ann").read(max=99)

    assert seqs(found) == [7, 8, 9, 10]
    assert (group.statistics().lost, group.gaps()) == (0, [])


@pytest.mark.parametrize("end", ["nack", "expire", "leave"])
def test_a_record_that_was_deleted_while_it_waited_is_not_delivered_again(end):
    world = GroupWorld()
    world.topic.append(b"x", tag="eu")
    group = world.group()
    member = group.join("ann")
    (delivery,) = member.read()
    if end == "nack":
        delivery.nack()
    elif end == "expire":
        world.clock.advance(LEASE_S)
    else:
        member.leave()
        member = group.join("ann")
    world.topic.delete(match="eu")

    assert member.read() == []
    assert (group.statistics().deleted, group.lag()) == (1, 0)


def test_a_record_that_was_evicted_while_it_waited_is_counted_as_lost():
    world = GroupWorld()
    world.append(3)
    group = world.group()
    member = group.join("ann")
    for delivery in member.read(max=3):
        delivery.nack()
    world.topic.alter(cap_records=1)

    found = member.read(max=9)

    assert seqs(found) == [3]
    assert group.statistics().lost == 2
    assert [gap.reason for gap in group.gaps()] == ["cap", "cap"]


def test_a_record_that_was_deleted_in_flight_can_still_be_acked():
    world = GroupWorld()
    world.topic.append(b"x", tag="eu")
    group = world.group()
    (delivery,) = group.join("ann").read()

    world.topic.delete(match="eu")

    assert delivery.ack()
    assert group.lag() == 0


def test_a_deleted_record_does_not_hold_up_its_key():
    world = GroupWorld()
    world.topic.append(b"x", key=b"k", tag="eu")
    world.topic.append(b"y", key=b"k")
    member = world.group(mode="key_shared").join("ann")
    (delivery,) = member.read(max=9)
    delivery.nack()
    world.topic.delete(match="eu")

    assert seqs(member.read(max=9)) == [2]


def test_what_was_skipped_is_stored_with_the_next_ack_and_counted_once():
    world = GroupWorld()
    world.append(10)
    world.group().join("ann")
    world.topic.alter(cap_records=4)
    (delivery,) = world.group().join("ann").read()
    delivery.ack()

    world.restart()

    group = world.group()
    group.join("ann").read(max=9)
    assert (world.stored().floor, group.statistics().lost) == (7, 6)


def test_what_was_skipped_and_not_stored_is_found_again_after_a_restart():
    world = GroupWorld()
    world.append(10)
    world.group().join("ann")
    world.topic.alter(cap_records=4)
    world.group().join("ann").read()

    world.restart()

    group = world.group()
    group.join("ann").read(max=9)
    assert group.statistics().lost == 6


def test_a_lost_tail_is_told_as_a_gap():
    world = GroupWorld()
    world.append(3)
    world.group().join("ann")
    world.store.sync()
    world.append(2)

    world.lose_power(Oldest())
    world.append(1)

    group = world.group()
    found = group.join("ann").read(max=9)
    assert seqs(found)[:3] == [1, 2, 3]
    assert len(found) == 4
    lost = sum(gap.missed for gap in group.gaps())
    assert group.statistics().lost == lost == found[-1].seq - 4


DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("delete"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("before"), st.integers(1, 20)),
        st.tuples(st.just("cap"), st.integers(1, 10)),
        st.tuples(st.just("ack"), st.integers(1, 4)),
        st.tuples(st.just("skip"), st.integers(1, 4)),
        st.tuples(st.just("checkpoint"), st.none()),
    ),
    max_size=15,
)


@settings(max_examples=60)
@given(DEEDS)
def test_lag_is_how_many_records_a_reader_would_find_that_are_not_done(deeds):
    world = GroupWorld(segment=SegmentSettings(seal_bytes=1))
    group = world.group()
    member = group.join("ann")
    done: set[int] = set()
    for deed, what in deeds:
        if deed == "append":
            world.topic.append_many([b"x"] * what, tags=["ab"[n % 2] for n in range(what)])
        elif deed == "delete":
            world.topic.delete(match=what)
        elif deed == "before":
            world.topic.delete(before=what)
        elif deed == "cap":
            world.topic.alter(cap_records=what)
        elif deed == "checkpoint":
            world.store.checkpoint()
        else:
            found = member.read(max=what)
            if deed == "ack":
                done.update(seqs(found))
                member.ack_many(found)

    there = {record.seq for record in world.topic.read().records}
    assert group.lag() == len(there - done)
