"""Promise: every disk behaves the same. What holds on the real one holds on the simulated one."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.platform.disk import Disk, OsDisk
from strandline.testing.sim_disk import SimDisk


class World:
    """A disk and a fresh directory on it."""

    def __init__(self, disk: Disk, root: str) -> None:
        self.disk = disk
        self.root = root
        disk.make_dirs(root)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


@pytest.fixture(params=["os", "sim"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    disk: Disk = OsDisk() if request.param == "os" else SimDisk()
    return World(disk, str(tmp_path / "root"))


def test_reserve_makes_a_file_of_zeros_that_must_not_exist(world: World) -> None:
    world.disk.reserve(world.path("log"), 5000)

    content = world.disk.read(world.path("log"))

    assert content == bytes(5000)
    with pytest.raises(FileExistsError):
        world.disk.reserve(world.path("log"), 5000)


def test_prepare_makes_a_file_of_zeros(world: World):
    path = world.path("log")

    world.disk.prepare(path, 70_001)

    assert world.disk.read(path) == bytes(70_001)


def test_prepare_refuses_a_name_that_exists(world: World):
    path = world.path("log")
    world.disk.durable_replace(path, b"old")

    with pytest.raises(FileExistsError):
        world.disk.prepare(path, 100)

    assert world.disk.read(path) == b"old"


def test_prepare_in_an_absent_directory_is_an_error(world: World):
    with pytest.raises(FileNotFoundError):
        world.disk.prepare(world.path("absent/log"), 100)


def test_reading_stops_at_the_end_of_the_file(world: World):
    world.disk.durable_replace(world.path("file"), b"0123456789")
    file = world.disk.open_read(world.path("file"))

    parts = [file.pread(4, 0), file.pread(4, 8), file.pread(4, 10), file.pread(4, 99)]

    assert parts == [b"0123", b"89", b"", b""]
    assert file.size() == 10
    file.close()


def test_a_negative_offset_is_an_error(world: World):
    world.disk.durable_replace(world.path("file"), b"0123456789")
    file = world.disk.open_read(world.path("file"))

    with pytest.raises(OSError, match="Invalid argument"):
        file.pread(4, -1)

    file.close()


def test_an_empty_file_reads_as_no_bytes(world: World):
    world.disk.durable_replace(world.path("file"), b"")

    assert world.disk.read(world.path("file")) == b""


@pytest.mark.parametrize("call", ["read", "open_read", "open_log"])
def test_opening_an_absent_file_is_an_error(world: World, call: str):
    with pytest.raises(FileNotFoundError):
        getattr(world.disk, call)(world.path("absent"))


def test_reading_a_directory_is_an_error(world: World):
    with pytest.raises(IsADirectoryError):
        world.disk.read(world.root)


def test_a_closed_file_cannot_be_used(world: World):
    world.disk.prepare(world.path("log"), 512)
    file = world.disk.open_log(world.path("log"))
    file.close()
    file.close()

    for use in (lambda: file.pread(1, 0), lambda: file.write(0, [b"x"]), file.sync):
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


def test_an_empty_file_is_no_log_file(world: World):
    world.disk.durable_replace(world.path("log"), b"")

    with pytest.raises(OSError, match="log"):
        world.disk.open_log(world.path("log"))


def test_stores_and_writes_are_read_at_once(world: World):
    world.disk.prepare(world.path("log"), 4096)
    file = world.disk.open_log(world.path("log"))
    reader = world.disk.open_read(world.path("log"))

    file.mapping[10:15] = b"store"
    file.write(15, [b"-", bytearray(b"wri"), memoryview(b"te")])
    file.mapping[16:17] = b"W"

    assert file.pread(11, 10) == b"store-Write"
    assert reader.pread(11, 10) == b"store-Write"
    file.sync()
    reader.close()
    file.close()


def test_more_buffers_than_one_call_takes_are_all_written(world: World):
    world.disk.prepare(world.path("log"), 8192)
    file = world.disk.open_log(world.path("log"))

    file.write(100, [b"ab"] * 3000)

    assert file.pread(6000, 100) == b"ab" * 3000
    file.close()


def test_a_store_of_the_wrong_size_is_refused(world: World):
    world.disk.prepare(world.path("log"), 512)
    file = world.disk.open_log(world.path("log"))

    with pytest.raises(IndexError):
        file.mapping[0:3] = b"four"
    with pytest.raises(IndexError):
        file.mapping[510:514] = b"four"

    assert file.pread(512, 0) == bytes(512)
    file.close()


def test_an_open_file_outlives_its_name(world: World):
    world.disk.prepare(world.path("log"), 512)
    file = world.disk.open_log(world.path("log"))

    world.disk.remove(world.path("log"))
    file.mapping[0:4] = b"here"
    file.sync()

    assert file.pread(4, 0) == b"here"
    assert not world.disk.exists(world.path("log"))
    file.close()


def test_durable_replace_makes_and_replaces_and_leaves_nothing_aside(world: World):
    path = world.path("file")

    world.disk.durable_replace(path, b"a long first content")
    world.disk.durable_replace(path, memoryview(b"second"))

    assert world.disk.read(path) == b"second"
    assert world.disk.list_dir(world.root) == ["file"]


def test_durable_replace_in_an_absent_directory_is_an_error(world: World):
    with pytest.raises(FileNotFoundError):
        world.disk.durable_replace(world.path("absent/file"), b"content")


def test_durable_replace_of_a_directory_fails_and_cleans_up(world: World):
    world.disk.make_dirs(world.path("dir"))

    with pytest.raises(IsADirectoryError):
        world.disk.durable_replace(world.path("dir"), b"content")

    assert world.disk.list_dir(world.root) == ["dir"]


def test_a_created_file_has_its_name_only_after_commit(world: World):
    file = world.disk.create(world.path("file"))

    offsets = [file.write([b"abc", b"def"]), file.write([b""]), file.write([b"g"])]
    before = world.disk.exists(world.path("file"))
    file.commit()
    file.abandon()

    assert offsets == [0, 6, 6]
    assert not before
    assert world.disk.read(world.path("file")) == b"abcdefg"
    assert world.disk.list_dir(world.root) == ["file"]


def test_a_new_file_does_not_take_the_name_of_another(world: World):
    world.disk.make_dirs(world.path("aside"))
    first = world.disk.create(world.path("file"), aside=world.path("aside/1"))
    second = world.disk.create(world.path("file"), aside=world.path("aside/2"))
    first.write([b"first"])
    second.write([b"second"])

    first.commit_new()
    with pytest.raises(FileExistsError):
        second.commit_new()
    second.abandon()

    assert world.disk.read(world.path("file")) == b"first"
    assert world.disk.list_dir(world.root) == ["aside", "file"]
    assert world.disk.list_dir(world.path("aside")) == []
    for use in (lambda: first.write([b"more"]), first.commit_new):
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


def test_the_time_of_writing_is_told_for_files_that_exist(world: World):
    world.disk.durable_replace(world.path("file"), b"")

    assert world.disk.modified_us(world.path("file")) >= 0
    with pytest.raises(FileNotFoundError):
        world.disk.modified_us(world.path("absent"))


def test_an_abandoned_file_leaves_nothing(world: World):
    world.disk.durable_replace(world.path("file"), b"old")
    file = world.disk.create(world.path("file"))
    file.write([b"new"])

    file.abandon()
    file.abandon()

    assert world.disk.read(world.path("file")) == b"old"
    assert world.disk.list_dir(world.root) == ["file"]
    for use in (lambda: file.write([b"more"]), file.commit):
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


def test_what_a_dead_process_left_aside_is_overwritten(world: World):
    world.disk.prepare(world.path("file.tmp"), 4096)

    file = world.disk.create(world.path("file"))
    file.write([b"fresh"])
    file.commit()

    assert world.disk.read(world.path("file")) == b"fresh"


def test_rename_replaces_a_file(world: World):
    world.disk.durable_replace(world.path("old"), b"mine")
    world.disk.durable_replace(world.path("new"), b"theirs")

    world.disk.rename(world.path("old"), world.path("new"))
    world.disk.sync_dir(world.root)

    assert world.disk.read(world.path("new")) == b"mine"
    assert world.disk.list_dir(world.root) == ["new"]


def test_rename_takes_a_directory_with_its_content(world: World):
    world.disk.make_dirs(world.path("a/inner"))
    world.disk.durable_replace(world.path("a/inner/file"), b"content")
    world.disk.make_dirs(world.path("b"))

    world.disk.rename(world.path("a"), world.path("b/moved"))

    assert world.disk.read(world.path("b/moved/inner/file")) == b"content"
    assert world.disk.list_dir(world.root) == ["b"]


def test_rename_to_itself_changes_nothing(world: World):
    world.disk.durable_replace(world.path("file"), b"content")

    world.disk.rename(world.path("file"), world.path("file"))

    assert world.disk.read(world.path("file")) == b"content"


def test_rename_refuses_what_cannot_be(world: World):
    world.disk.make_dirs(world.path("full/inner"))
    world.disk.make_dirs(world.path("dir"))
    world.disk.durable_replace(world.path("file"), b"content")

    for old, new in [
        ("absent", "new"),
        ("dir", "full"),
        ("dir", "file"),
        ("file", "dir"),
        ("full", "full/inner/self"),
        ("file", "absent/file"),
    ]:
        with pytest.raises(OSError, match=old):
            world.disk.rename(world.path(old), world.path(new))

    assert world.disk.list_dir(world.root) == ["dir", "file", "full"]


def test_remove_takes_files_and_empty_directories_and_accepts_absence(world: World):
    world.disk.durable_replace(world.path("file"), b"content")
    world.disk.make_dirs(world.path("dir"))

    for name in ("file", "dir", "absent", "absent/too"):
        world.disk.remove(world.path(name))

    assert world.disk.list_dir(world.root) == []


def test_remove_refuses_a_directory_with_content(world: World):
    world.disk.make_dirs(world.path("dir/inner"))

    with pytest.raises(OSError, match="dir"):
        world.disk.remove(world.path("dir"))

    assert world.disk.is_dir(world.path("dir/inner"))


def test_names_are_listed_in_order(world: World):
    for name in ("b", "a10", "a9", "B"):
        world.disk.durable_replace(world.path(name), b"")

    assert world.disk.list_dir(world.root) == ["B", "a10", "a9", "b"]


def test_an_absent_directory_lists_as_empty_and_a_file_does_not_list(world: World):
    world.disk.durable_replace(world.path("file"), b"")

    assert world.disk.list_dir(world.path("absent")) == []
    with pytest.raises(NotADirectoryError):
        world.disk.list_dir(world.path("file"))


def test_make_dirs_makes_parents_and_accepts_existing(world: World):
    world.disk.make_dirs(world.path("a/b/c"))
    world.disk.make_dirs(world.path("a/b/c"))
    world.disk.make_dirs(world.path("a/b/c/"))
    world.disk.make_dirs("/")

    assert world.disk.is_dir(world.path("a/b/c"))
    assert world.disk.list_dir(world.path("a/b")) == ["c"]


def test_make_dirs_refuses_a_file_of_that_name(world: World):
    world.disk.durable_replace(world.path("file"), b"")

    for name in ("file", "file/inner"):
        with pytest.raises(OSError, match="file"):
            world.disk.make_dirs(world.path(name))

    assert not world.disk.is_dir(world.path("file"))


def test_exists_and_is_dir_tell_files_from_directories(world: World):
    world.disk.make_dirs(world.path("dir"))
    world.disk.durable_replace(world.path("file"), b"")

    told = {
        name: (world.disk.exists(world.path(name)), world.disk.is_dir(world.path(name)))
        for name in ("dir", "file", "absent", "file/below")
    }

    assert told == {
        "dir": (True, True),
        "file": (True, False),
        "absent": (False, False),
        "file/below": (False, False),
    }


def test_sync_dir_of_an_absent_directory_is_an_error(world: World):
    with pytest.raises(FileNotFoundError):
        world.disk.sync_dir(world.path("absent"))


def test_a_lock_excludes_until_it_is_released(world: World):
    held = world.disk.lock(world.path("LOCK"), b"a first and longer owner")

    refused = world.disk.lock(world.path("LOCK"), b"second")
    other = world.disk.lock(world.path("OTHER"), b"other")

    assert held is not None
    assert other is not None
    assert refused is None
    assert world.disk.read(world.path("LOCK")) == b"a first and longer owner"
    held.release()
    other.release()


def test_a_released_lock_can_be_taken_again_and_is_released_once(world: World):
    first = world.disk.lock(world.path("LOCK"), b"a first and longer owner")
    assert first is not None
    first.release()

    second = world.disk.lock(world.path("LOCK"), b"second")
    first.release()

    assert second is not None
    assert world.disk.read(world.path("LOCK")) == b"second"
    assert world.disk.lock(world.path("LOCK"), b"third") is None
    second.release()


def test_a_boot_has_one_id_and_random_ids_differ(world: World):
    ids = {world.disk.random_id() for _ in range(100)}

    assert world.disk.boot_id() == world.disk.boot_id()
    assert len(ids) == 100
    assert {len(each) for each in ids} == {16}


def test_free_bytes_are_told_for_an_existing_directory(world: World):
    assert world.disk.free_bytes(world.root) > 0
    with pytest.raises(FileNotFoundError):
        world.disk.free_bytes(world.path("absent"))
