"""Promise: every loss at a source is reported in the destination, each once, to every reader.

A reader may stand anywhere between two losses: what it has read of the first does not cover the
second.
"""

from __future__ import annotations

import pytest

from strandline.log.topic.gap_marker import report_loss
from strandline.testing.crash_choices import Oldest
from tests.unit.routers.world import RouterWorld

GUARANTEES = ["at_least_once", "exactly_once"]


def _world(guarantee: str, **options: object) -> RouterWorld:
    world = RouterWorld()
    world.store.topic("a", cap_records=2, **options)
    world.store.routers.put(
        "r", source="a", dest="b", filter="x", guarantee=guarantee, start="earliest"
    )
    return world


def _append(world: RouterWorld, *tags: str) -> None:
    for tag in tags:
        world.store.topic("a").append(b"1", tag=tag)


def _missed(world: RouterWorld, after: int) -> tuple[int, list[tuple[int, str]]]:
    """Read the destination to its end; the cursor then, and count and reason of each loss."""
    found: list[tuple[int, str]] = []
    while True:
        page = world.store.topic("b").read(after)
        if page.tombstone is not None:
            found.append((page.tombstone.missed, page.tombstone.reason))
        if page.next == after:
            return after, found
        after = page.next


def _lose(world: RouterWorld, count: int, reason: str) -> None:
    """Make the source lose records for a reason that retention does not give."""
    catalog = world.store._state.catalog
    state = catalog.find("a")
    report_loss(state, catalog.shard_of(state), count, reason)


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory", "ephemeral"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_second_loss_is_reported_to_a_reader_who_has_seen_the_first(guarantee, durability):
    world = _world(guarantee, durability=durability)
    _append(world, "x", "y", "y")
    world.forward()
    after, first = _missed(world, 0)

    _append(world, "x", "x", "x", "x", "y", "y")
    world.forward()
    _, second = _missed(world, after)

    assert first == [(1, "source_trim")]
    assert second == [(4, "source_trim")]


@pytest.mark.parametrize("reason", ["lost", "damaged"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_second_loss_of_another_kind_than_retention_is_reported(guarantee, reason):
    world = _world(guarantee)
    _lose(world, 3, reason)
    world.forward()
    after, first = _missed(world, 0)

    _append(world, "y")
    _lose(world, 4, reason)
    world.forward()
    _, second = _missed(world, after)

    assert (first, second) == ([(3, reason)], [(4, reason)])


def test_a_reader_from_the_beginning_gets_losses_that_adjoin_as_one():
    world = _world("at_least_once")
    for _ in range(5):
        _append(world, "x", "y", "y")
        world.forward()

    _, found = _missed(world, 0)

    assert found == [(5, "source_trim")]
    assert world.store.topic("b").gaps_below(100) == [(1, 5)]


@pytest.mark.parametrize("end", ["kill", "reopen"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_loss_is_reported_once_whatever_ends_between_it_and_the_next_record(guarantee, end):
    world = _world(guarantee)
    for _ in range(2):
        _append(world, "x", "x", "x", "y", "y")
        world.forward()
        world.store.topic("b").append(b"of its own")
        reported = world.store.topic("b").gaps_below(100)
        getattr(world, end)()
        world.forward()

        assert world.store.topic("b").gaps_below(100) == reported


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_was_reported_is_known_after_a_checkpoint(guarantee):
    world = _world(guarantee)
    for _ in range(3):
        _append(world, "x", "y", "y")
        world.forward()
        reported = world.store.topic("b").gaps_below(100)
        world.store.checkpoint()
        world.kill()
        world.forward()

        assert world.store.topic("b").gaps_below(100) == reported
    assert reported[0][0] == 1
    assert len(reported) == 1


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory"])
def test_seqs_of_a_reported_loss_are_not_given_out_again_after_a_power_loss(durability):
    world = RouterWorld()
    world.store.topic("a", cap_records=2)
    world.store.topic("b", durability=durability)
    world.store.routers.put("r", source="a", dest="b", filter="x", start="earliest")
    world.store.topic("a").append_many([b"1"] * 1002)
    world.forward()
    cursor = world.store.topic("b").head_seq

    world.disk = world.disk.crash(Oldest())
    world.store = world.opened()
    appended = world.store.topic("b").append(b"after")

    assert cursor == 1000
    assert appended.first_seq > cursor
