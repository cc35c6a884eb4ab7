"""Promise: older segments move into the lake without anybody noticing, and never too early."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import (
    Closed,
    Corrupt,
    Fenced,
    Invalid,
    ObjectStoreDenied,
    StrandlineError,
    Unavailable,
)
from strandline.store import Store
from strandline.testing.sim_objects import SimObjects
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of

DEADLINE_S = 20.0


def segment_names(world: ColdWorld) -> list[str]:
    return world.disk.list_dir("/data/segments/0000000000000001")


def test_segments_beyond_the_hot_bound_move_and_their_files_go():
    world = ColdWorld(hot_segments=2)

    topic = world.cold_topic(batches=6)
    world.store.checkpoint()
    world.fill(topic, 1)

    assert topic._state.cold.last_seq == 400
    assert len(world.data_keys()) == 4
    assert len(segment_names(world)) == 3
    assert seqs_of(topic) == list(range(1, 701))


def test_the_hot_bound_may_be_in_bytes():
    world = ColdWorld(hot_segments=100, hot_bytes=6_000)
    topic = world.store.topic("t")
    world.fill(topic, 5)
    sizes = [run.segment.info.file_size for run in topic._state.runs]

    world.store.relocate()

    kept = [run.segment.info.file_size for run in topic._state.runs]
    assert sum(kept) <= 6_000 < sum(kept) + sizes[-len(kept) - 1]


def test_segments_that_move_together_share_a_file():
    world = ColdWorld(file_bytes=3_000)

    topic = world.cold_topic(batches=6)

    assert len(world.data_keys()) == 2
    assert seqs_of(topic) == list(range(1, 601))


def test_nothing_moves_below_the_bound():
    world = ColdWorld(hot_segments=4)

    topic = world.cold_topic(batches=4)

    assert topic._state.cold is None
    assert list(world.objects.list()) == []


def test_what_was_deleted_does_not_move():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 3)
    topic.delete(match="odd")
    topic.delete(before=51)

    world.store.relocate()

    assert list(topic._state.cold.rows) == [25, 50]
    assert seqs_of(topic) == list(range(52, 301, 2))


def test_a_store_knows_its_lake_after_a_restart_without_asking_it():
    world = ColdWorld()
    world.cold_topic()
    world.objects.calls.clear()

    topic = world.reopen().topic("t")

    assert topic._state.cold.last_seq == 400
    assert topic.statistics().count == 500
    assert not world.objects.calls
    assert seqs_of(topic) == list(range(1, 501))


def test_a_second_process_reads_the_lake_too():
    world = ColdWorld()
    world.cold_topic()

    with world.open(readonly=True) as reader:
        assert seqs_of(reader.topic("t")) == list(range(1, 501))


def test_a_relocation_that_was_cut_off_after_its_commit_goes_on_where_it_was():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 4)
    before = world.disk.kill()
    world.store.relocate()
    files = world.data_keys()

    world.disk = before
    topic = world.kill().topic("t")
    world.store.relocate()

    assert world.data_keys() == files
    assert topic._state.cold.last_seq == 300
    assert seqs_of(topic) == list(range(1, 401))


def test_a_copy_of_a_store_that_went_another_way_does_not_mix_with_it():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 1)
    copy = ColdWorld()
    copy.disk, copy.objects = world.disk.kill(), world.objects
    other = copy.kill().topic("t")
    copy.clock.advance(5.0)  # the same payloads at other times are other records
    world.fill(topic, 2)
    copy.fill(other, 2)
    world.store.relocate()

    with pytest.raises(Corrupt, match="a copy of the store"):
        copy.store.relocate()

    assert other._state.cold is None
    assert seqs_of(other) == list(range(1, 301))
    world.fill(topic, 1)
    with pytest.raises(Fenced):
        world.store.relocate()


def test_the_lake_of_another_store_is_refused():
    world, stranger = ColdWorld(), ColdWorld(seed=2)
    world.cold_topic()
    stranger.objects = world.objects
    topic = stranger.reopen().topic("t")
    stranger.fill(topic, 3)

    with pytest.raises(Invalid, match="is the lake of store"):
        stranger.store.relocate()

    assert seqs_of(topic) == list(range(1, 301))


def test_a_lake_url_that_was_mixed_up_is_told_apart_from_damage():
    world, stranger = ColdWorld(), ColdWorld(seed=2)
    world.cold_topic()
    stranger.cold_topic()
    world.objects = stranger.objects
    store = world.reopen()
    world.fill(store.topic("t"), 1)

    with pytest.raises(Corrupt, match=r"another store's lake .* set lake\.url") as caught:
        store.relocate()

    assert all(each.id in str(caught.value) for each in (store, stranger.store))


def test_a_lake_that_lacks_what_was_moved_there_is_not_taken_for_a_new_one():
    world = ColdWorld()
    topic = world.cold_topic()
    right, world.objects = world.objects, SimObjects(clock=world.clock)
    topic = world.reopen().topic("t")
    world.fill(topic, 2)

    with pytest.raises(Invalid, match=r"holds no lake .* lake\.url"):
        world.store.relocate()

    assert list(world.objects.list()) == []
    world.objects = right
    topic = world.reopen().topic("t")
    world.store.relocate()
    assert seqs_of(topic) == list(range(1, 701))


def test_a_lake_that_was_put_back_to_an_older_state_is_not_written_to():
    world = ColdWorld()
    topic = world.cold_topic(batches=2)
    before = world.objects.snapshot()
    world.fill(topic, 2)
    world.store.relocate()
    world.objects.restore(before)
    topic = world.reopen().topic("t")
    world.fill(topic, 1)

    with pytest.raises(Invalid, match="does not have what topic 't' has moved"):
        world.store.relocate()

    assert topic.statistics().cold.last_seq == 300


def test_a_sweep_by_hand_tells_what_it_took():
    world = ColdWorld(grace_s=3600.0, manifest_retention_s=3600.0)
    topic = world.cold_topic()
    topic.delete(before=301)
    world.store.relocate()

    taken = []
    for _ in range(3):
        world.clock.advance(2 * 3600.0)
        taken.append(world.store.sweep(orphans=True)["t"].files)

    assert taken == [0, 3, 0]
    assert len(world.data_keys()) == 1
    assert seqs_of(topic, 300) == list(range(301, 501))


def test_a_file_that_reads_back_as_other_bytes_is_not_listed():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 3)
    world.objects.fail("get_ranges", nth=1, how="flipped")

    with pytest.raises(Corrupt, match="reads back as other bytes"):
        world.store.relocate()

    assert topic._state.cold is None
    world.store.relocate()
    assert seqs_of(topic) == list(range(1, 301))


def test_without_credentials_relocation_stops_and_health_says_so():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 3)
    world.objects.fail("create", nth=1, how="denied", once=False)

    with pytest.raises(ObjectStoreDenied):
        world.store.relocate()

    assert seqs_of(topic) == list(range(1, 301))


def test_a_deleted_topic_leaves_the_lake_also_after_a_restart():
    world = ColdWorld(grace_s=3600.0, manifest_retention_s=3600.0)
    world.cold_topic()
    world.store.delete_topic("t")
    world.kill()

    for _ in range(3):
        world.store.relocate()
        world.clock.advance(3 * 3600.0)

    assert world.data_keys() == []
    assert world.store._state.catalog.lake_trash == set()


def test_a_slow_object_store_holds_up_nobody():
    world = ColdWorld()
    topic = world.store.topic("t", cap_records=10_000)
    world.fill(topic, 3)
    reached, released = threading.Event(), threading.Event()

    def wait(operation: str, key: str) -> None:
        del operation, key
        reached.set()
        assert released.wait(DEADLINE_S)

    world.objects.on_call = wait
    mover = threading.Thread(target=world.store.relocate)
    mover.start()
    assert reached.wait(DEADLINE_S)

    world.fill(topic, 2)  # appends and checkpoints
    topic.delete(before=11)
    found = seqs_of(topic)
    world.store.topic("another").append(b"x")

    assert mover.is_alive()
    released.set()
    mover.join(DEADLINE_S)
    assert found == list(range(11, 501))
    assert seqs_of(topic) == list(range(11, 501))


def test_a_cold_read_that_waits_holds_up_no_hot_one():
    world = ColdWorld()
    topic = world.cold_topic(cap_records=10_000)
    reached, released = threading.Event(), threading.Event()

    def wait(operation: str, key: str) -> None:
        del operation, key
        reached.set()
        assert released.wait(DEADLINE_S)

    world.objects.on_call = wait
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(seqs_of(topic)))
    reader.start()
    assert reached.wait(DEADLINE_S)

    topic.append(b"501", tag="odd", key=b"k501")
    topic.alter(cap_records=9_000)
    assert seqs_of(topic, after=400) == list(range(401, 502))

    assert reader.is_alive()
    released.set()
    reader.join(DEADLINE_S)
    assert found == list(range(1, 502))


def test_an_unreachable_lake_fails_cold_reads_only():
    world = ColdWorld()
    topic = world.cold_topic()
    world.objects.fail("get_ranges", nth=1, how="before", once=False)

    with pytest.raises(Unavailable):
        topic.read(0)

    assert seqs_of(topic, after=400) == list(range(401, 501))


def test_a_relocation_that_ends_after_the_store_was_closed_changes_nothing():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 3)
    reached, released = threading.Event(), threading.Event()

    def wait(operation: str, key: str) -> None:
        del key
        if operation == "put_file":
            reached.set()
            assert released.wait(DEADLINE_S)

    failures: list[Exception] = []

    def relocate(store: Store) -> None:
        try:
            store.relocate()
        except StrandlineError as error:
            failures.append(error)

    world.objects.on_call = wait
    mover = threading.Thread(target=relocate, args=(world.store,))
    mover.start()
    assert reached.wait(DEADLINE_S)

    topic = world.reopen().topic("t")
    roots = world.disk.list_dir("/data/meta")
    released.set()
    mover.join(DEADLINE_S)

    assert isinstance(failures[0], Closed)
    assert world.disk.list_dir("/data/meta") == roots
    assert seqs_of(topic) == list(range(1, 301))
    world.objects.on_call = None
    world.store.relocate()
    assert seqs_of(topic) == list(range(1, 301))


def test_an_empty_place_is_not_taken_for_the_lake_of_a_store_that_has_one():
    world = ColdWorld()
    world.cold_topic()
    world.objects = SimObjects(clock=world.clock)
    fresh = world.reopen().topic("fresh")
    world.fill(fresh, 3)

    with pytest.raises(Invalid, match=r"holds no lake .* lake\.url"):
        world.store.relocate()

    assert list(world.objects.list()) == []
    assert seqs_of(fresh) == list(range(1, 301))
