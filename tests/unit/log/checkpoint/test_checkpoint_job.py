"""Promise (D8, D9, V5): moving records into segments changes where they are and nothing else.

Sealing, merging and the removal of old files keep every record readable, before and after a
restart; the log does not grow for ever, and many small topics share few files.
"""

from __future__ import annotations

import itertools

import pytest

import strandline
from strandline.config.settings import SegmentSettings, WalSettings
from strandline.log.checkpoint.sealer import MERGED_AT_ONCE, to_merge
from strandline.log.repair.inspect import inspect_store
from tests.unit.store.world import PATH, World, payloads, read_all

SETTINGS = [
    {},
    {"seal_bytes": 1},
    {"seal_bytes": 3000, "shared_files_max": 2},
    {"seal_records": 50, "block_records": 3},
    {"compression": "zstd", "block_records": 1, "shared_files_max": 1},
    {"compression": "zstd", "seal_bytes": 2000, "cache_bytes": 0},
]


@pytest.mark.parametrize("segment", SETTINGS, ids=str)
def test_everything_stays_readable_through_checkpoints_seals_and_merges(segment):
    world = World(segment=SegmentSettings(**segment))
    names = ("a", "b", "c")
    expected = {name: [] for name in names}

    for step, name in itertools.product(range(14), names):
        topic = world.store.topic(name)
        data = [b"%s %d %d" % (name.encode(), step, row) for row in range(1 + step % 5)]
        topic.append_many(data, tags=[f"t{step % 3}"] * len(data))
        topic.append(b"single %d" % step, key=b"k")
        expected[name] += [*data, b"single %d" % step]
        if step % 2:
            world.store.checkpoint()
        if step == 7:
            world.reopen()
        elif step == 11:
            world.kill()
        assert payloads(world.store.topic(name)) == expected[name]

    world.store.checkpoint()
    world.reopen()
    for name in names:
        assert payloads(world.store.topic(name)) == expected[name]


def test_records_that_come_during_a_checkpoint_are_kept():
    world = World(segment=SegmentSettings(block_records=2))
    topic = world.store.topic("t")
    numbers = itertools.count()
    expected = []

    def append_more(operation: str, _: str) -> None:
        if operation in ("create", "commit", "durable_replace", "remove"):
            number = b"%d" % next(numbers)
            expected.append(number)
            topic.append_many([number]) if len(expected) % 2 else topic.append(number)

    for _ in range(4):
        topic.append(b"before")
        expected.append(b"before")
        world.disk.on_call = append_more
        world.store.checkpoint()
        world.disk.on_call = None
        assert payloads(topic) == expected

    assert payloads(world.kill().topic("t")) == expected


@pytest.mark.parametrize("operation", ["create", "commit", "durable_replace", "remove", "list_dir"])
def test_deletes_and_retention_during_a_checkpoint_hold_after_a_restart(operation):
    world = World(segment=SegmentSettings(block_records=2, shared_files_max=1))
    topic = world.store.topic("t", cap_records=30)
    for step in range(6):
        topic.append_many([b"%d" % step] * 5, tags=["x", "y", "x", "y", None])
        done = []

        def interfere(called: str, _: str, done: list[str] = done) -> None:
            if called == operation and not done:
                done.append(called)
                topic.append(b"late", tag="y")
                topic.delete(match="y")
                topic.delete(before=max(1, topic.head_seq - 12))
                topic.enforce_retention()

        world.disk.on_call = interfere
        world.store.checkpoint()
        world.disk.on_call = None
    before, found = read_all(topic), topic.statistics()

    again = world.kill().topic("t")

    assert read_all(again) == before
    assert again.statistics() == found
    world.store.checkpoint()
    assert read_all(again) == before


