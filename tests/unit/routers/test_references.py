"""Promise: what a router copies is on the log once, as the source's record, and survives all.

Copies stay in memory until a checkpoint, and are made again of their originals after a crash:
whatever becomes of the originals meanwhile, whoever else writes to the destination, and whatever
happens while a checkpoint is under way.
"""

from __future__ import annotations

import msgspec
import pytest
from pyroaring import BitMap64

import strandline
from strandline.backup.backups import Backups
from strandline.config.settings import SegmentSettings
from strandline.log.append.append import place
from strandline.log.append.batch import of_many
from strandline.log.repair.verify import verify_store
from strandline.log.state.reference_copies import CopyOrigin, OriginsChanged
from strandline.store import Store
from strandline.testing.crash_choices import Oldest
from tests.unit.routers.world import SETTINGS, RouterWorld

DATA = [b"%03d" % number for number in range(20)]


def _world(
    source: str = "disk", dest: str = "disk", *, shards: int = 1, **options: object
) -> RouterWorld:
    wal = msgspec.structs.replace(SETTINGS.wal, shards=shards)
    segment = SegmentSettings(seal_records=30, shared_files_max=2)
    world = RouterWorld(msgspec.structs.replace(SETTINGS, wal=wal, segment=segment))
    world.store.topic("a", durability=source)
    world.store.topic("b", durability=dest)
    world.store.routers.put("r", source="a", dest="b", **options)
    return world


def _append(world: RouterWorld, data: list[bytes] = DATA) -> None:
    tags = ["even" if int(each) % 2 == 0 else "odd" for each in data]
    world.store.topic("a").append_many(data, tags=tags, keys=data, nodes=["n"] * len(data))


def _log_size(store: Store) -> int:
    return sum(shard.writer.end_lsn for shard in store._shards)


def _records(world: RouterWorld, topic: str = "b") -> list[strandline.Record]:
    return world.store.existing_topic(topic).read(0, 1000).records


@pytest.mark.parametrize("dest", ["disk", "fsync"])
def test_the_log_gets_a_message_and_not_the_records_again(dest):
    world = _world(dest=dest)
    world.store.topic("a").append_many([bytes(1000)] * 100)
    before = _log_size(world.store)

    forwarded = world.forward()

    assert forwarded == 100
    assert _log_size(world.store) - before < 1000


@pytest.mark.parametrize("durability", ["memory", "ephemeral"])
def test_copies_of_records_that_are_not_on_the_log_are(durability):
    world = _world(source=durability, dest="fsync")
    _append(world)

    world.forward()
    world.kill()

    assert world.data("b") == DATA


@pytest.mark.parametrize("source", ["disk", "fsync"])
@pytest.mark.parametrize("dest", ["disk", "fsync"])
def test_after_a_kill_every_seq_has_the_record_that_it_had(source, dest):
    world = _world(source, dest, filter="even")
    _append(world)
    world.forward()
    before = _records(world)

    world.kill()

    assert _records(world) == before
    assert len(before) == 10


def test_after_a_kill_only_what_is_kept_is_there():
    world = _world(preserve_tag=False, preserve_node=False)
    _append(world)
    world.forward()

    world.kill()

    assert {(record.tag, record.node, record.key) for record in _records(world)} == {
        (None, None, each) for each in DATA
    }


def test_tags_of_copies_can_be_deleted_after_a_kill():
    world = _world()
    _append(world)
    world.forward()
    world.kill()

    world.store.topic("b").delete(match="even")
    world.kill()

    assert world.data("b") == DATA[1::2]


def test_a_checkpoint_writes_the_copies_to_segments():
    world = _world()
    _append(world)
    world.forward()

    world.store.checkpoint()

    state = world.store._state.catalog.get("b")
    assert state.memory is None
    assert world.data("b") == DATA
    world.kill()
    assert world.data("b") == DATA
    assert world.store.topic("b").statistics().payload_bytes == sum(
        len(record.data) + len(record.key) + len(record.tag) + len(record.node)
        for record in _records(world)
    )


