"""Promise: any call can be watched, counted and made to fail, as it would fail on a real disk."""

from __future__ import annotations

import errno

import pytest

from strandline.platform.disk import LogFile
from strandline.testing.sim_disk import SimDisk


def test_every_call_is_counted_and_shown_before_it_happens():
    disk, file = disk_with_log()
    seen: list[tuple[str, str, int]] = []
    disk.on_call = lambda operation, path: seen.append((operation, path, disk.calls_total))
    total = disk.calls_total

    file.mapping[0:1] = b"x"
    file.sync()
    disk.durable_replace("/data/file", b"")

    assert [operation for operation, _, _ in seen] == [
        "store",
        "sync",
        "durable_replace",
        "durable_replace.write",
        "durable_replace.sync",
        "durable_replace.rename",
        "durable_replace.sync_dir",
    ]
    assert [index for _, _, index in seen] == list(range(total + 1, total + 8))
    assert seen[1][1] == "/data/log"
    assert disk.calls["sync"] == 1


def test_the_nth_call_fails_once_or_from_then_on():
    disk, file = disk_with_log()
    once = disk.fail("sync", 2, errno=errno.EIO)
    outcomes = [syncs(file) for _ in range(4)]
    forever = disk.fail("sync", 2, errno=errno.EIO, once=False)
    later = [syncs(file) for _ in range(4)]

    assert outcomes == [True, False, True, True]
    assert later == [True, False, False, False]
    assert (once.fired, forever.fired) == (1, 3)


def test_a_fault_can_be_bound_to_a_path_or_to_any_operation():
    disk, file = disk_with_log()
    elsewhere = disk.fail("sync", errno=errno.EIO, path_contains="other")
    assert syncs(file)

    anything = disk.fail("*", errno=errno.EIO)
    file.mapping[0:1] = b"x"

    assert disk.exists("/data/log")
    assert not syncs(file)
    assert (elsewhere.fired, anything.fired) == (0, 1)


@pytest.mark.parametrize("operation", ["fsync", "store", "exists"])
def test_what_cannot_fail_cannot_be_made_to_fail(operation: str):
    with pytest.raises(ValueError, match=operation):
        SimDisk().fail(operation, errno=errno.EIO)


def test_a_short_write_stores_the_first_bytes_and_raises():
    disk, file = disk_with_log()
    disk.fail("write", short=5)

    with pytest.raises(OSError, match="No space"):
        file.write(0, [b"012", b"3456789"])

    assert file.pread(10, 0) == b"01234" + bytes(5)


@pytest.mark.parametrize("step", ["write", "sync", "sync_dir"])
def test_a_failed_prepare_leaves_no_file(step: str):
    disk = SimDisk()
    disk.fail(f"prepare.{step}", errno=errno.EIO)

    with pytest.raises(OSError, match="Input/output"):
        disk.prepare("/log", 1000)

    assert disk.list_dir("/") == []


def test_a_short_prepare_leaves_no_file():
    disk = SimDisk()
    disk.fail("prepare", short=100)

    with pytest.raises(OSError, match="No space"):
        disk.prepare("/log", 1000)

    assert disk.list_dir("/") == []


def test_a_killed_prepare_leaves_its_part():
    disk = SimDisk()
    killed: list[SimDisk] = []
    disk.on_call = lambda operation, _: (
        killed.append(disk.kill()) if "prepare." in operation else None
    )

    disk.prepare("/log", 1000)

    assert [len(each.read("/log")) for each in killed] == [0, 1000, 1000]


@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_a_failed_durable_replace_leaves_the_old_file(step: str):
    disk = SimDisk()
    disk.durable_replace("/file", b"old")
    disk.fail(f"durable_replace.{step}", errno=errno.EIO)

    with pytest.raises(OSError, match="Input/output"):
        disk.durable_replace("/file", b"new")

    assert disk.list_dir("/") == ["file"]
    assert contents(disk, "/file") == {b"old"}


def test_a_full_disk_refuses_new_bytes_and_takes_them_again_after_a_removal():
    disk = SimDisk(capacity=1000)
    disk.prepare("/log", 900)
    created = disk.create("/file")

    for call in (
        lambda: disk.prepare("/more", 101),
        lambda: disk.durable_replace("/more", bytes(101)),
        lambda: created.write([bytes(101)]),
    ):
        with pytest.raises(OSError, match="No space"):
            call()
    created.abandon()

    assert disk.free_bytes("/") == 100
    assert disk.list_dir("/") == ["log"]
    disk.open_log("/log").write(0, [bytes(900)])
    disk.remove("/log")
    disk.prepare("/more", 1000)
    assert disk.free_bytes("/") == 0


def test_after_power_off_every_call_raises_and_nothing_changes():
    disk, file = disk_with_log(512)
    created = disk.create("/data/file")
    file.mapping[0:3] = b"new"
    before = contents(disk, "/data/log")

    disk.power_off()

    for call in (
        lambda: file.mapping.__setitem__(slice(0, 3), b"bad"),
        lambda: file.write(0, [b"bad"]),
        file.sync,
        lambda: disk.prepare("/data/other", 10),
        lambda: disk.durable_replace("/data/other", b""),
        created.commit,
        created.abandon,
        lambda: disk.exists("/data/log"),
    ):
        with pytest.raises(OSError, match="power"):
            call()
    assert contents(disk, "/data/log") == before
    assert disk.kill().list_dir("/data") == ["file.tmp", "log"]


def test_a_call_cut_by_power_off_cannot_clean_up():
    disk = SimDisk()
    disk.on_call = lambda operation, _: disk.power_off() if operation.endswith(".sync") else None

    with pytest.raises(OSError, match="power"):
        disk.durable_replace("/file", b"content")

    assert disk.kill().list_dir("/") == ["file.tmp"]


class LastWords:
    """Bytes during whose copying, after the call was let in, the power goes off."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def __bytes__(self) -> bytes:
        self._disk.power_off()
        return b"new"


def test_a_store_that_the_power_loss_overtakes_has_not_happened():
    """Whoever is told that it has, finds it on the disk that comes after."""
    disk, file = disk_with_log(512)

    with pytest.raises(OSError, match="power"):
        file.mapping[0:3] = LastWords(disk)

    assert disk.kill().read("/data/log")[:3] == bytes(3)


def test_a_write_that_the_power_loss_overtakes_has_not_happened():
    disk, file = disk_with_log(512)

    with pytest.raises(OSError, match="power"):
        file.write(0, map(bytes, [LastWords(disk)]))

    assert disk.kill().read("/data/log")[:3] == bytes(3)


def disk_with_log(size: int = 8192) -> tuple[SimDisk, LogFile]:
    disk = SimDisk()
    disk.make_dirs("/data")
    disk.prepare("/data/log", size)
    return disk, disk.open_log("/data/log")


def contents(disk: SimDisk, path: str) -> set[bytes | None]:
    """What the file may hold after a power loss; None when its name may be gone."""
    return {after.read(path) if after.exists(path) else None for after in disk.crash_states()}


def syncs(file: LogFile) -> bool:
    try:
        file.sync()
    except OSError:
        return False
    return True
