"""Promise: a consumer group of a server delivers and refuses as one of an open store does."""

from __future__ import annotations

import threading

import pytest

from strandline import Closed, Fenced, Invalid, NotFound, StrandlineError, UnknownTopic
from strandline.views.groups.lag import GroupStatistics, PendingDelivery
from strandline.views.queue.job import AckResult


@pytest.fixture
def topic(store, name):
    made = store.topic(name)
    made.append_many([b"\0%d" % number for number in range(5)], keys=[b"\xff"] * 5, tags=["t"] * 5)
    return made


@pytest.fixture
def group(store, topic):
    return store.group(topic.name, "g")


def test_records_are_delivered_with_all_their_fields(group):
    member = group.join("m")

    (first,) = member.read()
    rest = member.read(max=100)

    assert (first.seq, first.data, first.key) == (1, b"\x000", b"\xff")
    assert (first.record.tag, first.deliveries) == ("t", 1)
    assert first.member.name == "m"
    assert [each.seq for each in rest] == [2, 3, 4, 5]
    assert member.read() == []


def test_what_is_done_is_not_delivered_again(group):
    member = group.join("m")
    deliveries = member.read(max=5)

    assert deliveries[0].ack() is True
    assert deliveries[0].ack() is False
    assert member.ack_many(deliveries) == AckResult(4, (1,))
    assert group.lag() == 0
    assert member.ack_many([]) == AckResult(0)


def test_what_is_given_back_comes_again(group):
    member = group.join("m")
    (delivery,) = member.read()

    assert delivery.extend() is True
    assert delivery.nack() is True
    assert delivery.nack() is False
    assert delivery.extend() is False
    again = member.read(max=10)
    assert (again[0].seq, again[0].deliveries) in ((1, 2), (2, 1))
    assert {each.seq for each in again} == {1, 2, 3, 4, 5}


def test_a_member_that_leaves_leaves_all_to_others(group):
    first = group.join("m1")
    first.read(max=2)
    second = group.join("m2")
    first.leave()
    first.leave()

    assert first.has_left
    assert {each.seq for each in second.read(max=10)} == {1, 2, 3, 4, 5}
    with pytest.raises(Closed):
        first.read()


def test_a_member_leaves_at_the_end_of_its_block(group):
    with group.join("m") as member:
        member.read()

    assert member.has_left
    assert group.statistics().members == ()


def test_a_member_of_the_same_name_shuts_the_first_out(group):
    first = group.join("m")
    (delivery,) = first.read()
    group.join("m")

    with pytest.raises(Fenced):
        first.read()
    with pytest.raises(Fenced):
        delivery.ack()


def test_a_read_waits_for_a_record(store, group, topic):
    member = group.join("m")
    for delivery in member.read(max=10):
        delivery.ack()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(member.read(wait_s=30)))
    thread.start()

    topic.append(b"new")
    thread.join(30)

    assert [each.data for each in found] == [b"new"]
    assert member.read(wait_s=0.01) == []


def test_a_group_goes_on_elsewhere(group, topic):
    member = group.join("m")

    group.seek(4)
    assert [each.seq for each in member.read(max=10)] == [4, 5]
    group.seek("latest")
    assert member.read() == []
    group.seek("earliest")
    assert [each.seq for each in member.read(max=10)] == [1, 2, 3, 4, 5]
    group.seek(ts=topic.read().records[-1].ts + 1)
    assert member.read() == []


def test_a_group_tells_where_it_stands(group, topic):
    member = group.join("m")
    one, _ = member.read(max=2)
    one.ack()

    told = group.statistics()
    (pending,) = group.pending()

    assert isinstance(told, GroupStatistics)
    assert (told.topic, told.name, told.mode, told.members) == (topic.name, "g", "shared", ("m",))
    assert (told.floor, told.lag, told.pending, told.acked) == (1, 4, 1, 1)
    assert isinstance(pending, PendingDelivery)
    assert (pending.seq, pending.member, pending.deliveries) == (2, "m", 1)
    assert pending.left_s > 0
    assert group.lag() == 4
    assert group.gaps() == []


