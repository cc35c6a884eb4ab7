"""Promise: a group that is moved goes on from there, and nothing of before is mixed with it."""

from __future__ import annotations

import pytest

from strandline.errors import Conflict, Invalid, Unavailable
from tests.unit.views.groups.world import LEASE_S, TOPIC, GroupWorld, failing_once, seqs


def test_a_seek_that_fails_half_way_is_not_mixed_with_what_was_before(monkeypatch):
    world = GroupWorld()
    world.append(5)
    group = world.group()
    member = group.join("ann")
    member.ack_many(member.read(max=5))
    kv = world.store.kv(TOPIC + ":groups")
    monkeypatch.setattr(kv, "put", failing_once(kv, after=True))

    with pytest.raises(Unavailable):
        group.seek(4)
    group.seek(2)

    assert world.stored().floor == 1
    assert seqs(member.read(max=9)) == [2, 3, 4, 5]


@pytest.mark.parametrize("mode", ["shared", "exclusive", "key_shared"])
def test_seek_goes_on_with_a_seq_with_everything_behind_it_again(mode):
    world = GroupWorld()
    world.append(keys=[b"a", b"b", b"c", b"d", b"e"])
    group = world.group(mode=mode)
    member = group.join("ann")
    member.ack_many(member.read(max=5))

    group.seek(3)

    assert group.lag() == 3
    assert seqs(member.read(max=9)) == [3, 4, 5]


def test_seek_knows_both_ends_and_times():
    world = GroupWorld()
    stamps = []
    for _ in range(3):
        world.append()
        stamps.append(world.topic.statistics().last_ts)
        world.clock.advance(1)
    group = world.group()
    member = group.join("ann")

    found = {}
    for name, to, ts in (
        ("latest", "latest", None),
        ("time", None, stamps[1]),
        ("earliest", "earliest", None),
    ):
        group.seek(to, ts=ts)
        found[name] = seqs(member.read(max=9))

    assert found == {"latest": [], "time": [2, 3], "earliest": [1, 2, 3]}


def test_seek_takes_everything_out_of_the_members_hands():
    world = GroupWorld()
    world.append(3)
    group = world.group()
    member = group.join("ann")
    (held, _) = member.read(max=2)

    group.seek(1)

    assert not held.ack()
    assert seqs(member.read(max=9)) == [1, 2, 3]


@pytest.mark.parametrize(("to", "ts"), [(None, None), (1, 5), (0, None), (5, None), (-1, None)])
def test_seek_wants_one_place_that_exists(to, ts):
    world = GroupWorld()
    world.append(3)

    with pytest.raises(Invalid, match="give"):
        world.group().seek(to, ts=ts)


def test_what_was_read_while_the_group_was_moved_back_hides_nothing(monkeypatch):
    """A look into the topic was under way, from where the group stood before."""
    world = GroupWorld()
    world.append(4)
    group = world.group()
    member = group.join("ann")
    member.ack_many(member.read(max=2))
    topic = group._topic
    read = topic.read

    def moved_meanwhile(*arguments: int) -> object:
        page = read(*arguments)
        monkeypatch.undo()
        group.seek(1)
        return page

    monkeypatch.setattr(topic, "read", moved_meanwhile)
    found = member.read(max=9)

    assert seqs(found) == [1, 2, 3, 4]


def test_an_ack_that_waits_in_line_while_the_group_is_moved_changes_nothing(monkeypatch):
    """The ack took its record from the member, then the group was moved before it was stored."""
    world = GroupWorld()
    world.append(3)
    group = world.group()
    member = group.join("ann")
    (held,) = member.read()
    store = group._acks.store

    def moved_first(settlement: object) -> None:
        group.seek(1)
        store(settlement)

    with monkeypatch.context() as patch:
        patch.setattr(group._acks, "store", moved_first)
        with pytest.raises(Conflict, match="moved"):
            held.ack()

    assert world.stored().floor == 0
    assert seqs(member.read(max=9)) == [1, 2, 3]
    world.clock.advance(LEASE_S)
    assert seqs(member.read(max=9)) == [1, 2, 3]