def test_copies_and_own_records_stay_in_their_order():
    world = _world()
    for number in range(0, 20, 4):
        _append(world, DATA[number : number + 2])
        world.forward()
        world.store.topic("b").append(b"own")
        _append(world, DATA[number + 2 : number + 4])
        world.forward()
    before = _records(world)

    world.kill()

    assert _records(world) == before
    assert [record.data for record in before if record.data != b"own"] == DATA
    assert [record.seq for record in before] == list(range(1, 26))


GOING = {
    "deleted by seq": lambda store: store.topic("a").delete(before=15),
    "deleted by tag": lambda store: store.topic("a").delete(match="odd"),
    "evicted": lambda store: store.topic("a").alter(cap_records=2) and store.topic("a").read(),
    "dropped": lambda store: store.delete_topic("a"),
}


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("how", GOING)
def test_originals_may_go_and_the_copies_stay(how, shards):
    world = _world(shards=shards)
    _append(world)
    world.store.sync()
    world.forward()

    GOING[how](world.store)
    for _ in range(3):  # files go with the second root that does not need them
        world.store.checkpoint()
        world.kill()

    assert world.data("b") == DATA


@pytest.mark.parametrize("how", GOING)
def test_originals_may_go_just_before_a_crash(how):
    world = _world()
    _append(world)
    world.forward()

    GOING[how](world.store)
    world.kill()

    assert world.data("b") == DATA


@pytest.mark.parametrize("how", GOING)
def test_anything_may_happen_while_a_checkpoint_is_under_way(how):
    calls = _calls_of_a_checkpoint()
    for number in range(calls):
        world = _world()
        _append(world, DATA[:10])
        world.forward()

        def happen(world: RouterWorld = world) -> None:
            _append(world, DATA[10:])
            world.forward()
            GOING[how](world.store)

        _at_call(world, number, happen)
        world.store.checkpoint()
        live = world.data("b")
        world.kill()

        assert world.data("b") == live == DATA, f"at call {number} of {calls}"


def _calls_of_a_checkpoint() -> int:
    world = _world()
    _append(world, DATA[:10])
    world.forward()
    calls = _at_call(world, -1, lambda: None)
    world.store.checkpoint()
    assert len(calls) > 5
    return len(calls)


def _at_call(world: RouterWorld, place: int, happen) -> list[str]:
    """Have something happen before a call of the disk that nobody makes while he holds a lock."""
    calls: list[str] = []

    def look(operation: str, path: str) -> None:
        if "/segments" in path or "/meta" in path:
            calls.append(operation)
            if len(calls) == place + 1:
                world.disk.on_call = None
                happen()

    world.disk.on_call = look
    return calls


@pytest.mark.parametrize("shards", [1, 5])
def test_copies_of_copies_are_made_again_in_the_right_order(shards):
    world = _world(shards=shards)
    for source, dest in (("b", "c"), ("c", "d")):
        world.store.routers.put(f"{source}>{dest}", source=source, dest=dest)
    _append(world)
    world.store.sync()
    world.forward()

    world.kill()

    assert [world.data(name) for name in "bcd"] == [DATA] * 3


def test_a_circle_of_references_is_made_again():
    world = _world(allow_cycle=True)
    world.store.routers.put("back", source="b", dest="a", allow_cycle=True)
    _append(world, DATA[:3])
    world.forward()
    before = [_records(world, name) for name in "ab"]

    world.kill()

    assert [_records(world, name) for name in "ab"] == before


def test_a_loss_that_is_told_behind_copies_is_told_after_a_kill():
    world = _world()
    _append(world, DATA[:5])
    world.forward()
    world.store.topic("a").alter(cap_records=2)
    _append(world, DATA[5:12])
    world.forward()
    gaps = world.store.topic("b").gaps_below(100)

    for _ in range(2):
        world.kill()
        assert world.store.topic("b").gaps_below(100) == gaps == [(6, 10)]
        assert world.store.topic("b").read(10).data == DATA[10:12]
        world.store.checkpoint()


