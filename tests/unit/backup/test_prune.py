"""Promise (R6): pruning removes old backups and what only they needed, and nothing on doubt."""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt, Invalid, StrandlineError
from tests.unit.backup.world import BackupWorld

DAY_S = 86_400.0


def _filled(backups: int = 4) -> BackupWorld:
    """Backups of a store that forgets, so that each has objects which later ones do not need."""
    world = BackupWorld(lake=True)
    topic = world.store.topic("t", durability="fsync")
    for _ in range(backups):
        for _ in range(4):
            topic.append([b"record"] * 20)
            world.clock.advance(0.001)
            world.store.checkpoint()
        topic.delete(before=topic.head_seq - 30)
        world.store.relocate()
        world.tick()
        world.backup()
    return world


def test_the_newest_backups_stay_whole_and_the_others_go():
    world = _filled()
    kept = [world.restored("/r", backup=number) for number in (3, 4)]
    before = len(world.place.snapshot())
    world.clock.advance(2 * DAY_S)

    pruned = world.backups.prune(keep=2)

    assert pruned.backups == [1, 2]
    assert 0 < pruned.objects == before - len(world.place.snapshot()) - 2
    assert world.backups.verify().problems == []
    assert [world.restored("/r", backup=number) for number in (3, 4)] == kept
    assert [each.number for each in world.backups.list()] == [3, 4]


def test_moments_between_the_backups_that_stay_can_still_be_restored():
    world = _filled()
    world.clock.advance(2 * DAY_S)

    world.backups.prune(keep=2)

    (window,) = world.backups.windows()
    inside = [seen for seen in world.seen if window.from_us <= seen.at_us <= window.until_us]
    assert inside
    for seen in inside:
        assert world.restored("/r", at=seen.at_us) == seen.topics


def test_young_objects_stay_for_a_backup_that_may_be_under_way():
    world = _filled()
    world.place.put("segments/of-a-backup-under-way.seg", b"...")
    world.clock.advance(DAY_S / 2)

    pruned = world.backups.prune(keep=1)

    assert pruned.objects == 0
    world.clock.advance(DAY_S)
    assert world.backups.prune(keep=1).objects > 1


def test_nothing_is_deleted_while_a_descriptor_cannot_be_read():
    world = _filled()
    key = "backups/00000000000000000002.json"
    world.place.put(key, world.place.get(key)[:-9])
    world.clock.advance(2 * DAY_S)
    before = world.place.snapshot()

    with pytest.raises(Corrupt):
        world.backups.prune(keep=1)

    assert world.place.snapshot() == before


def test_the_next_backup_goes_on_from_what_was_kept():
    world = _filled()
    world.clock.advance(2 * DAY_S)
    world.backups.prune(keep=1)
    world.store.topic("t").append(b"more")

    made = world.backup()

    assert made.number == 5
    assert made.copied_bytes < made.size / 2
    assert world.backups.verify().problems == []


def test_a_backup_that_is_added_during_a_prune_keeps_its_objects():
    world = _filled()
    world.clock.advance(2 * DAY_S)
    added = []

    def add(operation: str, key: str) -> None:
        if operation == "list" and key == "segments" and not added:
            added.append(key)
            world.store.topic("t").append(b"more")
            world.store.backup(world.place)

    world.place.on_call = add
    world.backups.prune(keep=1, grace_s=0)
    world.place.on_call = None

    assert added
    assert world.backups.verify().problems == []


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_prune_that_fails_at_any_call_leaves_whole_backups(how):
    number, struck = 0, True
    world = _filled(3)
    world.clock.advance(2 * DAY_S)
    full = world.place.snapshot()
    while struck:
        number += 1
        world.place.restore(full)
        fault = world.place.fail_at(number, how)
        try:
            world.backups.prune(keep=1)
        except StrandlineError:
            pass
        struck = fault.fired > 0
        world.place.heal()
        assert world.backups.verify(quick=True).problems == []
        world.backups.prune(keep=1)
        assert [each.number for each in world.backups.list()] == [3]

    assert number > 8


def test_at_least_one_backup_is_kept():
    world = _filled(1)

    with pytest.raises(Invalid):
        world.backups.prune(keep=0)
