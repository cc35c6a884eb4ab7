"""Promise: routers and how far they have come outlive the process, and exactly-once means it."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.routers import router_store
from tests.unit.routers.world import RouterWorld


def _world(guarantee: str) -> RouterWorld:
    world = RouterWorld()
    world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b", guarantee=guarantee, filter="x")
    return world


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_router_goes_on_after_a_clean_close(guarantee):
    world = _world(guarantee)
    world.store.topic("a").append_many([b"1", b"2"], tags=["x", "y"])
    world.forward()

    world.reopen()
    before = world.store.routers.get("r")
    world.store.topic("a").append(b"3", tag="x")
    world.forward()

    assert (before.cursor, before.forwarded_total, before.lag) == (2, 1, 0)
    assert world.data("b") == [b"1", b"3"]


def test_exactly_once_forwards_nothing_twice_after_a_kill():
    world = _world("exactly_once")
    world.store.topic("a").append_many([b"%d" % n for n in range(9)], tags=["x", "y", "x"] * 3)
    world.forward()

    world.kill()
    after = world.store.routers.get("r")
    world.forward()

    assert world.data("b") == [b"0", b"2", b"3", b"5", b"6", b"8"]
    assert after.forwarded_total == 6


def test_at_least_once_forwards_all_of_it_after_a_kill():
    world = _world("at_least_once")
    world.store.topic("a").append_many([b"1", b"2"], tags=["x", "x"])
    world.forward()

    world.kill()
    world.forward()

    assert set(world.data("b")) == {b"1", b"2"}
    assert world.data("b")[-2:] == [b"1", b"2"]


def test_positions_are_stored_while_it_goes_on():
    world = _world("at_least_once")
    world.store.topic("a").append(b"1", tag="x")
    world.clock.advance(2)
    world.forward()

    world.kill()
    world.forward()

    assert world.data("b") == [b"1"]


def test_a_router_that_is_made_again_under_its_name_is_another():
    world = _world("exactly_once")
    source = world.store.topic("a")
    source.append(b"1", tag="x")
    world.forward()
    world.store.routers.delete("r")

    options = {"guarantee": "exactly_once", "start": "earliest"}
    world.store.routers.put("r", source="a", dest="b", **options)
    world.forward()

    assert world.data("b") == [b"1", b"1"]


def test_the_ledger_does_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(router_store, "_OUTDATED_MIN", 10)
    world = _world("at_least_once")
    for _ in range(100):
        world.store.topic("a").append(b"1", tag="x")
        world.clock.advance(2)
        world.forward()

    kept = world.store.existing_topic(router_store.TOPIC).statistics().count
    world.reopen()

    assert kept < 40
    assert world.store.routers.get("r").forwarded_total == 100


def test_a_store_without_routers_has_no_ledger():
    world = RouterWorld()
    world.store.topic("a").append(b"1")
    world.forward()

    world.reopen()

    assert world.store.topics() == ["a"]


def test_a_read_only_store_shows_routers_and_changes_none():
    world = _world("at_least_once")
    world.store.topic("a").append(b"1", tag="x")
    world.forward()
    world.store.close()

    with world.opened(readonly=True) as reader:
        (shown,) = reader.routers.list("r")

        assert (shown.router.name, shown.forwarded_total, shown.lag) == ("r", 1, 0)
        with pytest.raises(Invalid, match="read-only"):
            reader.routers.put("s", source="a", dest="c")
        with pytest.raises(Invalid, match="read-only"):
            reader.routers.delete("r")


def test_routers_whose_topic_went_in_a_crash_go_at_the_next_opening():
    world = _world("at_least_once")
    world.store._state.catalog.drop("b", if_empty=False)  # as far as a delete came

    world.kill()

    assert world.store.routers.list() == []


def test_what_was_forwarded_after_an_opening_is_known_after_its_close():
    world = _world("at_least_once")
    world.reopen()
    world.store.topic("a").append(b"1", tag="x")
    world.forward()

    world.reopen()
    world.forward()

    assert world.data("b") == [b"1"]


def test_a_log_that_fails_does_not_keep_a_store_from_closing():
    world = _world("at_least_once")
    world.store.topic("a").append(b"1", tag="x")
    world.forward()
    world.disk.fail("sync", errno=5, once=False)

    world.store.close()

    world.kill()
    assert world.store.routers.get("r").router.name == "r"
