"""Promise: what was deleted or evicted stays gone after a crash, and nothing else goes with it.

D10. A delete-heavy load, by seq and by tag, in every class that is logged, with caps on records and
bytes that evict, and crashes at any call.
"""

from __future__ import annotations

import pytest

from strandline.testing.crash_choices import Newest, Oldest
from tests.crash.sim.lineage import Entry, Version
from tests.crash.sim.watch import Watch
from tests.crash.sim.workload import WEIGHTS, live
from tests.crash.sim.world import World, read_all, seeds

DELETE_HEAVY = WEIGHTS | {"delete before": 12, "delete tag": 25, "checkpoint": 10}
CAPS = ({}, {"cap_records": 7}, {"cap_bytes": 4000}, {"cap_records": 30, "cap_bytes": 9000})


@pytest.mark.parametrize("seed", seeds(6, 200))
@pytest.mark.parametrize("durability", ["fsync", "disk", "memory"])
def test_deletes_and_evictions_are_the_same_after_any_crash(durability, seed):
    world = World(seed)
    watch = Watch(world, share=0.03, kills=0.3)
    for number, caps in enumerate(CAPS):
        world.create(f"topic-{number}", durability=durability, **caps)

    seen = live(world, watch, weights=DELETE_HEAVY)

    assert seen > 0


def test_a_delete_in_an_fsync_topic_is_durable_when_it_returns():
    world = World(1)
    world.create("events", durability="fsync")
    world.append("events", [Entry(b"%d" % number, tag="old") for number in range(5)])

    world.delete("events", before=3)

    world.check(world.disk.crash(Oldest()), power_loss=True)


def _unflushed() -> World:
    """Five records of a memory topic that are in no file yet."""
    world = World(1)
    world.create("events", durability="memory")
    for number in range(5):
        world.append("events", [Entry(b"%d" % number, tag="old" if number < 3 else "new")])
    return world


def test_a_delete_by_seq_of_records_in_memory_survives():
    world = _unflushed()

    world.delete("events", before=4)
    world.sync()

    world.check(world.disk.crash(Oldest()), power_loss=True)


def test_a_delete_by_tag_of_records_in_memory_survives():
    world = _unflushed()

    world.delete("events", match="old")
    world.sync()

    world.check(world.disk.crash(Oldest()), power_loss=True)


@pytest.mark.parametrize("durability", ["memory", "ephemeral"])
def test_an_eviction_of_records_that_were_never_logged_can_be_replayed(durability):
    world = World(1)
    world.create("events", durability=durability, cap_records=5)
    for _ in range(3):
        world.append("events", [world.entry()])
    world.sync()
    for _ in range(10):
        world.append("events", [world.entry()])

    world.topic("events").enforce_retention()

    world.check(world.disk.kill(), power_loss=False)


def test_an_eviction_that_takes_whole_pieces_of_memory_leaves_no_hole_in_the_log():
    world = World(1)
    topic = world.create("events", durability="memory", cap_records=5)
    for number in range(4200):  # a piece has 4096 rows
        topic.append(b"%d" % number)
    topic.read()

    world.store.sync()

    after = world.opened(world.disk.kill()).existing_topic("events")
    assert list(read_all(after).live) == [4196, 4197, 4198, 4199, 4200]


def test_a_change_of_class_keeps_what_was_on_the_log_and_what_was_in_memory():
    world = _unflushed()
    world.sync()
    world.append("events", [Entry(b"5")])

    world.topic("events").alter(durability="fsync")

    found = read_all(world.opened(world.disk.crash(Oldest())).existing_topic("events"))
    assert Version(found.head, found.live) == world.newest("events")


def test_a_deleted_topic_does_not_come_back_with_its_name():
    world = World(1)
    for _ in range(2):
        world.create("events", durability="fsync")
        world.append("events", [world.entry(), world.entry()])
        world.checkpoint()
        world.drop("events")
    world.create("events", durability="fsync")
    world.append("events", [world.entry()])

    for choices in (Oldest(), Newest()):
        world.check(world.disk.crash(choices), power_loss=True)
