"""Promise: a lost tail is a prefix kept, a tombstone and a new epoch; no seq is given out twice.

D6, D7. ``disk`` loses at most what was not synced, ``memory`` what was not flushed, ``ephemeral``
everything; each loss is told to a reader whose cursor stands before it, and (epoch, seq) never
means two records. A power loss takes the unsynced end, and so does a file system that fails and is
mounted again without a restart.
"""

from __future__ import annotations

import pytest

from strandline.errors import Closed
from strandline.log.repair.repair import repair_store
from strandline.testing.crash_choices import Biased, Newest, Oldest
from tests.crash.sim.lineage import Entry
from tests.crash.sim.watch import Watch, crash_before_every_call
from tests.crash.sim.workload import WEIGHTS, live
from tests.crash.sim.world import PATH, World, seeds, settings

CLASSES = ("disk", "memory", "ephemeral")


def _world(durability: str, *, shards: int = 1, topics: int = 2) -> World:
    world = World(1, options=settings(shards))
    for number in range(topics):
        world.create(f"topic-{number}", durability=durability)
    world.sync()
    return world


def _append_everywhere(world: World) -> None:
    for name in world.lineages:
        world.append(name, [world.entry(size=20)])


@pytest.mark.parametrize("seed", seeds(6, 200))
@pytest.mark.parametrize("durability", [*CLASSES, "mixed"])
@pytest.mark.parametrize("shards", [1, 3])
def test_every_lost_record_is_reported_and_no_seq_is_used_again(durability, shards, seed):
    world = World(seed, options=settings(shards))
    watch = Watch(world, share=0.04, kills=0.3)
    classes = (*CLASSES, "fsync") if durability == "mixed" else (durability,) * 3
    weights = WEIGHTS | ({"alter": 8} if durability == "mixed" else {})
    for number, each in enumerate(classes):
        world.create(f"topic-{number}", durability=each)

    seen = live(world, watch, crashes=0.1, weights=weights)

    assert seen > 0


@pytest.mark.parametrize("durability", CLASSES)
def test_a_power_loss_right_after_a_clean_close_and_one_append_is_reported(durability):
    world = _world(durability)
    _append_everywhere(world)
    world.reopen()

    _append_everywhere(world)

    for choices in (Oldest(), Newest()):
        world.check(world.disk.crash(choices), power_loss=True)


@pytest.mark.parametrize("durability", CLASSES)
def test_a_remount_is_reported_as_a_power_loss_is(durability):
    world = _world(durability)
    _append_everywhere(world)

    for choices in (Oldest(), Newest()):
        world.check(world.disk.remount(choices), power_loss=True)


def test_no_seq_is_used_again_after_one_remount_and_another():
    world = _world("disk")
    for _ in range(4):
        _append_everywhere(world)

        world.go_on(world.disk.remount(Oldest()), power_loss=True)

    _append_everywhere(world)


def test_a_log_file_that_a_remount_cut_off_is_not_damaged():
    world = _world("disk", shards=2)
    world.reopen()
    for _ in range(40):
        world.append("topic-0", [world.entry(size=3000)])

    for _ in range(60):
        after = world.disk.remount(Biased(world.rng, picks=8), reorder_names=True)
        world.check(after, power_loss=True)


def test_a_repair_reports_what_a_remount_took():
    world = _world("disk")
    world.checkpoint()
    _append_everywhere(world)
    after = world.disk.remount(Oldest())
    for root in after.list_dir(f"{PATH}/meta"):
        after.durable_replace(f"{PATH}/meta/{root}", b"")

    repair_store(after, PATH, world.settings, clock=world.clock)

    world.check(after, power_loss=True)


@pytest.mark.parametrize("durability", CLASSES)
def test_a_kill_right_after_a_clean_close_and_one_append_is_reported(durability):
    world = _world(durability)
    _append_everywhere(world)
    world.reopen()

    _append_everywhere(world)

    world.check(world.disk.kill(), power_loss=False)


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_a_first_file_too_small_for_its_first_frame_still_says_that_the_term_began(durability):
    world = _world(durability)
    world.reopen()
    world.append("topic-0", [world.entry(size=9000)])
    crash_before_every_call(world)

    world.sync()

    assert world.states >= 4


@pytest.mark.parametrize("durability", CLASSES)
def test_a_power_loss_at_any_call_of_a_close_is_reported(durability):
    world = _world(durability, shards=2, topics=6)
    world.reopen()
    _append_everywhere(world)
    crash_before_every_call(world)

    world.store.close()

    assert world.states >= 4


@pytest.mark.parametrize("durability", CLASSES)
def test_an_append_during_a_close_is_refused_or_kept(durability):
    world = _world(durability)
    _append_everywhere(world)

    topic = world.topic("topic-0")

    def append(operation: str, path: str) -> None:
        del path
        if operation != "sync":
            return
        world.disk.on_call = None
        world.propose("topic-0", [Entry(b"late")])
        try:
            topic.append(b"late")
            world.lineages["topic-0"].settle(kept=False, durable=False)
        except Closed:
            world.withdraw("topic-0")
        world.disk.on_call = append

    world.disk.on_call = append
    world.store.close()
    world.disk.on_call = None

    world.check(world.disk.crash(Oldest()), power_loss=True)


@pytest.mark.parametrize("durability", CLASSES)
def test_a_kill_while_losses_are_being_declared_does_not_hide_them(durability):
    world = _world(durability, shards=2, topics=6)
    _append_everywhere(world)
    after = world.disk.crash(Oldest())
    killed = []
    after.on_call = lambda operation, path: killed.append(after.kill())

    world.opened(after)

    for again in killed:
        world.check(again, power_loss=True)


@pytest.mark.parametrize("durability", CLASSES)
def test_seqs_beyond_the_first_reservation_are_not_used_again(durability):
    world = _world(durability, topics=1)
    for _ in range(700):
        world.append("topic-0", [Entry(b"x")])

    world.go_on(world.disk.crash(Oldest()), power_loss=True)

    world.append("topic-0", [Entry(b"y")])


def test_a_kill_loses_nothing_of_a_disk_topic_and_keeps_its_epoch():
    world = _world("disk")
    _append_everywhere(world)
    epoch = world.topic("topic-0").epoch

    world.go_on(world.disk.kill(), power_loss=False)

    assert world.topic("topic-0").epoch == epoch


def test_a_kill_after_a_power_loss_keeps_the_epoch_of_a_disk_topic():
    world = _world("disk")
    _append_everywhere(world)
    world.go_on(world.disk.crash(Oldest()), power_loss=True)
    _append_everywhere(world)
    epoch = world.topic("topic-0").epoch

    world.go_on(world.disk.kill(), power_loss=False)

    assert world.topic("topic-0").epoch == epoch


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_a_session_that_only_checkpoints_leaves_the_close_before_it_clean(durability):
    world = _world(durability)
    _append_everywhere(world)
    epoch = world.topic("topic-0").epoch
    world.reopen()
    world.checkpoint()

    world.reopen()
    world.go_on(world.disk.crash(Newest()), power_loss=True)

    assert world.topic("topic-0").epoch == epoch
    assert world.topic("topic-0").read().tombstone is None
