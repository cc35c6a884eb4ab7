"""Promise (H6): a wrong argument of a read, a wait, a delete or an opening is said to be wrong.

Every case must raise ``Invalid`` with the argument's name, and change nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from strandline.config.settings import (
    LimitSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    WalSettings,
)
from strandline.errors import Invalid
from strandline.testing.sim_disk import SimDisk
from tests.unit.store.world import World, payloads

NO_NUMBER = ["1", 1.0, b"1", [], True, frozenset()]
NAN = float("nan")


@pytest.mark.parametrize("value", [*NO_NUMBER, None], ids=repr)
@pytest.mark.parametrize("name", ["after", "limit", "size_max"])
def test_a_number_of_a_read_that_is_none_is_refused(name, value):
    topic = World().store.topic("t")

    with pytest.raises(Invalid, match=name):
        topic.read(**{name: value})


@pytest.mark.parametrize("value", NO_NUMBER, ids=repr)
def test_a_seq_a_time_or_an_epoch_that_is_no_whole_number_is_refused(value):
    topic = World().store.topic("t")
    topic.append(b"x")

    for name, call in (
        ("epoch", lambda: topic.read(epoch=value)),
        ("ts", lambda: topic.cursor_at(value)),
        ("before", lambda: topic.delete(before=value)),
        ("after", lambda: topic.wait_for(value)),
        ("after", lambda: topic.follow(value)),
    ):
        with pytest.raises(Invalid, match=f"{name} is a whole number"):
            call()

    assert payloads(topic) == [b"x"]


@pytest.mark.parametrize("value", ["1", b"1", [], True, NAN], ids=repr)
def test_a_timeout_that_is_no_time_is_refused_before_anybody_waits(value):
    topic = World().store.topic("t")

    for call in (topic.wait_for, topic.follow):
        with pytest.raises(Invalid, match="timeout_s"):
            call(0, timeout_s=value)


@pytest.mark.parametrize("value", [5, b"n", ["n"]], ids=repr)
def test_a_text_that_is_none_is_refused(value):
    world = World()
    topic = world.store.topic("t")
    topic.append(b"x", tag="n", node="n")

    for call in (
        lambda: topic.read(node=value),
        lambda: list(topic.follow(node=value, timeout_s=0)),
        lambda: topic.delete(match=value),
        lambda: world.store.topics(value),
    ):
        with pytest.raises(Invalid, match=r"text|tag"):
            call()

    assert payloads(topic) == [b"x"]


@pytest.mark.parametrize("path", [None, 5, b"data", "", ["data"]], ids=repr)
def test_a_path_that_is_none_is_refused(path):
    disk = SimDisk()

    for readonly in (False, True):
        with pytest.raises(Invalid, match="directory"):
            strandline.open(path, disk=disk, readonly=readonly)

    assert disk.list_dir("/") == []


def test_a_path_object_names_a_store(tmp_path: Path):
    with strandline.open(tmp_path / "data") as store:
        store.topic("t").append(b"x")

    assert (tmp_path / "data" / "SYSTEM").exists()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "Settings"),
        (WalSettings(), "Settings"),
        (Settings(wal=SegmentSettings()), "wal"),
        (Settings(wal=WalSettings(shards="2")), "wal.shards"),
        (Settings(wal=WalSettings(sync_interval_ms=None)), "wal.sync_interval_ms"),
        (Settings(wal=WalSettings(file_size_first=-1)), "wal.file_size_first"),
        (Settings(segment=SegmentSettings(block_records=2.5)), "segment.block_records"),
        (Settings(segment=SegmentSettings(seal_idle_s=NAN)), "segment.seal_idle_s"),
        (Settings(segment=SegmentSettings(compression="gzip")), "segment.compression"),
        (Settings(limits=LimitSettings(topics_max=True)), "limits.topics_max"),
        (Settings(space=SpaceSettings(free_bytes_hard=-5)), "space.free_bytes_hard"),
    ],
    ids=repr,
)
def test_a_setting_that_is_none_is_refused_by_its_name(settings, name):
    disk = SimDisk()

    with pytest.raises(Invalid, match=name):
        strandline.open("/data", disk=disk, settings=settings)

    assert disk.list_dir("/") == []


@pytest.mark.parametrize("value", ["text", 1, None, bytearray(b"x"), []], ids=repr)
def test_a_job_or_a_point_that_is_no_bytes_is_refused_and_not_stored(value):
    store = World().store
    queue, series = store.queue("q"), store.series("s")

    for call in (lambda: queue.put(value), lambda: series.append("a", 1, value)):
        with pytest.raises(Invalid, match="bytes"):
            call()

    assert store.existing_topic("q").head_seq == store.existing_topic("s").head_seq == 0
