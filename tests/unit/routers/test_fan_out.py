"""Promise: one record becomes a bounded number of copies, whatever chains routers form.

The bound is the setting ``limits.router_copies_max``: a router that would exceed it is refused, and
stored routers that exceed it are held, reported, and kept.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.config.settings import LimitSettings
from strandline.errors import Conflict
from strandline.routers.definition import Router
from strandline.routers.fan_out import FanOut, describe_excess, excess_of
from strandline.routers.filters import parse_filter
from tests.unit.routers.world import SETTINGS, RouterWorld

TAGS = ("eu", "us", "asia")


def _settings(copies_max):
    limits = msgspec.structs.replace(SETTINGS.limits, router_copies_max=copies_max)
    return msgspec.structs.replace(SETTINGS, limits=limits)


def _tree(world, levels, width):
    """Every topic feeds so many others, on so many levels; the names of the routers."""
    world.store.topic("t")
    parents = ["t"]
    for _ in range(levels):
        children = [f"{parent}.{number}" for parent in parents for number in range(width)]
        for child in children:
            world.store.routers.put(f"to-{child}", source=child.rpartition(".")[0], dest=child)
        parents = children


def test_a_router_that_would_multiply_records_beyond_the_bound_is_refused():
    world = RouterWorld(_settings(12))
    _tree(world, levels=2, width=3)

    with pytest.raises(Conflict, match=r"'t' could become 13 copies.*to-t\.0 > to-t\.0\.0 > more"):
        world.store.routers.put("more", source="t.0.0", dest="x")
    world.store.topic("t").append(b"1")

    assert world.forward() == 12
    assert not [each for each in world.store.routers.list() if each.router.name == "more"]
    assert "x" not in world.store.topics()


def test_the_default_bound_stops_a_thousandfold():
    copies_max = LimitSettings().router_copies_max
    names = [
        "t",
        *(f"t.{n}" for n in range(10)),
        *(f"t.{n}.{m}" for n in range(10) for m in range(10)),
    ]
    routers = [
        Router(name=f"to-{name}.{n}", source=name, dest=f"{name}.{n}")
        for name in names
        for n in range(10)
    ]

    assert describe_excess(routers[:999], routers[999], copies_max) is None
    assert "1001 copies" in describe_excess(routers[:1000], routers[1000], copies_max)


def test_a_router_that_is_changed_counts_once():
    world = RouterWorld(_settings(1))
    world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b")

    world.store.routers.put("r", source="a", dest="b", preserve_tag=False)

    assert not world.store.routers.get("r").router.preserve_tag


def test_routers_whose_filters_exclude_each_other_count_as_one():
    world = RouterWorld(_settings(3))
    source = world.store.topic("a")
    for tag in TAGS:
        world.store.routers.put(f"all-{tag}", source="a", dest=f"b-{tag}", filter=tag)
    world.store.routers.put("two", source="a", dest="c", filter=["tag", "In", ["eu", "us"]])
    world.store.routers.put("beginnings", source="a", dest="d", filter="e*")

    with pytest.raises(Conflict, match="4 copies"):
        world.store.routers.put("nodes", source="a", dest="e", filter=["node", "Eq", "n"])
    source.append_many([b"1", b"2", b"3"], tags=TAGS)

    assert world.forward() == 3 + 2 + 1


def test_a_circle_counts_every_hop_of_a_record():
    circle = [
        Router(name="there", source="a", dest="b", allow_cycle=True),
        Router(name="also", source="a", dest="b", allow_cycle=True),
        Router(name="back", source="b", dest="a", allow_cycle=True),
    ]

    assert FanOut(circle).copies("a") == 2 + 2 + 4 + 4 + 8 + 8 + 16 + 16
    assert excess_of(circle, 59) == {"there", "also", "back"}
    assert excess_of(circle, 60) == set()


def test_stored_routers_beyond_a_lowered_bound_are_held_reported_and_kept():
    world = RouterWorld()
    _tree(world, levels=1, width=3)
    world.settings = _settings(2)

    world.reopen()
    world.store.topic("t").append(b"1")

    assert world.forward() == 2
    assert [each.held != "" for each in world.store.routers.list()] == [False, False, True]
    assert "'to-t.2' is held: one record could become more than 2 copies" in " ".join(
        world.store.health().reasons
    )
    assert world.store.health().status == "yellow"


def test_a_held_router_goes_on_where_it_was_once_there_is_room():
    world = RouterWorld()
    _tree(world, levels=1, width=3)
    world.settings = _settings(2)
    world.reopen()
    world.store.topic("t").append(b"1")
    world.forward()

    world.store.routers.delete("to-t.0")
    world.forward()

    assert world.data("t.2") == [b"1"]
    assert world.store.routers.get("to-t.2").held == ""
    assert world.store.health().status == "green"


def test_a_chain_of_ten_thousand_routers_is_counted():
    chain = [Router(name=f"r{n}", source=f"t{n}", dest=f"t{n + 1}") for n in range(10_000)]

    assert FanOut(chain).copies("t0") == 10_000
    assert excess_of(chain, 9_999) == {"r0"}


def _all_copies(routers, topic, tag):
    """The plain rule, record by record; there are no circles."""
    return sum(
        1 + _all_copies(routers, each.dest, tag)
        for each in routers
        if each.source == topic and (each.filter is None or each.filter.value == tag)
    )


@st.composite
def _forests(draw):
    routers = []
    for number in range(draw(st.integers(1, 12))):
        source = draw(st.integers(0, number))
        condition = parse_filter(draw(st.sampled_from((None, *TAGS))))
        routers.append(
            Router(name=f"r{number}", source=f"t{source}", dest=f"t{number + 1}", filter=condition)
        )
    return routers


@given(_forests(), st.integers(1, 8))
def test_the_bound_is_never_below_what_a_record_becomes(routers, copies_max):
    fan_out = FanOut(routers)
    held = excess_of(routers, copies_max)
    at_work = [each for each in routers if each.name not in held]

    for topic in fan_out.sources:
        for tag in TAGS:
            assert _all_copies(routers, topic, tag) <= fan_out.copies(topic)
            assert _all_copies(at_work, topic, tag) <= copies_max
    if all(fan_out.copies(topic) <= copies_max for topic in fan_out.sources):
        assert not held
