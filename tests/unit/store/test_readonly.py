"""Promise (V5, C7): a second process reads a store while it is written, and changes nothing in it.

Whatever the writer does meanwhile, a reader sees a state that was or is true.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from strandline.config.settings import SegmentSettings, WalSettings
from strandline.errors import Closed, Invalid, UnknownTopic
from strandline.store import Store
from tests.unit.store.world import World, payloads, read_all

DEADLINE_S = 30


def _busy_world() -> World:
    """A store with several WAL files, shared and own segments, and something in the log."""
    world = World(
        wal=WalSettings(file_size_first=8192, file_size_max=8192),
        segment=SegmentSettings(seal_bytes=3000, shared_files_max=1, block_records=10),
    )
    for step in range(6):
        for name in ("a", "b"):
            world.store.topic(name).append_many([b"%s %d" % (name.encode(), step)] * 20)
        if step % 2:
            world.store.checkpoint()
    world.store.topic("a").append(b"last")
    return world


def test_a_reader_sees_what_was_written_before_it_opened():
    world = _busy_world()

    with world.open(readonly=True) as reader:
        for name in ("a", "b"):
            assert read_all(reader.topic(name)) == read_all(world.store.topic(name))


def test_a_reader_changes_no_file():
    world = _busy_world()
    before = {path: world.disk.read(path) for path in world.files()}

    with world.open(readonly=True) as reader:
        reader.refresh()
        read_all(reader.topic("a"))
        reader.topic("a").statistics()

    assert {path: world.disk.read(path) for path in world.files()} == before


def test_every_changing_verb_is_refused():
    world = _busy_world()
    reader = world.open(readonly=True)
    topic = reader.topic("a")

    for call in (
        lambda: topic.append(b"x"),
        lambda: topic.append(b"x", tag="t"),
        lambda: topic.append_many([b"x"]),
        lambda: topic.append_nowait(b"x"),
        lambda: topic.delete(before=5),
        lambda: topic.alter(ttl_ms=5),
        topic.enforce_retention,
        lambda: reader.create_topic("new"),
        lambda: reader.delete_topic("a"),
        reader.checkpoint,
        reader.sync,
    ):
        with pytest.raises(Invalid, match="read-only"):
            call()
    with pytest.raises(UnknownTopic):
        reader.topic("new")
    with pytest.raises(Invalid, match="read-only"):
        world.store.refresh()


def test_refresh_shows_what_has_happened_since_and_handles_stay_valid():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"1", b"2"], tags=["x", "y"])
    reader = world.open(readonly=True)
    seen = reader.topic("t")

    topic.append(b"3")
    before = payloads(seen)
    reader.refresh()
    after = payloads(seen)
    topic.delete(match="x")
    topic.alter(cap_records=50)
    world.store.checkpoint()
    topic.append(b"4")
    reader.refresh()

    assert (before, after) == ([b"1", b"2"], [b"1", b"2", b"3"])
    assert payloads(seen) == payloads(reader.topic("t")) == [b"2", b"3", b"4"]
    assert seen.config.cap_records == 50


def test_refresh_shows_new_and_deleted_topics():
    world = World()
    world.store.topic("old").append(b"x")
    reader = world.open(readonly=True)
    seen = reader.topic("old")

    world.store.delete_topic("old")
    world.store.topic("new").append(b"y")
    reader.refresh()

    assert reader.topics() == ["new"]
    with pytest.raises(UnknownTopic):
        seen.read()


def test_a_topic_made_anew_is_not_taken_for_the_old_one():
    world = World()
    world.store.topic("t").append(b"old")
    reader = world.open(readonly=True)
    seen = reader.topic("t")

    world.store.delete_topic("t")
    world.store.topic("t").append(b"new")
    reader.refresh()

    with pytest.raises(UnknownTopic):
        seen.read()
    assert payloads(reader.topic("t")) == [b"new"]


def test_a_reader_applies_ttl_and_caps_by_itself():
    world = World()
    topic = world.store.topic("t", ttl_ms=1000)
    topic.append(b"old")
    reader = world.open(readonly=True)

    world.clock.advance(2)

    assert payloads(reader.topic("t")) == []


def test_a_closed_reader_says_so():
    world = _busy_world()
    reader = world.open(readonly=True)
    topic = reader.topic("a")

    reader.close()

    for call in (topic.read, lambda: topic.cursor_at(0), reader.topics, reader.refresh):
        with pytest.raises(Closed):
            call()


def test_several_readers_and_a_writer_share_the_store():
    world = _busy_world()

    readers = [world.open(readonly=True) for _ in range(3)]

    assert len({len(payloads(reader.topic("a"))) for reader in readers}) == 1
    for reader in readers:
        reader.close()


def test_a_handle_can_be_read_while_another_thread_refreshes():
    world = World(segment=SegmentSettings(block_records=4))
    topic = world.store.topic("t")
    topic.append(b"1")
    reader = world.open(readonly=True)
    seen = reader.topic("t")
    done = threading.Event()

    def read_again_and_again() -> int:
        pages = 0
        while not done.is_set():
            records = seen.read(0, 10_000).records
            assert [record.data for record in records] == [b"%d" % r.seq for r in records]
            pages += 1
        return pages

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read_again_and_again)
        for seq in range(2, 120):
            topic.append(b"%d" % seq) if seq % 3 else topic.append_many([b"%d" % seq])
            if seq % 7 == 0:
                world.store.checkpoint()
            reader.refresh()
        done.set()
        pages = reading.result(DEADLINE_S)

    assert pages > 0
    assert len(payloads(seen)) == 119


def _work(world: World) -> None:
    """What a writer may do while a reader is in the middle of something."""
    world.store.topic("a").append_many([b"meanwhile"] * 30)
    world.store.checkpoint()
    world.store.topic("b").append(b"meanwhile")
    world.store.checkpoint()


@pytest.mark.parametrize("verb", ["open", "refresh"])
def test_the_writer_may_checkpoint_at_any_moment_of_an_opening(verb):
    steps = range(1, 1000)

    for step in steps:
        world = _busy_world()
        reader = world.open(readonly=True) if verb == "refresh" else None
        before = payloads(world.store.topic("a"))
        start, done = world.disk.calls_total, []

        def interfere(
            _: str, __: str, world: World = world, at: int = start + step, done: list = done
        ) -> None:
            if world.disk.calls_total == at:
                done.append(True)
                world.disk.on_call = None
                _work(world)

        world.disk.on_call = interfere
        reader = _opened(world, reader)
        world.disk.on_call = None
        found = payloads(reader.topic("a"))
        assert found in (before, before + [b"meanwhile"] * 30)
        assert reader.health().status == "green"
        if not done:
            break

    assert step > 10


def _opened(world: World, reader: Store | None) -> Store:
    if reader is None:
        return world.open(readonly=True)
    reader.refresh()
    return reader


def test_a_reader_that_does_not_refresh_can_go_on_reading_what_it_saw():
    world = _busy_world()
    reader = world.open(readonly=True)
    before = payloads(world.store.topic("a"))

    for _ in range(6):
        _work(world)
    reader.refresh()

    assert payloads(reader.topic("a"))[: len(before)] == before


def test_a_damaged_log_can_still_be_read_and_health_says_so():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"1", b"2"])
    world.store.sync()
    topic.append(b"damaged" * 30)
    topic.append_many([b"3"])
    world.store.sync()
    (path,) = [path for path in world.files("wal") if path.endswith(".log")]
    content = world.disk.read(path)
    world.disk.durable_replace(path, content.replace(b"damageddamaged", b"damagedDamaged", 1))

    reader = world.open(readonly=True)

    assert payloads(reader.topic("t")) == [b"1", b"2", b"3"]
    assert reader.health().status == "yellow"