def test_a_cap_of_the_destination_holds_after_a_kill():
    world = _world()
    world.store.topic("b").alter(cap_records=4)
    _append(world)
    world.forward()

    world.store.topic("b").enforce_retention()
    world.kill()

    assert world.data("b") == DATA[-4:]
    assert world.store.topic("b").statistics().count == 4


def test_a_read_only_store_sees_copies():
    world = _world()
    _append(world)
    world.forward()

    with world.opened(readonly=True) as reader:
        assert reader.existing_topic("b").read().data == DATA


def test_copies_are_in_a_backup(tmp_path):
    with strandline.open(str(tmp_path / "data")) as store:
        source = store.topic("a")
        store.routers.put("r", source="a", dest="b")
        source.append_many(DATA)
        store.topic("b").wait_for(len(DATA) - 1, timeout_s=20)
        store.backup(str(tmp_path / "backup"))

    with Backups(str(tmp_path / "backup")) as backups:
        backups.restore(str(tmp_path / "again"))

    with strandline.open(str(tmp_path / "again")) as store:
        assert store.topic("b").read().data == DATA


def test_exactly_once_counts_on_what_the_log_refers_to():
    world = _world(guarantee="exactly_once")
    _append(world)
    world.forward()

    world.kill()
    forwarded = world.forward()

    assert forwarded == 0
    assert world.data("b") == DATA


def test_a_gap_behind_the_last_copy_is_no_hole_after_a_checkpoint():
    world = _world()
    _append(world)
    world.forward()
    world.store.sync()
    world.disk = world.disk.crash(Oldest())  # what was reserved is lost now, behind the copies
    world.store = world.opened()
    world.store.checkpoint()
    _append(world, DATA[:1])
    world.forward()

    world.kill()

    topic = world.store.topic("b")
    last_seq = topic.gaps_below(10_000)[-1][1]
    assert topic.read(0).data == DATA
    assert topic.read(last_seq).data == DATA[:1]


def test_copies_that_become_records_while_a_checkpoint_syncs_are_not_taken_for_covered():
    world = _world()
    _append(world, DATA[:10])
    world.forward()

    def look(operation: str, path: str) -> None:
        if operation == "sync" and "/wal" in path:
            world.disk.on_call = None
            world.store.topic("b").append(b"own")
            _append(world, DATA[10:])
            world.forward()

    world.disk.on_call = look
    world.store.checkpoint()
    assert world.disk.on_call is None
    world.kill()

    assert world.data("b") == [*DATA[:10], b"own", *DATA[10:]]


def test_a_topic_is_dropped_only_when_its_copies_in_other_logs_are_durable():
    world = _world(shards=4)
    _append(world)
    world.store.sync()
    world.forward()
    world.store.sync()

    world.store.delete_topic("a")

    world.disk = world.disk.crash(Oldest())
    world.store = world.opened()
    assert world.data("b") == DATA


def test_a_reference_to_records_that_went_since_they_were_read_is_refused():
    world = _world()
    _append(world)
    catalog = world.store._state.catalog
    source, dest = catalog.get("a"), catalog.get("b")
    batch = of_many([DATA[0]], {}, None, world.settings.limits)
    batch.origin = CopyOrigin(source, source.losses, 1, BitMap64([1]).serialize(), 0)

    world.store.topic("a").delete(before=2)

    with pytest.raises(OriginsChanged):
        place(dest, catalog.shard_of(dest), batch, None)
    assert dest.next_seq == 1


def test_a_store_with_references_has_nothing_to_repair():
    world = _world()
    _append(world)
    world.forward()
    world.store.close()

    assert verify_store(world.disk, "/data").problems == []
