"""Promise: what a router may be is checked before anything is changed, circles and fan-in too."""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Invalid, RouterCycle, RouterFanIn, UnknownTopic
from strandline.routers.definition import Router, define_router
from strandline.routers.router_graph import find_cycle
from tests.unit.routers.world import RouterWorld


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("r", {"dest": "b"}, "needs a source"),
        ("r", {"source": "a"}, "needs a dest"),
        ("r", {"source": "a", "dest": "a"}, "two topics"),
        ("r", {"source": "a b", "dest": "c"}, "cannot name a topic"),
        ("r", {"source": 5, "dest": "c"}, "cannot name a topic"),
        ("r!", {"source": "a", "dest": "b"}, "cannot name a router"),
        (">r", {"source": "a", "dest": "b"}, "cannot name a router"),
        (7, {"source": "a", "dest": "b"}, "cannot name a router"),
        ("r", {"source": "a", "dest": "b", "name": "x"}, "unknown router option"),
        ("r", {"source": "a", "dest": "b", "speed": 1}, "unknown router option"),
        ("r", {"source": "a", "dest": "b", "guarantee": "maybe"}, "at_least_once or"),
        ("r", {"source": "a", "dest": "b", "start": 5}, "latest or earliest"),
        ("r", {"source": "a", "dest": "b", "preserve_tag": 1}, "true or false"),
        ("r", {"source": "a", "dest": "b", "filter": []}, "a filter is"),
    ],
)
def test_a_wrong_definition_is_refused_with_the_reason(name, options, told):
    with pytest.raises(Invalid, match=told):
        define_router(name, options)


def test_the_name_of_a_router_may_show_its_way():
    router = define_router("orders>eu", {"source": "orders", "dest": "eu"})

    assert router == Router(name="orders>eu", source="orders", dest="eu")


def _path(*topics):
    return [
        Router(name=f"{source}>{dest}", source=source, dest=dest)
        for source, dest in itertools.pairwise(topics)
    ]


def test_a_circle_is_told_with_its_topics():
    assert find_cycle(_path("a", "b", "c"), Router(name="back", source="c", dest="a")) == [
        "c",
        "a",
        "b",
        "c",
    ]


def test_a_router_does_not_form_a_circle_with_what_it_replaces():
    known = _path("a", "b")

    assert find_cycle(known, Router(name="a>b", source="b", dest="a")) is None


def test_two_ways_to_one_topic_are_no_circle():
    assert find_cycle(_path("a", "b", "d"), Router(name="x", source="a", dest="c")) is None


def test_a_circle_is_refused_and_nothing_is_made():
    world = RouterWorld()
    world.store.topic("a")
    world.store.routers.put("a>b", source="a", dest="b")
    world.store.routers.put("b>c", source="b", dest="c")

    with pytest.raises(RouterCycle) as caught:
        world.store.routers.put("c>a", source="c", dest="a")

    assert caught.value.cycle == ["c", "a", "b", "c"]
    assert [each.router.name for each in world.store.routers.list()] == ["a>b", "b>c"]


def test_a_second_source_for_a_dest_is_refused():
    world = RouterWorld()
    for name in ("a", "b"):
        world.store.topic(name)
    world.store.routers.put("a>c", source="a", dest="c")

    with pytest.raises(RouterFanIn, match="a>c"):
        world.store.routers.put("b>c", source="b", dest="c")


def test_two_routers_may_take_different_records_of_one_source_to_one_dest():
    world = RouterWorld()
    source = world.store.topic("a")
    world.store.routers.put("x", source="a", dest="b", filter="x")
    world.store.routers.put("y", source="a", dest="b", filter="y")
    source.append_many([b"1", b"2", b"3"], tags=["y", "z", "x"])

    world.forward()

    assert sorted(world.data("b")) == [b"1", b"3"]


def test_a_source_that_is_not_there_is_not_made():
    world = RouterWorld()

    with pytest.raises(UnknownTopic, match="'a'"):
        world.store.routers.put("r", source="a", dest="b")

    assert world.store.topics() == []


def test_a_dest_is_made_only_when_that_is_wanted_and_as_durable_as_the_source():
    world = RouterWorld()
    world.store.topic("a", durability="memory")

    with pytest.raises(UnknownTopic, match="'b'"):
        world.store.routers.put("r", source="a", dest="b", create_dest=False)
    world.store.routers.put("r", source="a", dest="b")

    assert world.store.existing_topic("b").config.durability == "memory"


def test_the_stores_own_topics_are_no_dest():
    world = RouterWorld()
    world.store.topic("a")

    with pytest.raises(Invalid, match=r"reserved for the store"):
        world.store.routers.put("r", source="a", dest="strandline.users")
