"""Promise (E10, C8, D14): one writer opens a store, wholly or not at all, and is told why not."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
from xxhash import xxh3_64_hexdigest

import strandline
from strandline.config.settings import Settings, WalSettings
from strandline.errors import (
    Closed,
    Invalid,
    Locked,
    NotAStore,
    StrandlineError,
    Unavailable,
    UnsupportedFormat,
)
from strandline.testing.sim_disk import SimDisk
from tests.unit.store.world import PATH, World, payloads

CHILD = """
import sys, strandline
with strandline.open(sys.argv[1]) as store:
    store.topic("t").append(b"from the child")
"""


def _child(path: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, path]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_second_writer_in_the_same_process_is_refused():
    world = World()

    with pytest.raises(Locked):
        world.open()

    assert world.store.topic("t").append(b"x").first_seq == 1


def test_a_second_writer_in_another_process_is_refused_until_the_first_closes(data_dir):
    with strandline.open(data_dir) as store:
        store.topic("t").append(b"mine")
        refused = _child(data_dir)

    accepted = _child(data_dir)

    assert "Locked" in refused.stderr
    assert accepted.returncode == 0, accepted.stderr
    with strandline.open(data_dir) as store:
        assert payloads(store.topic("t")) == [b"mine", b"from the child"]


def test_an_opening_that_fails_lets_go_of_the_lock():
    world = World()
    world.store.close()
    world.disk.fail("make_dirs", path_contains="wal", errno=errno.EIO)

    with pytest.raises(Unavailable, match="Input/output"):
        world.open()
    world.store = world.open()

    assert world.store.topic("t").append(b"x").first_seq == 1


@pytest.mark.parametrize("shards", [0, -1, 65])
def test_a_count_of_shards_that_makes_no_sense_is_refused(shards):
    disk = SimDisk()

    with pytest.raises(Invalid, match="shards"):
        strandline.open(PATH, disk=disk, settings=Settings(wal=WalSettings(shards=shards)))

    strandline.open(PATH, disk=disk, start_jobs=False).close()


def test_a_directory_with_other_things_is_left_as_it_is(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")

    for readonly in (False, True):
        with pytest.raises(NotAStore):
            strandline.open(str(tmp_path), readonly=readonly)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("x")

    for readonly in (False, True):
        with pytest.raises(StrandlineError):
            strandline.open(str(tmp_path / "file"), readonly=readonly)


def test_reading_a_directory_that_does_not_exist_makes_none(data_dir):
    with pytest.raises(NotAStore):
        strandline.open(data_dir, readonly=True)

    assert not os.path.exists(data_dir)


def test_a_path_of_several_new_directories_is_made(tmp_path):
    path = str(tmp_path / "a" / "b" / "c")

    with strandline.open(path) as store:
        store.topic("t").append(b"x")

    assert os.path.isdir(path)


@pytest.mark.parametrize("operation", ["make_dirs", "lock"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_directory_without_rights_is_unavailable_for_writing_only(operation, code):
    world = World()
    world.store.topic("t").append(b"x")
    world.store.close()
    world.disk.fail(operation, errno=code, once=False)

    with pytest.raises(Unavailable, match="readonly=True"):
        world.open()

    assert payloads(world.open(readonly=True).topic("t")) == [b"x"]


@pytest.mark.parametrize("readonly", [False, True])
def test_a_store_of_a_newer_format_is_refused_untouched(readonly):
    world = World()
    world.store.topic("t").append(b"x")
    world.store.close()
    fields = json.loads(world.disk.read(f"{PATH}/SYSTEM"))
    fields |= {"format": 99, "checksum": ""}
    line = json.dumps(fields, separators=(",", ":")).encode()
    fields["checksum"] = xxh3_64_hexdigest(line)
    sealed = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
    world.disk.durable_replace(f"{PATH}/SYSTEM", sealed)
    before = {path: world.disk.read(path) for path in world.files() if "LOCK" not in path}

    with pytest.raises(UnsupportedFormat, match="99"):
        world.open(readonly=readonly)

    assert before == {path: world.disk.read(path) for path in before}


def test_closing_twice_is_fine_and_everything_afterwards_says_closed():
    world = World()
    store, topic = world.store, world.store.topic("t")
    topic.append(b"x")
    topic.append_many([b"y"])

    store.close()
    store.close()

    for call in (
        lambda: store.topic("t"),
        lambda: store.create_topic("u"),
        lambda: store.existing_topic("t"),
        lambda: store.delete_topic("t"),
        store.topics,
        store.sync,
        store.checkpoint,
        topic.read,
        lambda: topic.cursor_at(0),
        lambda: topic.append(b"x"),
        lambda: topic.append_many([b"x"]),
        lambda: topic.append_nowait(b"x", tag="t"),
        lambda: topic.delete(before=1),
        lambda: topic.alter(ttl_ms=1),
        lambda: topic.wait_for(99),
    ):
        with pytest.raises(Closed):
            call()
    assert store.health().status == "red"


def test_a_page_read_before_the_close_can_be_decoded_after_it():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"x", b"y"])
    page = topic.read()

    world.store.close()

    assert page.data == [b"x", b"y"]
    assert page.arrow().num_rows == 2


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_clean_close_loses_nothing_even_when_the_power_fails_behind_it(durability):
    world = World()
    topic = world.store.topic("t", durability=durability)
    topic.append_many([b"1", b"2"])
    topic.append(b"3")
    world.store.close()

    for after in world.disk.crash_states(limit=50):
        world.disk = after
        with world.open(readonly=True) as store:
            assert payloads(store.topic("t")) == [b"1", b"2", b"3"]
        with world.open() as store:
            again = store.topic("t")
            assert (payloads(again), again.read().tombstone) == ([b"1", b"2", b"3"], None)


def test_an_idle_opening_leaves_no_file_behind():
    world = World()
    world.store.topic("t").append(b"x")
    world.store.checkpoint()
    world.reopen()
    before = world.files()

    for _ in range(5):
        world.reopen()

    assert world.files() == before


def test_an_unclosed_store_in_a_with_block_is_closed_by_an_error(data_dir):
    def fail_inside() -> None:
        with strandline.open(data_dir) as store:
            store.topic("t").append(b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    with strandline.open(data_dir) as store:
        assert payloads(store.topic("t")) == [b"x"]


def test_the_path_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with strandline.open("data") as store:
        store.topic("t").append(b"x")
        monkeypatch.chdir("/")
        store.checkpoint()

    with strandline.open(str(tmp_path / "data")) as store:
        assert payloads(store.topic("t")) == [b"x"]


@pytest.mark.parametrize(("call", "where"), [("make_dirs", "quarantine"), ("rename", "segments")])
def test_a_segment_that_nothing_refers_to_stays_where_it_is_when_there_is_no_room(call, where):
    world = World()
    topic = world.store.topic("t")
    topic.append(b"x")
    world.store.checkpoint()
    world.store.close()
    orphan = f"{PATH}/segments/shared/0000000000000009.seg"
    world.disk.durable_replace(orphan, b"of a checkpoint that was never finished")
    fault = world.disk.fail(call, path_contains=where, errno=errno.ENOSPC)

    world.store = world.open()

    assert fault.fired == 1
    assert payloads(world.store.topic("t")) == [b"x"]
    assert orphan in world.files()
    world.reopen()
    assert orphan not in world.files()
    assert len(world.files("quarantine")) == 1