def test_the_log_is_given_back_after_two_checkpoints():
    world = World(wal=WalSettings(file_size_first=8192, file_size_max=8192))
    topic = world.store.topic("t")
    for _ in range(200):
        topic.append(b"x" * 200)
    before = len(world.files("wal"))

    for _ in range(3):
        topic.append(b"y")
        world.store.checkpoint()

    assert before >= 6
    assert len(world.files("wal")) <= 2
    assert len(payloads(world.reopen().topic("t"))) == 203


@pytest.mark.parametrize("segment", SETTINGS, ids=str)
def test_two_checkpoints_are_kept_with_all_they_need(segment):
    world = World(segment=SegmentSettings(**segment))
    topic = world.store.topic("t")
    world.store.checkpoint()
    for number in range(1, 12):
        topic.append_many([b"%d" % number] * 10, tags=["x"] * 10)
        topic.delete(before=number * 3)
        world.store.checkpoint()
        roots = world.files("meta")
        damaged = world.disk.kill()
        damaged.durable_replace(roots[-1], b"damaged")

        with strandline.open("/data", disk=damaged, start_jobs=False) as store:
            assert read_all(store.topic("t")) == read_all(topic)
            assert store.health().status == "yellow"
        assert len(roots) == 2


def test_a_checkpoint_of_nothing_new_is_harmless():
    world = World()
    world.store.checkpoint()
    world.store.topic("t").append(b"x")

    for _ in range(5):
        world.store.checkpoint()

    assert len(world.files("segments")) == 1
    assert payloads(world.reopen().topic("t")) == [b"x"]


def test_a_large_topic_gets_files_of_its_own_and_small_ones_share():
    world = World(segment=SegmentSettings(seal_bytes=2000))
    world.store.topic("large").append_many([b"x" * 100] * 50)
    for number in range(10):
        world.store.topic(f"small{number}").append(b"x")

    world.store.checkpoint()

    paths = world.files("segments")
    assert sum("/shared/" in path for path in paths) == 1
    assert len(paths) == 2


def test_a_topic_that_has_grown_in_shared_files_is_sealed():
    world = World(segment=SegmentSettings(seal_bytes=2000, shared_files_max=100))
    topic = world.store.topic("t")

    for number in range(25):
        topic.append(b"%03d" % number * 33)
        world.store.checkpoint()

    own = [path for path in world.files("segments") if "/shared/" not in path]
    assert own
    assert payloads(topic) == [b"%03d" % number * 33 for number in range(25)]


def test_a_topic_that_is_idle_is_sealed_when_it_is_worth_a_file():
    settings = SegmentSettings(seal_idle_s=60, own_bytes_min=500)
    world = World(segment=settings)
    world.store.topic("worth").append(b"x" * 600)
    world.store.topic("small").append(b"x" * 10)
    world.store.checkpoint()

    world.clock.advance(61)
    world.store.checkpoint()

    paths = world.files("segments")
    assert [path for path in paths if "/shared/" not in path]
    assert payloads(world.store.topic("small")) == [b"x" * 10]
    assert payloads(world.reopen().topic("worth")) == [b"x" * 600]


def test_two_thousand_small_topics_share_few_files():
    world = World(segment=SegmentSettings(shared_files_max=4))
    for step in range(8):
        for number in range(2000):
            world.store.topic(f"t{number}").append(b"%d %d" % (number, step))
        world.store.checkpoint()

    again = world.reopen()

    assert len(world.files()) < 30
    assert len(again.topics()) == 2000
    for number in (0, 1, 999, 1999):
        assert payloads(again.topic(f"t{number}")) == [b"%d %d" % (number, s) for s in range(8)]


def test_records_below_the_floor_leave_the_disk():
    world = World(segment=SegmentSettings(seal_bytes=5000))
    topic = world.store.topic("t", cap_records=10)
    for _ in range(40):
        topic.append_many([b"x" * 100] * 20)
        topic.read()
        world.store.checkpoint()

    stored = sum(len(world.disk.read(path)) for path in world.files("segments"))

    assert stored < 60_000
    assert len(payloads(topic)) == 10