def test_lost_records_are_told(store, name):
    topic = store.topic(name, cap_records=2)
    group = store.group(name, "g")
    member = group.join("m")
    topic.append_many([b"1", b"2", b"3"])

    assert [each.data for each in member.read(max=10)] == [b"2", b"3"]

    (gap,) = group.gaps()
    assert (gap.gap_from, gap.gap_to) == (1, 1)
    assert group.statistics().lost == 1


def test_what_fails_too_often_becomes_a_dead_letter(store, topic):
    group = store.group(topic.name, "strict", deliveries_max=1)
    member = group.join("m")

    member.read()[0].nack()

    assert group.statistics().dead == 1
    assert store.existing_topic(f"{topic.name}:strict:dead").head_seq == 1


def test_options_are_those_it_was_opened_with(store, topic):
    group = store.group(topic.name, "o", mode="key_shared", lease_s=5.0, start="latest")

    assert (group.options.mode, group.options.lease_s) == ("key_shared", 5.0)
    assert (group.options.deliveries_max, group.options.window) == (5, 10_000)
    assert group.name == "o"
    assert store.group(topic.name, "o").options == group.options
    assert group.join("m").read() == []
    with pytest.raises(Invalid):
        store.group(topic.name, "o", lease_s=6.0)


def test_options_are_altered_and_members_join_again(store, topic):
    member = store.group(topic.name, "o", lease_s=5.0).join("m")
    member.read(max=2)[0].ack()

    told = store.groups.alter(topic.name, "o", mode="exclusive", window=7)

    assert (told.mode, told.lease_s, told.window) == ("exclusive", 5.0, 7)
    with pytest.raises(Closed):
        member.read()
    again = store.group(topic.name, "o")
    assert again.options == told
    assert [each.seq for each in again.join("m").read(max=9)] == [2, 3, 4, 5]
    with pytest.raises(Invalid):
        store.groups.alter(topic.name, "o", lease_s=0)
    with pytest.raises(Invalid):
        store.groups.alter(topic.name, "o", colour="red")
    with pytest.raises(NotFound):
        store.groups.alter(topic.name, "other", window=1)
    with pytest.raises(UnknownTopic):
        store.groups.alter("nothing", "o", window=1)


def test_who_alters_a_group_that_is_not_there_makes_nothing(store, name):
    store.topic(name)

    with pytest.raises(NotFound):
        store.groups.alter(name, "g", window=1)

    assert store.topics(name) == [name]


def test_groups_are_listed_and_deleted(store, topic):
    store.group(topic.name, "a").join("m").read()[0].ack()

    assert store.groups.names(topic.name) == ["a"]
    assert store.groups.delete(topic.name, "a") is True
    assert store.groups.delete(topic.name, "a") is False
    assert store.groups.names(topic.name) == []
    with pytest.raises(UnknownTopic):
        store.groups.names("nothing")


def test_a_group_makes_its_topic(store, name):
    store.group(name, "g")

    assert store.topics(name)[0] == name


def test_a_topic_that_is_deleted_ends_its_group(store, name):
    store.topic(name).append(b"x")
    member = store.group(name, "g").join("m")
    store.delete_topic(name)

    with pytest.raises(StrandlineError):
        member.read()


REFUSED = {
    "unknown option": lambda store, name: store.group(name, "g", colour="red"),
    "lease 0": lambda store, name: store.group(name, "g", lease_s=0),
    "bad mode": lambda store, name: store.group(name, "g", mode="alone"),
    "bad name": lambda store, name: store.group(name, "no spaces"),
    "bad topic": lambda store, name: store.group("no spaces", "g"),
    "member without a name": lambda store, name: store.group(name, "g").join(""),
    "read 0": lambda store, name: store.group(name, "g").join("m").read(max=0),
    "wait as text": lambda store, name: store.group(name, "g").join("m").read(wait_s="1"),
    "seek nowhere": lambda store, name: store.group(name, "g").seek(),
    "seek twice": lambda store, name: store.group(name, "g").seek(1, ts=1),
    "seek beyond": lambda store, name: store.group(name, "g").seek(77),
    "seek a word": lambda store, name: store.group(name, "g").seek("soon"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(store, name, what):
    with pytest.raises(StrandlineError) as refused:
        REFUSED[what](store, name)

    assert refused.type is Invalid
