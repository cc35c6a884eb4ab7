"""Promise: a topic exists from its creation to its deletion, with the options it was last given."""

from __future__ import annotations

import pytest

from strandline.config.settings import TopicConfig
from strandline.errors import Invalid, TopicExists, UnknownTopic
from tests.unit.store.world import World, payloads

RESTARTS = pytest.mark.parametrize("restart", [World.reopen, World.kill], ids=["reopen", "kill"])


@RESTARTS
def test_topics_and_their_options_survive(restart):
    world = World()
    world.store.topic("a", durability="fsync", cap_records=5, dedupe_node=False)
    world.store.create_topic("b")
    world.store.topic("b").alter(ttl_ms=1000, discard="reject")

    store = restart(world)

    expected = TopicConfig(durability="fsync", cap_records=5, dedupe_node=False)
    assert store.topics() == ["a", "b"]
    assert store.topic("a").config == expected
    assert store.topic("b").config == TopicConfig(ttl_ms=1000, discard="reject")


def test_names_are_sorted_and_found_by_their_beginning():
    store = World().store
    for name in ("b2", "a", "b1", "c"):
        store.topic(name)

    assert store.topics() == ["a", "b1", "b2", "c"]
    assert store.topics("b") == ["b1", "b2"]


def test_asking_again_gives_the_same_topic():
    store = World().store
    store.topic("a", cap_records=5).append(b"x")

    assert payloads(store.topic("a")) == payloads(store.existing_topic("a")) == [b"x"]
    assert store.topic("a", cap_records=5).head_seq == 1


def test_asking_for_an_existing_topic_with_other_options_is_refused():
    store = World().store
    store.topic("a", cap_records=5)

    with pytest.raises(Invalid, match="alter"):
        store.topic("a", cap_records=6)

    assert store.topic("a").config.cap_records == 5


def test_creating_an_existing_topic_is_refused():
    store = World().store
    store.create_topic("a")

    with pytest.raises(TopicExists):
        store.create_topic("a")


def test_an_unknown_topic_is_said_to_be_unknown():
    store = World().store

    with pytest.raises(UnknownTopic, match="'a'"):
        store.existing_topic("a")

    assert store.topics() == []


@RESTARTS
def test_a_deleted_topic_stays_deleted(restart):
    world = World()
    topic = world.store.topic("a")
    topic.append(b"x")

    assert world.store.delete_topic("a")

    assert not world.store.delete_topic("a")
    assert world.store.topics() == []
    assert restart(world).topics() == []


@RESTARTS
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_topic_made_anew_has_nothing_of_the_old_one(restart, checkpointed):
    world = World()
    old = world.store.topic("a", cap_records=7)
    old.append_many([b"old"] * 5, tags=["x"] * 5, idempotency_key="k")
    if checkpointed:
        world.store.checkpoint()
    world.store.delete_topic("a")
    world.clock.advance(1)
    new = world.store.topic("a")
    new.append(b"new", tag="x", idempotency_key="k")
    assert payloads(new) == [b"new"]

    again = restart(world).topic("a")

    assert payloads(again) == [b"new"]
    assert again.epoch > old.epoch
    assert again.config == TopicConfig()
    world.store.checkpoint()
    assert payloads(world.reopen().topic("a")) == [b"new"]


def test_a_handle_to_a_deleted_topic_says_so_everywhere():
    world = World()
    topic = world.store.topic("a")
    topic.append(b"x")
    world.store.delete_topic("a")
    world.store.topic("a").append(b"of the new one")

    for call in (
        lambda: topic.append(b"x"),
        lambda: topic.append(b"x", tag="t"),
        lambda: topic.append_many([b"x"]),
        topic.read,
        topic.statistics,
        lambda: topic.cursor_at(0),
        lambda: topic.delete(before=1),
        lambda: topic.alter(ttl_ms=5),
    ):
        with pytest.raises(UnknownTopic):
            call()


def test_a_topic_with_records_can_be_spared():
    store = World().store
    topic = store.topic("a")
    topic.append(b"x")

    with pytest.raises(Invalid):
        store.delete_topic("a", if_empty=True)
    topic.delete(before=2)

    assert store.delete_topic("a", if_empty=True)


def test_the_files_of_deleted_topics_go():
    world = World()
    for number in range(20):
        world.store.topic(f"t{number}").append_many([b"x" * 1000] * 10)
    world.store.checkpoint()
    for number in range(20):
        world.store.delete_topic(f"t{number}")

    for _ in range(4):
        world.store.checkpoint()

    assert world.files("segments") == []


@RESTARTS
@pytest.mark.parametrize("first", ["ephemeral", "memory", "disk", "fsync"])
@pytest.mark.parametrize("then", ["ephemeral", "memory", "disk", "fsync"])
def test_changing_the_durability_loses_nothing(restart, first, then):
    world = World()
    topic = world.store.topic("a", durability="disk")
    topic.append_many([b"1", b"2"])
    for durability, data in ((first, b"3"), (then, b"4"), ("disk", b"5")):
        topic.alter(durability=durability)
        topic.append(data)
        topic.append_many([data * 2])

    before = payloads(topic)
    after = payloads(restart(world).topic("a"))

    assert before == [b"1", b"2", b"3", b"33", b"4", b"44", b"5", b"55"]
    assert after == before


def test_an_alteration_is_durable_when_it_returns():
    world = World()
    topic = world.store.topic("a")
    topic.append(b"x")

    topic.alter(cap_records=3, durability="fsync")
    world.disk = next(iter(world.disk.crash_states(limit=1)))
    world.store = world.open()

    assert world.store.topic("a").config.cap_records == 3


def test_statistics_tell_the_state_of_a_topic():
    world = World()
    topic = world.store.topic("a", cap_records=100)
    empty = topic.statistics()
    topic.append_many([b"xx"] * 3, tags=["t", None, "t"])
    world.clock.advance(1)
    topic.append(b"yyy", key="k")
    topic.delete(match="t")

    found = topic.statistics()

    assert (empty.head_seq, empty.earliest_seq, empty.count, empty.last_ts) == (0, 1, 0, 0)
    assert (found.name, found.head_seq, found.earliest_seq, found.count) == ("a", 4, 2, 2)
    assert (found.payload_bytes, found.last_ts) == (2 + 4, world.clock.now_us())
    assert (found.config.cap_records, found.epoch) == (100, topic.epoch)
