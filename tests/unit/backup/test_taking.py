"""Promise (R3, V5): a backup is a state of the store, copies only news, and disturbs nobody."""

from __future__ import annotations

import threading

import pytest

import strandline
from strandline.backup.backups import Backups
from strandline.backup.create import synced_reach
from strandline.config.settings import Settings, WalSettings
from strandline.errors import Corrupt, Invalid
from strandline.testing.crash_choices import Oldest
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.unit.backup.world import PATH, BackupWorld, look

DAY_S = 86_400.0


def test_a_second_backup_copies_only_what_is_new():
    world = BackupWorld(lake=True)
    topic = world.fill()
    world.store.relocate()
    first = world.backup()
    world.clock.advance(DAY_S)  # what has no name and is as old is not trusted
    topic.append(b"news")
    written = world.place.bytes_in.total()

    second = world.backup()

    stored = world.place.bytes_in.total() - written
    assert 0 < second.copied_bytes < first.copied_bytes / 3
    assert stored < second.copied_bytes + 8_000  # and the descriptor
    assert second.size > first.size - 2_000
    assert world.restored("/restored", backup=2)["t"].records[-1][2] == b"news"


def test_a_backup_without_news_copies_no_record():
    world = BackupWorld()
    world.fill()
    world.backup()

    again = world.backup()

    assert again.copied_bytes < 2_000  # a checkpoint, and the mark that it left on the log


def test_the_log_of_an_older_backup_is_referred_to_and_not_copied_again():
    world = BackupWorld()
    topic = world.store.topic("t", durability="fsync")
    topic.append([b"x" * 100] * 50)
    first = world.backups.create(PATH)
    topic.append(b"y")

    second = world.backups.create(PATH)

    assert first.copied_bytes > 5_000
    assert second.copied_bytes < 200
    assert second.from_us == first.until_us
    assert len(world.restored("/restored")["t"].records) == 51


@pytest.mark.parametrize("shards", [1, 3])
def test_a_backup_under_appends_is_a_state_that_the_store_was_in(shards, tmp_path):
    path, place = str(tmp_path / "data"), str(tmp_path / "backups")
    names = [f"topic-{number}" for number in range(4)]
    settings = Settings(
        wal=WalSettings(shards=shards, file_size_first=1 << 16, retained_bytes=1 << 20)
    )
    stop = threading.Event()
    with strandline.open(path, settings=settings) as store:
        topics = [store.topic(name, durability="disk") for name in names]

        def append_in_turn() -> None:
            # Every round goes through all topics, so in every state of the store the first topics
            # are at most one record ahead of the last ones, and never behind.
            while not stop.is_set() and topics[0].head_seq < 4_000:
                for topic in topics:
                    topic.append(b"%d" % topic.head_seq)

        writer = threading.Thread(target=append_in_turn)
        writer.start()
        try:
            for _ in range(3):
                store.backup(place)
                Backups(place).create(path)
        finally:
            stop.set()
            writer.join()

    backups = Backups(place)
    assert len(backups.list()) == 6
    for number in range(1, 7):
        backups.restore(str(tmp_path / str(number)), backup=number)
        with strandline.open(str(tmp_path / str(number)), readonly=True) as store:
            found = look(store)
        heads = [found[name].head_seq if name in found else 0 for name in names]
        assert heads == sorted(heads, reverse=True)
        assert heads[0] - heads[-1] <= 1
        for topic in found.values():
            assert [each[2] for each in topic.records] == [b"%d" % n for n in range(topic.head_seq)]


def test_what_was_acknowledged_before_a_backup_is_in_it():
    world = BackupWorld(shards=2)
    for durability in ("fsync", "disk", "memory"):
        world.store.topic(durability, durability=durability).append(b"here")

    world.backup()

    found = world.restored("/restored")
    assert {name: len(topic.records) for name, topic in found.items()} == {
        "fsync": 1,
        "disk": 1,
        "memory": 1,
    }


def test_the_ends_of_all_shards_are_taken_while_none_can_move():
    world = BackupWorld(shards=3)
    held = []

    class Watching(SimClock):
        def now_us(self) -> int:
            held.append([bool(shard.writer.lock.claims) for shard in shards])
            return super().now_us()

    shards = world.store._shards
    synced_reach(shards, Watching())

    assert held == [[True, True, True]]
    assert not any(shard.writer.lock.claims for shard in shards)


