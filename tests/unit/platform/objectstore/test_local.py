"""Promise: an object in a local folder is there after any power loss once it was acknowledged.

D3, E2, for ``platform/objectstore/local.py``: a name never shows half an object, one of many
creators wins, a
failing disk costs the object and nothing else, and leftovers of dead writers are removed.
"""

from __future__ import annotations

import errno
import itertools
import threading
from pathlib import Path

import pytest

from strandline.errors import (
    DiskFull,
    Invalid,
    NotFound,
    ObjectExists,
    ObjectStoreDenied,
    Unavailable,
)
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects
from strandline.testing.fault_injection import STEPS
from strandline.testing.sim_disk import SimDisk

BODY = bytes(range(256)) * 5


def test_an_acknowledged_object_survives_any_power_loss():
    disk = SimDisk()
    lake = FolderObjects("lake", disk)
    lake.put("data/deep/a.parquet", BODY * 2)
    lake.create("manifest/1", BODY)

    states = [contents(FolderObjects("lake", after)) for after in disk.crash_states(200)]

    assert len(states) > 1
    assert all(state == {"manifest/1": BODY, "data/deep/a.parquet": BODY * 2} for state in states)


@pytest.mark.parametrize("reorder_names", [False, True])
@pytest.mark.parametrize("use", ["create", "put_stream"])
def test_a_power_loss_at_any_step_leaves_the_whole_object_or_none(use: str, reorder_names: bool):
    disk = SimDisk()
    lake = FolderObjects("lake", disk)
    lake.put("data/first", b"old")
    found: list[dict[str, bytes]] = []

    def lose_power(operation: str, path: str) -> None:
        disk.on_call = None
        for after in disk.crash_states(20, reorder_names=reorder_names):
            found.append(contents(FolderObjects("lake", after)))
        disk.on_call = lose_power

    disk.on_call = lose_power
    write(lake, use, "data/new/second")
    disk.on_call = None

    assert {frozenset(state) for state in found} == {
        frozenset({"data/first"}),
        frozenset({"data/first", "data/new/second"}),
    }
    assert all(state.get("data/new/second", BODY) == BODY for state in found)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("use", ["create", "put_stream"])
def test_any_call_to_the_disk_may_fail_and_the_object_is_whole_or_absent(use: str, code: int):
    for nth in itertools.count(1):
        disk = SimDisk()
        lake = FolderObjects("lake", disk)
        lake.put("first", b"old")
        fault = disk.fail("*", nth, errno=code)

        try:
            write(lake, use, "new/second")
            acknowledged = True
        except Unavailable:
            acknowledged = False
        if not fault.fired:
            break

        state = contents(lake)

        assert state["first"] == b"old"
        assert state.get("new/second", BODY) == BODY
        if acknowledged:
            assert all(
                contents(FolderObjects("lake", after))["new/second"] == BODY
                for after in disk.crash_states(20)
            )
        write(lake, use, "new/second")
        assert contents(lake)["new/second"] == BODY
    assert nth > len(STEPS["commit_new"])


def test_a_failing_disk_says_what_to_do():
    said = {}
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO):
        disk = SimDisk()
        disk.fail("commit_new.sync", errno=code)

        with pytest.raises(Unavailable, match="lake/a") as told:
            FolderObjects("lake", disk).create("a", BODY)
        said[code] = type(told.value)

    assert said == {
        errno.ENOSPC: DiskFull,
        errno.EDQUOT: DiskFull,
        errno.EROFS: ObjectStoreDenied,
        errno.EACCES: ObjectStoreDenied,
        errno.EIO: Unavailable,
    }


def test_who_finds_a_name_taken_makes_sure_that_it_stays_before_saying_so():
    disk = SimDisk()
    winner = FolderObjects("lake", disk)
    winner.put("manifest/1", b"")
    stopped = disk.fail("commit_new.sync_dir", errno=errno.EIO)
    with pytest.raises(Unavailable):
        winner.create("manifest/2", b"winner's")  # it is there, but not durably

    with pytest.raises(ObjectExists):
        FolderObjects("lake", disk).create("manifest/2", b"loser's!")

    assert stopped.fired == 1
    for after in disk.crash_states(100):
        assert FolderObjects("lake", after).get("manifest/2") == b"winner's"


