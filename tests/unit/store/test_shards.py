"""Promise (D11): a topic keeps its order whatever the count of shards was, is, or becomes."""

from __future__ import annotations

import itertools

import pytest

from strandline.config.settings import LakeSettings, SegmentSettings, WalSettings
from strandline.errors import Corrupt, StoreFailed
from strandline.log.files import system_file
from tests.unit.store.world import PATH, World, payloads

NAMES = [f"t{number}" for number in range(12)]


def _wal(shards: int) -> WalSettings:
    return WalSettings(shards=shards, file_size_first=8192, file_size_max=16384)


def test_topics_are_spread_over_the_shards():
    world = World(wal=_wal(4))
    for name in NAMES:
        world.store.topic(name).append(b"x" * 100)

    used = {path.split("/")[3] for path in world.files("wal")}

    assert used == {"shard-00", "shard-01", "shard-02", "shard-03"}
    for name in NAMES:
        assert payloads(world.store.topic(name)) == [b"x" * 100]


@pytest.mark.parametrize("counts", list(itertools.permutations((1, 2, 5))), ids=str)
@pytest.mark.parametrize("restart", [World.reopen, World.kill], ids=["reopen", "kill"])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_count_may_change_between_openings(counts, restart, checkpointed):
    world = World(wal=_wal(counts[0]), segment=SegmentSettings(block_records=3))
    expected = {name: [] for name in NAMES}

    for step, shards in enumerate((*counts, counts[0])):
        restart(world, wal=_wal(shards))
        for name in NAMES:
            topic = world.store.topic(name)
            assert payloads(topic) == expected[name]
            topic.append(b"%d" % step)
            topic.append_many([b"%d %d" % (step, row) for row in range(3)])
            expected[name] += [b"%d" % step, *(b"%d %d" % (step, row) for row in range(3))]
        if checkpointed and step % 2:
            world.store.checkpoint()

    for name in NAMES:
        assert payloads(world.store.topic(name)) == expected[name]


def test_system_tells_the_count_of_the_last_writer_and_a_reader_leaves_it():
    world = World(wal=_wal(2))
    told = [system_file.describe(world.disk, PATH)]

    world.reopen(wal=_wal(5))
    told.append(system_file.describe(world.disk, PATH))
    world.open(readonly=True, wal=_wal(1)).close()
    told.append(system_file.describe(world.disk, PATH))

    assert [about.shards for about in told] == [2, 5, 5]
    assert {(about.store_id, about.created_us) for about in told} == {
        (world.store.id, told[0].created_us)
    }


def test_an_opening_that_is_refused_leaves_system_as_it_was():
    world = World(wal=_wal(2))
    for name in NAMES:
        world.store.topic(name).append(b"x" * 100)
    world.store.close()
    path = next(path for path in world.files("wal") if "shard-01" in path)
    world.disk.durable_replace(path, b"damaged" * 1000)
    before = world.disk.read(f"{PATH}/SYSTEM")

    with pytest.raises(Corrupt):
        world.open(wal=_wal(5))

    assert world.disk.read(f"{PATH}/SYSTEM") == before


def test_the_files_of_a_shard_that_is_no_longer_used_go():
    world = World(wal=_wal(4))
    for name in NAMES:
        world.store.topic(name).append(b"x" * 100)
    world.reopen(wal=_wal(1))

    for _ in range(3):
        world.store.topic("t0").append(b"y")
        world.store.checkpoint()

    assert {path.split("/")[3] for path in world.files("wal")} == {"shard-00"}
    assert sum(len(payloads(world.store.topic(name))) for name in NAMES) == 12 + 3


@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_clean_close_stays_clean_while_unused_shards_are_given_up(durability):
    world = World(wal=_wal(5))
    epochs = {}
    for name in NAMES:
        topic = world.store.topic(name, durability=durability)
        topic.append(b"x")
        epochs[name] = topic.epoch

    for shards in (1, 1, 2, 2, 1, 1):
        world.reopen(wal=_wal(shards))
        world.store.checkpoint()
        for name in NAMES:
            topic = world.store.topic(name)
            assert (topic.head_seq, topic.epoch) == (1, epochs[name])


def test_stamps_never_go_back_when_a_topic_changes_its_shard():
    world = World(wal=_wal(1))
    topics = [world.store.topic(name) for name in NAMES]
    world.clock.advance(100)
    for topic in topics:
        topic.append(b"x")
    world.clock.jump_wall(-50)

    world.reopen(wal=_wal(5))
    for name in NAMES:
        topic = world.store.topic(name)
        topic.append(b"y")
        first, second = topic.read().records
        assert first.ts <= second.ts


def test_a_poisoned_shard_leaves_the_others_alone():
    world = World(wal=_wal(2))
    topics = [world.store.topic(name, durability="fsync") for name in NAMES]
    for topic in topics:
        topic.append(b"x")
    world.disk.fail("sync", path_contains="shard-00")

    outcomes = set()
    for topic in topics:
        try:
            topic.append(b"y")
            outcomes.add("fine")
        except StoreFailed:
            outcomes.add("poisoned")

    assert outcomes == {"fine", "poisoned"}
    assert world.store.health().status == "red"


def test_a_shard_that_came_and_went_without_a_checkpoint_is_replayed_after_a_relocation():
    """A relocation writes a root without a checkpoint; records lie in a shard that is over."""
    segment = SegmentSettings(seal_records=5, own_bytes_min=1)
    world = World(wal=_wal(1), segment=segment, lake=LakeSettings(hot_segments=0))
    for name in NAMES:
        world.store.topic(name).append_many([b"a"] * 5)
    world.store.checkpoint()
    world.reopen(wal=_wal(4))
    for name in NAMES:
        world.store.topic(name).append(b"b")
    world.reopen(wal=_wal(1))

    world.store.relocate()

    world.kill()
    for name in NAMES:
        assert payloads(world.store.topic(name)) == [b"a"] * 5 + [b"b"]