def test_what_was_committed_after_a_walk_began_is_left_out_where_it_may_rest_on_other_shards():
    world = BackupWorld(shards=3)
    topics = {}
    for number in range(12):
        topic = world.store.topic(f"topic-{number}", durability="fsync")
        topics[topic._state.shard] = topic
    assert sorted(topics) == [0, 1, 2]
    world.clock.advance(0.001)
    reads = 0

    def go_on(operation: str, path: str) -> None:
        nonlocal reads
        reads += operation == "pread" and "shard-02" in path
        if reads == 2:  # the header has been read, and all of the other shards
            reads += 1
            world.clock.advance(0.001)
            topics[0].append(b"cause")
            topics[2].append(b"effect")

    world.disk.on_call = go_on
    world.backups.create(PATH)
    world.disk.on_call = None

    found = world.restored("/restored")
    assert reads > 2
    assert len(found[topics[2].name].records) <= len(found[topics[0].name].records)


def test_topics_keep_their_order_when_they_change_shards_between_openings():
    world = BackupWorld(shards=3)
    names = [f"topic-{number}" for number in range(12)]
    for shards in (3, 4, 2):
        world.store.close()
        world.use_shards(shards)
        world.store = world.open()
        for name in names:
            world.store.topic(name, durability="fsync").append(b"with %d" % shards)
        world.backups.create(PATH)

    found = world.restored("/restored")

    assert {topic.head_seq for topic in found.values()} == {3}
    assert found == look(world.store)


def test_a_deleted_topic_is_not_counted():
    world = BackupWorld()
    world.store.topic("kept")
    world.store.topic("gone")
    world.backup()
    world.store.delete_topic("gone")

    made = [world.backup().topics for _ in range(2)]

    assert made == [1, 1]


def test_a_closed_store_is_backed_up_without_being_opened():
    world = BackupWorld()
    world.fill()
    expected = look(world.store)
    world.store.close()
    before = {name: world.disk.list_dir(f"{PATH}/{name}") for name in ("meta", "wal/shard-00")}

    world.backups.create(PATH)

    assert world.restored("/restored") == expected
    assert before == {name: world.disk.list_dir(f"{PATH}/{name}") for name in before}


def test_a_store_that_never_had_a_checkpoint_is_backed_up():
    world = BackupWorld()
    world.store.topic("t").append(b"one")

    world.backups.create(PATH)

    assert world.restored("/restored") == look(world.store)


def test_what_is_in_a_backup_taken_beside_the_writer_survives_a_power_loss_of_the_store():
    world = BackupWorld()
    topic = world.store.topic("t", durability="disk")
    topic.append([b"x"] * 10)

    world.backups.create(PATH)

    lost = world.disk.crash(Oldest())
    with world.open(disk=lost) as store:
        assert len(store.topic("t").read(0, 100).records) == 10
    assert len(world.restored("/restored")["t"].records) == 10


def test_of_two_backups_at_once_both_are_made_and_both_are_whole():
    world = BackupWorld()
    topic = world.fill()
    inside = False

    def another(operation: str, key: str) -> None:
        nonlocal inside
        if operation == "create" and key.startswith("backups/") and not inside:
            inside = True
            topic.append(b"between")
            world.store.backup(world.place)

    world.place.on_call = another
    made = world.backup()
    world.place.on_call = None

    assert made.number == 2
    assert world.backups.verify().problems == []
    assert world.restored("/restored") == look(world.store)


def test_a_place_with_backups_of_another_store_is_refused():
    world, other = BackupWorld(), BackupWorld()
    other.disk = SimDisk(seed=99)
    other.store = other.open()
    world.backup()

    with pytest.raises(Invalid, match="has backups of store"):
        other.store.backup(world.place)


def test_the_wrong_lake_is_refused():
    world = BackupWorld(lake=True)
    world.fill()
    world.store.relocate()

    with pytest.raises(Invalid, match="is not the lake of this store"):
        world.backups.create(PATH)  # which takes the lake to be in the store's folder


def test_damage_in_a_segment_is_told_and_not_copied():
    world = BackupWorld()
    world.fill()
    folder = f"{PATH}/segments/0000000000000001"
    path = f"{folder}/{world.disk.list_dir(folder)[0]}"
    content = bytearray(world.disk.read(path))
    content[200] ^= 1
    world.disk.durable_replace(path, content)

    with pytest.raises(Corrupt, match="a block fails its checksum"):
        world.backup()

    assert world.backups.list() == []


def test_damage_in_a_lake_file_is_told_and_not_copied():
    world = BackupWorld(lake=True)
    world.fill()
    world.store.relocate()
    key = next(info.key for info in world.lake.list("topics") if "/data/" in info.key)
    content = bytearray(world.lake.get(key))
    content[100] ^= 1
    world.lake.put(key, content)

    with pytest.raises(Corrupt, match="a lake file is not what was written"):
        world.backup()

    assert world.backups.list() == []


def test_a_place_that_flips_bits_is_not_believed():
    world = BackupWorld()
    world.fill()
    world.place.fail("get_ranges", how="flipped", once=False, key_contains="segments/")

    with pytest.raises(Corrupt, match="reads back as other bytes"):
        world.backup()

    world.place.heal()
    assert world.backups.list() == []