def test_a_folder_that_a_dead_writer_did_not_sync_is_synced_by_the_next():
    disk = SimDisk()
    disk.fail("make_dirs.sync_dir", errno=errno.EIO, path_contains="lake/a")
    with pytest.raises(Unavailable):
        FolderObjects("lake", disk).create("a/b/c", BODY)
    assert disk.is_dir("lake/a/b")

    FolderObjects("lake", disk).create("a/b/c", BODY)

    for after in disk.crash_states(100):
        assert FolderObjects("lake", after).get("a/b/c") == BODY


def test_what_a_dead_writer_left_aside_is_removed_and_never_listed():
    disk = SimDisk()
    dead = FolderObjects("lake", disk)
    dead.put("kept", b"kept")
    disk.fail("commit_new.link", errno=errno.EIO)
    disk.fail("abandon", errno=errno.EIO)
    with pytest.raises(Unavailable):
        dead.create("lost", BODY)
    after = disk.kill()
    assert len(aside_files(after)) == 2

    lake = FolderObjects("lake", after)
    listed = [info.key for info in lake.list()]
    lake.put("new", b"")

    assert listed == ["kept"]
    assert [name.rpartition("/")[2] for name in aside_files(after)] == ["LOCK"]


def test_a_living_writer_keeps_what_it_has_aside():
    disk = SimDisk()
    living, other = FolderObjects("lake", disk), FolderObjects("lake", disk)
    begun, go_on = threading.Event(), threading.Event()

    def chunks():
        yield BODY
        begun.set()
        assert go_on.wait(60)
        yield BODY

    writer = threading.Thread(target=living.put_stream, args=("slow", chunks()))
    writer.start()
    assert begun.wait(60)
    other.put("quick", b"")
    go_on.set()
    writer.join(60)

    assert contents(other) == {"quick": b"", "slow": BODY * 2}


def test_a_closed_folder_leaves_nothing_aside_and_can_be_used_again():
    disk = SimDisk()
    lake = FolderObjects("lake", disk)
    lake.put("a", b"1")

    lake.close()
    lake.close()
    aside = aside_files(disk)
    lake.put("b", b"2")

    assert aside == []
    assert contents(lake) == {"a": b"1", "b": b"2"}


def test_a_key_is_never_a_folder_of_another(tmp_path: Path):
    for lake in (FolderObjects("lake", SimDisk()), FolderObjects(f"{tmp_path}/l", OsDisk())):
        lake.put("a/b", b"")

        for key in ("a", "a/b/c"):
            with pytest.raises(Invalid, match="folder of another"):
                lake.create(key, b"")
            with pytest.raises(Invalid, match="folder of another"):
                lake.put(key, b"")
            for ask in (lake.get, lake.head, lambda key, lake=lake: lake.get_range(key, 0, 1)):
                with pytest.raises(NotFound):
                    ask(key)
        lake.delete(["a", "a/b/c"])
        assert contents(lake) == {"a/b": b""}
        lake.close()


def test_a_folder_that_is_absent_is_empty_and_stays_absent_until_a_write(tmp_path: Path):
    lake = FolderObjects(str(tmp_path / "lake"), OsDisk())

    listed = list(lake.list())
    lake.delete(["a"])
    with pytest.raises(NotFound):
        lake.get("a")

    assert listed == []
    assert not (tmp_path / "lake").exists()


def test_a_strangers_files_are_not_listed(tmp_path: Path):
    lake = FolderObjects(str(tmp_path), OsDisk())
    lake.put("ours", b"")
    for name in (".hidden", "with space", "ümlaut"):
        (tmp_path / name).write_bytes(b"")

    assert [info.key for info in lake.list()] == ["ours"]
    lake.close()


def write(lake: Objects, use: str, key: str) -> None:
    if use == "create":
        lake.create(key, BODY)
    else:
        lake.put_stream(key, [BODY[:500], BODY[500:]])


def contents(lake: FolderObjects) -> dict[str, bytes]:
    return {info.key: lake.get(info.key) for info in lake.list()}


def aside_files(disk: SimDisk) -> list[str]:
    return [
        f"{folder}/{name}"
        for folder in disk.list_dir("lake/.aside")
        for name in disk.list_dir(f"lake/.aside/{folder}")
    ]


