"""Promise: a delete by tag costs what it deletes, not what the topic holds, in all local places."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import strandline
from strandline.config.settings import SegmentSettings
from strandline.log.state import tag_index
from tests.unit.store.world import World, payloads, read_all

SMALL, LARGE = 300, 4800
CALLS_MORE_MAX = 40
"""Of a binary search in sixteen times as many tags, in a few parts of the index."""


def _singles(world: World, count: int) -> None:
    for number in range(count):
        world.store.topic("t").append(b"x", tag=f"tag-{number:06d}")


def _batches(world: World, count: int) -> None:
    for first in range(0, count, 100):
        tags = [f"tag-{number:06d}" for number in range(first, first + 100)]
        world.store.topic("t").append_many([b"x"] * 100, tags=tags)


def _shared(world: World, count: int) -> None:
    _batches(world, count)
    world.store.checkpoint()


def _sealed(world: World, count: int) -> None:
    _shared(world, count)
    world.store.checkpoint()


PLACES = pytest.mark.parametrize(
    ("fill", "options"),
    [
        (_singles, {"durability": "disk"}),
        (_batches, {"durability": "fsync"}),
        (_batches, {"durability": "ephemeral"}),
        (_singles, {"durability": "ephemeral"}),
        (_shared, {}),
        (_sealed, {}),
    ],
    ids=["singles", "batches", "memory", "rows in memory", "shared", "sealed"],
)


def _world(fill: Callable[[World, int], None], options: dict[str, object], count: int) -> World:
    own = 100 if fill is _sealed else 1 << 30
    world = World(segment=SegmentSettings(seal_records=own, seal_bytes=1 << 30, block_records=64))
    world.store.topic("t", **options)
    fill(world, count)
    return world


@contextmanager
def _calls() -> Iterator[list[int]]:
    """How many functions are called inside, written in C or not."""
    made = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        made[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield made
    finally:
        sys.setprofile(None)


def _cost(world: World, match: str) -> tuple[int, int, int]:
    """Calls of functions, reads of files and blocks looked at in one delete of one record."""
    cache, disk = world.store._state.library.cache, world.disk
    blocks, reads = cache.hits + cache.misses, disk.calls["pread"]
    topic = world.store.topic("t")
    with _calls() as calls:
        done = topic.delete(match=match)
    assert done.deleted == 1
    return calls[0], disk.calls["pread"] - reads, cache.hits + cache.misses - blocks


@PLACES
@pytest.mark.parametrize("end", ["", "*"], ids=["exact", "prefix"])
def test_the_cost_of_a_delete_does_not_grow_with_the_log(fill, options, end):
    costs = []
    for count in (SMALL, LARGE):
        world = _world(fill, options, count)
        topic = world.store.topic("t")
        for first in ("tag-000001", "tag-000002*"):
            topic.delete(match=first)

        costs.append([_cost(world, f"tag-{number:06d}{end}") for number in (77, 201, 277)])

    for (calls, _, _), (more_calls, reads, blocks) in zip(*costs, strict=True):
        assert more_calls <= calls + CALLS_MORE_MAX
        assert reads <= 4
        assert blocks <= 8


@PLACES
def test_a_tag_that_is_deleted_again_and_again_costs_no_more(fill, options):
    world = _world(fill, options, SMALL)
    topic = world.store.topic("t")
    topic.delete(match="tag*")
    costs = []
    for _ in range(300):
        topic.append(b"x", tag="tag-000007")
        costs.append(_cost(world, "tag-000007")[0])
        topic.append(b"x", tag="tag-000007")
        costs.append(_cost(world, "tag-*")[0])

    assert max(costs[-20:]) <= max(costs[:20]) + CALLS_MORE_MAX


def test_tags_in_a_footer_are_found_without_their_blocks():
    world = _world(_sealed, {}, LARGE)
    topic = world.store.topic("t")
    cache = world.store._state.library.cache
    topic.delete(match="tag-000001")
    seen = cache.hits + cache.misses

    topic.delete(match="not there")
    topic.delete(match="not there*")

    own = [run for run in topic._state.runs if run.segment.info.topic_id]
    assert own
    assert cache.hits + cache.misses - seen == 6 * len(own)  # directories, and no block


@pytest.mark.parametrize("fill", [_batches, _shared, _sealed])
def test_an_index_is_made_without_the_locks_of_other_topics(fill):
    world = _world(fill, {}, LARGE)
    other, topic = world.store.topic("other"), world.store.topic("t")
    maintenance = topic._shard().maintenance
    read: list[bool] = []

    def on_call(name: str, _path: str) -> None:
        if name == "pread":
            read.append(maintenance.locked())
            world.disk.on_call = None
            other.append(b"x")
            world.disk.on_call = on_call

    world.disk.on_call = on_call
    topic.delete(match="tag-000001")
    world.disk.on_call = None

    assert read.count(False) >= 2
    assert read.count(True) <= 2  # a few tags of a footer, the block of the record
    assert other.head_seq == len(read)


def test_deletes_and_appends_at_once_take_exactly_what_they_name(monkeypatch):
    monkeypatch.setattr(tag_index, "RECENT_MAX", 16)
    monkeypatch.setattr(tag_index, "WAITING_MAX", 64)
    topic = World().store.topic("t")
    stop = threading.Event()

    def append() -> None:
        for number in range(2000):
            topic.append(b"%d" % number, tag="even" if number % 2 == 0 else "odd")
        stop.set()

    thread = threading.Thread(target=append)
    thread.start()
    while not stop.is_set():
        topic.delete(match="even")
    thread.join()
    topic.delete(match="even")

    assert payloads(topic) == [b"%d" % number for number in range(2000) if number % 2]


def test_a_record_that_was_appended_before_a_delete_is_always_found(monkeypatch):
    monkeypatch.setattr(tag_index, "WAITING_MAX", 4)
    topic = World().store.topic("t")

    for number in range(60):
        tags = [f"{number}-{row}" for row in range(number + 1)]
        topic.append_many([b"x"] * len(tags), tags=tags)
        if number % 7 == 0:
            assert topic.delete(match=f"{number}-0").deleted == 1

    assert topic.delete(match="59-*").deleted == 60


def test_an_index_that_no_delete_uses_is_dropped(monkeypatch):
    monkeypatch.setattr(tag_index, "WAITING_MAX", 100)
    topic = World().store.topic("t")
    topic.append(b"x", tag="a")
    topic.delete(match="a")
    assert topic._state.tags is not None

    topic.append_many([b"x"] * 101, tags=["a"] * 101)

    assert topic._state.tags is None
    assert topic.delete(match="a").deleted == 101


def test_appends_to_a_topic_without_deletes_by_tag_note_nothing():
    topic = World().store.topic("t")

    topic.append(b"x", tag="a")
    topic.delete(before=2)

    assert topic._state.tags is None


def test_indexes_of_all_topics_together_are_bounded():
    world = World(segment=SegmentSettings(cache_bytes=40_000))
    store = world.store
    indexes = store._state.catalog.tag_indexes
    for number in range(10):
        topic = store.topic(f"t{number}")
        topic.append_many([b"x"] * 400, tags=[f"tag-{row:06d}" for row in range(400)])

        assert topic.delete(match="tag-000001").deleted == 1

        assert indexes.size <= max(20_000, topic._state.tags.size)
        assert topic._state.tags is not None

    assert store.topic("t0")._state.tags is None
    assert store.topic("t0").delete(match="tag-00001*").deleted == 10


def test_an_index_lets_go_of_what_is_sealed():
    world = World(segment=SegmentSettings(seal_records=100, block_records=64))
    topic = world.store.topic("t")
    _batches(world, 2000)
    topic.delete(match="tag-000001")
    before = len(topic._state.tags)

    world.store.checkpoint()
    world.store.checkpoint()
    topic.delete(match="tag-000002")

    assert (before, len(topic._state.tags)) == (2000, 0)
    assert topic.delete(match="tag-00*").deleted == 1998


def test_a_dropped_topic_keeps_no_index():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"x", tag="a")
    topic.delete(match="a")
    state = topic._state

    world.store.delete_topic("t")

    assert state.tags is None


def test_tags_that_are_not_ascii_sort_as_they_are_matched():
    world = World(segment=SegmentSettings(seal_bytes=1))
    topic = world.store.topic("t")
    tags = ["é", "éa", "z", "\U0001f600", "\ue000", "é\x00", ""]
    topic.append_many([tag.encode() for tag in tags], tags=tags)

    assert topic.delete(match="é").deleted == 1
    world.store.checkpoint()
    assert topic.delete(match="é*").deleted == 2
    assert [record.tag for record in read_all(topic)] == ["z", "\U0001f600", "\ue000", ""]
    assert topic.delete(match="*").deleted == 4


def test_a_store_that_is_closed_says_so():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"x", tag="a")
    topic.delete(match="a")
    world.store.close()

    with pytest.raises(strandline.errors.Closed):
        topic.delete(match="a")
