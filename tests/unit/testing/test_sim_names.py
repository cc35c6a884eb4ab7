"""Promise: a name that was not synced may be lost, in the ways of a journal; a synced one never."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.testing.crash_choices import Oldest
from strandline.testing.sim_disk import SimDisk


def test_a_rename_may_be_lost_until_the_directory_is_synced():
    disk = SimDisk()
    disk.durable_replace("/old", b"content")
    disk.rename("/old", "/new")

    before = {tuple(after.list_dir("/")) for after in disk.crash_states()}
    disk.sync_dir("/")
    synced = {tuple(after.list_dir("/")) for after in disk.crash_states()}

    assert before == {("old",), ("new",)}
    assert synced == {("new",)}


def test_a_file_renamed_without_a_sync_of_its_bytes_may_be_zeros():
    disk = SimDisk()
    disk.prepare("/aside", 512)
    disk.open_log("/aside").write(0, [b"x" * 512])

    disk.rename("/aside", "/current")
    disk.sync_dir("/")

    assert contents(disk, "/current") == {bytes(512), b"x" * 512}


def test_a_removed_file_may_come_back_until_the_directory_is_synced():
    disk = SimDisk()
    disk.durable_replace("/file", b"content")

    disk.remove("/file")

    assert contents(disk, "/file") == {None, b"content"}


def test_names_survive_in_the_order_of_the_journal():
    disk = SimDisk()
    for name in ("a", "b", "c"):
        disk.create(f"/{name}")

    found = {tuple(after.list_dir("/")) for after in disk.crash_states()}

    assert found == {(), ("a.tmp",), ("a.tmp", "b.tmp"), ("a.tmp", "b.tmp", "c.tmp")}


def test_names_may_survive_in_any_order_when_asked():
    disk = SimDisk()
    for name in ("a", "b", "c"):
        disk.create(f"/{name}")

    found = {tuple(after.list_dir("/")) for after in disk.crash_states(reorder_names=True)}

    assert len(found) == 2**3


def test_a_file_that_survives_under_two_names_is_one_file():
    disk = SimDisk()
    disk.prepare("/a", 512)
    disk.open_log("/a").write(0, [b"x" * 512])
    disk.rename("/a", "/b")
    disk.rename("/b", "/c")

    states = [after for after in disk.crash_states(reorder_names=True) if after.exists("/c")]

    assert {tuple(after.list_dir("/")) for after in states} == {("a", "c"), ("c",)}
    assert {(after.read("/a"), after.read("/c")) for after in states if after.exists("/a")} == {
        (bytes(512),) * 2,
        (b"x" * 512,) * 2,
    }


def test_what_is_made_after_a_crash_can_be_lost_in_the_next():
    disk = SimDisk().crash(Oldest())

    disk.create("/file")

    assert {tuple(after.list_dir("/")) for after in disk.crash_states()} == {(), ("file.tmp",)}


def test_a_rename_between_directories_is_never_half_done():
    disk = SimDisk()
    for name in ("/a", "/b"):
        disk.make_dirs(name)
    disk.durable_replace("/a/file", b"content")
    disk.create("/b/early")
    disk.rename("/a/file", "/b/file")

    before = {where_files_are(after) for after in disk.crash_states()}
    disk.sync_dir("/a")
    synced = {where_files_are(after) for after in disk.crash_states()}

    assert before == {"a/file", "a/file b/early.tmp", "b/early.tmp b/file"}
    assert synced == {"b/early.tmp b/file"}


def test_what_is_synced_in_a_directory_goes_when_its_own_name_goes():
    disk = SimDisk()
    killed: list[SimDisk] = []
    disk.on_call = lambda operation, _: (
        killed.append(disk.kill()) if "sync_dir" in operation else None
    )
    disk.make_dirs("/data")
    disk = killed[0]

    disk.durable_replace("/data/file", b"content")

    assert contents(disk, "/data/file") == {None, b"content"}
    disk.make_dirs("/data")
    assert contents(disk, "/data/file") == {b"content"}


@pytest.mark.parametrize("index", range(1, 6))
def test_durable_replace_is_old_or_new_at_every_step(index: int):
    disk = SimDisk()
    disk.durable_replace("/file", b"old" * 300)
    start, found = disk.calls_total, set()

    def look(_operation: str, _path: str) -> None:
        if disk.calls_total == start + index:
            found.update(contents(disk, "/file"))

    disk.on_call = look
    disk.durable_replace("/file", b"new" * 300)

    assert found
    assert found <= {b"old" * 300, b"new" * 300}
    assert contents(disk, "/file") == {b"new" * 300}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=8))
def test_a_name_synced_last_survives_every_crash(renames: list[tuple[str, str]]):
    disk = SimDisk()
    for number, (old, new) in enumerate(renames):
        disk.durable_replace(f"/{old}", b"%d" % number)
        disk.rename(f"/{old}", f"/{new}")
    disk.sync_dir("/")
    names = disk.list_dir("/")

    states = [disk.crash(random.Random(seed)) for seed in range(5)]

    for after in states:
        assert after.list_dir("/") == names
        assert [after.read(f"/{name}") for name in names] == [disk.read(f"/{n}") for n in names]


def where_files_are(disk: SimDisk) -> str:
    return " ".join(f"{name}/{file}" for name in "ab" for file in disk.list_dir(f"/{name}"))


def contents(disk: SimDisk, path: str) -> set[bytes | None]:
    """What the file may hold after a power loss; None when its name may be gone."""
    return {after.read(path) if after.exists(path) else None for after in disk.crash_states()}