def test_a_folder_without_objects_is_removed_with_what_dead_writers_left():
    disk = SimDisk()
    lake = FolderObjects("lake", disk)
    lake.put("old/deep/a", BODY)
    lake.put("old/b", BODY)
    lake.put("new/c", BODY)
    dead = FolderObjects("lake/old", disk)
    dead.put("of/the/dead", BODY)
    disk = disk.kill()  # its locks go with it
    lake = FolderObjects("lake", disk)

    assert not lake.remove_folder("old")
    lake.delete([info.key for info in lake.list("old")])
    removed = lake.remove_folder("old")

    assert removed
    assert not lake.remove_folder("new")
    assert disk.list_dir("lake") == [".aside", "new"]
    assert all(not after.exists("lake/old") for after in disk.crash_states(50))
    assert not lake.remove_folder("never/was")


def test_a_folder_in_which_a_writer_is_at_work_stays():
    disk = SimDisk()
    writer = FolderObjects("lake/old", disk)
    writer.put("deep/a", BODY)
    lake = FolderObjects("lake", disk)
    lake.delete(["old/deep/a"])

    assert not lake.remove_folder("old")
    assert disk.exists("lake/old/deep")
    writer.close()
    assert lake.remove_folder("old")
    writer.put("b", BODY)
    assert contents(lake) == {"old/b": BODY}


@pytest.mark.parametrize("use", ["create", "put_stream"])
def test_a_folder_that_is_removed_at_any_call_of_a_writer_is_made_again(use: str):
    for nth in itertools.count(1):
        disk = SimDisk()
        writer, other = FolderObjects("lake", disk), FolderObjects("lake", disk)
        writer.put("old/deep/a", BODY)
        writer.delete(["old/deep/a"])
        calls = itertools.count(1)

        def remove(operation: str, path: str, at: int = nth, calls=calls, disk=disk, other=other):
            if next(calls) == at:
                disk.on_call = None
                other.remove_folder("old")

        disk.on_call = remove
        write(writer, use, "old/deep/b")
        ended = disk.on_call is not None
        disk.on_call = None

        assert contents(other) == {"old/deep/b": BODY}, nth
        for after in disk.crash_states(30, reorder_names=True):
            assert contents(FolderObjects("lake", after)) == {"old/deep/b": BODY}, nth
        if ended:
            break
    assert nth > 5


@pytest.mark.parametrize("use", ["create", "put_stream"])
def test_an_object_that_is_written_at_any_call_of_a_removal_stays(use: str):
    for nth in itertools.count(1):
        disk = SimDisk()
        writer, other = FolderObjects("lake", disk), FolderObjects("lake", disk)
        writer.put("old/deep/a", BODY)
        writer.delete(["old/deep/a"])
        calls = itertools.count(1)

        def work(operation: str, path: str, at: int = nth, calls=calls, disk=disk, writer=writer):
            if next(calls) == at:
                disk.on_call = None
                write(writer, use, "old/deep/b")

        disk.on_call = work
        other.remove_folder("old")
        ended = disk.on_call is not None
        disk.on_call = None
        if ended:
            break

        assert contents(other) == {"old/deep/b": BODY}, nth
        for after in disk.crash_states(30, reorder_names=True):
            assert contents(FolderObjects("lake", after)) == {"old/deep/b": BODY}, nth
    assert nth > 5


def test_writers_and_removals_at_once_lose_nothing_on_a_real_disk(tmp_path: Path):
    writer, other = (FolderObjects(str(tmp_path), OsDisk()) for _ in range(2))

    def remove() -> None:
        for _ in range(5):  # fewer than a writer's tries
            other.remove_folder("v")

    for number in range(60):
        key = f"v/{number % 3}/object"
        remover = threading.Thread(target=remove)
        remover.start()
        writer.put(key, b"%d" % number)
        assert other.get(key) == b"%d" % number
        remover.join()
        writer.delete([key])

    assert contents(other) == {}


def test_a_range_is_read_into_memory_that_is_there():
    lake = FolderObjects("lake", SimDisk())
    lake.put("data/a", BODY)
    memory = bytearray(300)

    lake.get_range_into("data/a", 100, memoryview(memory)[10:210])

    assert memory == bytes(10) + BODY[100:300] + bytes(90)


def test_a_range_that_does_not_fill_its_memory_is_refused():
    lake = FolderObjects("lake", SimDisk())
    lake.put("data/a", BODY)

    with pytest.raises(Invalid, match="ends at byte 1280"):
        lake.get_range_into("data/a", 1200, memoryview(bytearray(81)))
    with pytest.raises(NotFound):
        lake.get_range_into("data/b", 0, memoryview(bytearray(1)))
