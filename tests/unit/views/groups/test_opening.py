"""Promise: a group is one object for all who use it, with options that are checked."""

from __future__ import annotations

import pytest

from strandline.errors import Closed, Invalid, NotFound
from tests.unit.views.groups.world import GROUP, TOPIC, GroupWorld, seqs


def test_who_opens_a_group_again_gets_the_same():
    world = GroupWorld()

    assert world.group(lease_s=5) is world.group(lease_s=5)
    assert world.group() is world.group(lease_s=5)


def test_a_group_that_is_open_is_not_opened_with_other_options():
    world = GroupWorld()
    world.group(mode="exclusive")

    with pytest.raises(Invalid, match="other options"):
        world.group(mode="shared", lease_s=9)


@pytest.mark.parametrize("cleanly", [True, False])
def test_an_opening_that_says_nothing_has_the_options_of_the_first(cleanly):
    world = GroupWorld()
    first = world.group(mode="exclusive", lease_s=7, start="latest").options
    world.restart(cleanly=cleanly)

    looked_at = world.groups.find_stored(TOPIC, GROUP)
    again = world.group().options

    assert again == first
    assert world.group(lease_s=7).options == first
    assert looked_at is None  # it has no offsets yet


def test_options_that_differ_are_refused_and_told():
    world = GroupWorld()
    world.group(mode="exclusive", window=7).close()

    with pytest.raises(Invalid, match=r"window 7.*groups\.alter"):
        world.group(mode="exclusive", window=8)

    assert world.group().options.window == 7


def test_altered_options_are_those_of_every_later_opening():
    world = GroupWorld()
    world.append(2)
    member = world.group(mode="exclusive", lease_s=7).join("ann")

    world.groups.alter(TOPIC, GROUP, mode="shared")

    with pytest.raises(Closed):
        member.read()
    world.restart()
    group = world.group()
    assert (group.options.mode, group.options.lease_s) == ("shared", 7.0)
    assert seqs(group.join("ann").read(max=9)) == [1, 2]
    with pytest.raises(Invalid, match="lease_s"):
        world.groups.alter(TOPIC, GROUP, lease_s=-1)
    with pytest.raises(NotFound):
        world.groups.alter(TOPIC, "nobody", lease_s=1)


def test_a_group_that_was_deleted_and_one_of_another_topic_begin_anew():
    world = GroupWorld()
    world.group(window=7)
    world.groups.delete(TOPIC, GROUP)
    assert world.group(window=8).options.window == 8

    world.store.delete_topic(TOPIC)

    assert world.group(window=9).options.window == 9


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "fair"},
        {"lease_s": 0},
        {"lease_s": float("nan")},
        {"lease_s": "30"},
        {"deliveries_max": -1},
        {"window": 0},
        {"start": "middle"},
        {"leases": 3},
    ],
)
def test_a_bad_option_is_refused(options):
    with pytest.raises(Invalid):
        GroupWorld().group(**options)


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a" * 300, 3])
def test_a_bad_name_is_refused(name):
    with pytest.raises(Invalid):
        GroupWorld().group(name)


def test_dead_letters_of_a_group_and_of_a_queue_are_not_mixed():
    world = GroupWorld()
    queue = world.store.queue(f"{TOPIC}:billing", deliveries_max=1)
    queue.put(b"bad")
    while jobs := queue.claim():
        jobs[0].nack()

    with pytest.raises(Invalid, match="another name"):
        world.group("billing")


def test_the_names_of_a_topics_groups_are_known_once_they_were_joined():
    world = GroupWorld()
    world.group("never")
    for name in ("mails", "billing"):
        world.group(name).join("ann")

    assert world.groups.names(TOPIC) == ["billing", "mails"]


@pytest.mark.parametrize(
    ("durability", "expected"), [("fsync", "fsync"), ("memory", "memory"), ("ephemeral", "memory")]
)
def test_offsets_and_dead_letters_are_as_durable_as_the_topic(durability, expected):
    world = GroupWorld()
    world.store.create_topic(TOPIC, durability=durability)
    world.append()
    member = world.group(deliveries_max=1).join("ann")

    member.read()[0].nack()

    assert world.store.topic(TOPIC + ":groups").config.durability == expected
    assert world.dead().config.durability == expected


def test_a_new_group_may_begin_behind_the_latest_record():
    world = GroupWorld()
    world.append(3)
    member = world.group(start="latest").join("ann")
    world.append(1)

    assert seqs(member.read(max=9)) == [4]


def test_a_group_on_a_topic_that_is_not_there_makes_it():
    world = GroupWorld()

    member = world.group().join("ann")
    world.append(1)

    assert seqs(member.read()) == [1]


def test_a_group_is_found_when_it_is_open_and_looked_at_when_it_has_offsets():
    world = GroupWorld()
    world.append(2)
    groups = world.store.groups
    nothing = groups.find(TOPIC, "billing"), groups.find_stored(TOPIC, "billing")
    group = world.store.group(TOPIC, "billing")
    group.join("ann").read()[0].ack()
    found = groups.find(TOPIC, "billing"), groups.find_stored(TOPIC, "billing")
    group.close()

    assert nothing == (None, None)
    assert found == (group, group)
    assert groups.find(TOPIC, "billing") is None
    assert groups.find_stored(TOPIC, "billing").lag() == 1
    assert groups.find(TOPIC, "billing") is None


def test_every_opening_that_is_joined_has_a_generation_of_its_own():
    world = GroupWorld()
    before = world.store.group(TOPIC, "billing")
    none_yet = before.generation
    before.join("ann")
    before.close()
    behind = world.store.group(TOPIC, "billing")
    behind.join("ann")

    assert (none_yet, before.generation, behind.generation) == (0, 1, 2)


def test_who_waits_elsewhere_is_called_when_a_member_should_look_again():
    world = GroupWorld()
    world.append(1)
    group = world.group()
    calls = []

    with group.subscribe(lambda: calls.append("ring")):
        (held,) = group.join("ann").read()
        held.nack()
    held.nack()

    assert calls == ["ring", "ring"]
    assert group.due_s() <= group.options.lease_s