@pytest.mark.parametrize(
    ("sizes", "files_max", "expected"),
    [
        ([], 4, None),
        ([1] * 4, 4, None),
        ([1] * 5, 4, 0),
        ([9, 9, 1, 1, 1, 1], 4, 2),
        ([1, 1, 1], 1, None),
        ([5, 4, 3, 2, 1], 0, 1),
    ],
)
def test_the_cheapest_neighbours_are_merged(sizes, files_max, expected):
    assert MERGED_AT_ONCE == 4
    assert to_merge(sizes, files_max) == expected


def test_a_checkpoint_is_due_by_size_by_time_and_never_without_news():
    world = World(
        wal=WalSettings(file_size_first=1 << 18, file_size_max=1 << 18),
        segment=SegmentSettings(checkpoint_bytes=100_000, checkpoint_interval_s=60),
    )
    due = world.store._checkpointer.is_due
    topic = world.store.topic("t")
    world.store.checkpoint()

    quiet = due()
    world.clock.advance(3600)
    still_quiet = due()
    topic.append(b"x")
    aged = due()
    world.store.checkpoint()
    topic.append(b"x")
    fresh = due()
    topic.append_many([b"x" * 1000] * 100)

    assert (quiet, still_quiet, aged, fresh, due()) == (False, False, True, False, True)


def test_checkpoints_are_as_rare_as_the_setting_says_however_large_a_log_file_is():
    world = World(
        wal=WalSettings(file_size_first=1 << 18, file_size_max=1 << 18),
        segment=SegmentSettings(checkpoint_bytes=5_000, checkpoint_interval_s=3600),
    )
    topic = world.store.topic("t")
    checkpoints = 0

    for _ in range(200):
        topic.append(b"x" * 100)
        if world.store._checkpointer.is_due():
            world.store.checkpoint()
            checkpoints += 1
    bytes_logged = world.store._shards[0].writer.end_lsn

    assert bytes_logged // 5_000 - 1 <= checkpoints <= bytes_logged // 5_000


def test_log_files_that_hold_little_make_a_checkpoint_due_until_they_are_gone():
    world = World(
        wal=WalSettings(file_size_first=1 << 18, file_size_max=1 << 18),
        segment=SegmentSettings(checkpoint_bytes=200_000, checkpoint_interval_s=3600),
    )
    for _ in range(8):
        world.reopen().topic("t").append(b"x")
    checkpoints = 0

    for _ in range(20):
        world.store.topic("t").append(b"x")
        if world.store._checkpointer.is_due():
            world.store.checkpoint()
            checkpoints += 1

    assert 1 <= checkpoints <= 3
    assert len(world.store._shards[0].writer.files.entries) == 1


@pytest.mark.parametrize("singles", [False, True])
def test_a_log_that_outgrew_its_checkpoints_is_taken_in_parts(singles):
    part = 4_000
    segment = SegmentSettings(checkpoint_bytes=part, seal_bytes=1 << 30, shared_files_max=1_000)
    world = World(segment=segment)
    expected = {"a": [], "b": []}
    for step in range(60):
        for name, topic in (("a", world.store.topic("a")), ("b", world.store.topic("b"))):
            data = [b"%s %03d %03d" % (name.encode(), step, row) * 20 for row in range(2)]
            for each in data if singles else ():
                topic.append(each)
            if not singles:
                topic.append_many(data)
            expected[name] += data
    payload = sum(map(len, [*expected["a"], *expected["b"]]))

    world.store.checkpoint()

    segments = inspect_store(world.disk, PATH).segments
    sizes = [segment.info.payload_size for segment in segments]
    assert sum(sizes) == payload
    assert len(sizes) >= payload // part
    assert max(sizes) < part + max(len(each) for each in expected["a"]) * 2
    assert {name: payloads(world.store.topic(name)) for name in expected} == expected
    assert {name: payloads(world.reopen().topic(name)) for name in expected} == expected
