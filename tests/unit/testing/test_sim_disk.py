"""Promise: the simulated disk loses the bytes that a real one may lose, and nothing else.

Each kind of loss is a bug somewhere that only this disk can show: so every one must be possible
here, and whatever was synced must survive every crash state.
"""

from __future__ import annotations

import errno
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.platform.disk import LogFile
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk

SIZE = 8192


def test_what_was_synced_is_in_every_crash_state():
    disk, file = disk_with_log(512)
    file.mapping[0:3] = b"one"
    file.write(3, [b"two"])
    file.sync()

    assert contents(disk, "/data/log") == {b"onetwo".ljust(512, b"\0")}


def test_an_unsynced_store_may_be_lost_or_kept():
    disk, file = disk_with_log(512)

    file.mapping[0:3] = b"one"

    assert contents(disk, "/data/log") == {bytes(512), b"one".ljust(512, b"\0")}


def test_any_version_of_a_sector_may_survive():
    disk, file = disk_with_log(512)
    for text in (b"one", b"two", b"six"):
        file.mapping[0:3] = text

    found = contents(disk, "/data/log")

    assert {content[:3] for content in found if content} == {b"\0\0\0", b"one", b"two", b"six"}


def test_a_write_is_torn_at_every_sector_in_any_order():
    disk, file = disk_with_log(2048)

    file.write(0, [b"x" * 2048])

    found = contents(disk, "/data/log")
    kept = {
        tuple(content[at] == ord("x") for at in range(0, 2048, 512)) for content in found if content
    }
    assert len(found) == len(kept) == 2**4


def test_torn_pages_are_kept_as_they_were_at_one_moment():
    disk, file = disk_with_log(8192)
    file.write(0, [b"a" * 8192])
    file.write(0, [b"b" * 8192])

    found = contents(disk, "/data/log", sector=4096)

    pages = {(content[:4096], content[4096:]) for content in found if content}
    one_page = {bytes(4096), b"a" * 4096, b"b" * 4096}
    assert pages == {(first, second) for first in one_page for second in one_page}


def test_a_page_can_be_caught_in_the_middle_of_a_mapped_store():
    disk, file = disk_with_log(4096)

    file.mapping[0:1536] = b"x" * 1536

    found = contents(disk, "/data/log", sector=4096)
    assert {content.count(b"x") for content in found if content} == {0, 512, 1024, 1536}


def test_a_later_write_may_survive_an_earlier_one():
    disk, file = disk_with_log(1024)
    file.mapping[0:5] = b"early"
    file.mapping[512:516] = b"late"

    found = contents(disk, "/data/log")

    assert bytes(512) + b"late".ljust(512, b"\0") in found


def test_a_sync_does_not_cover_what_is_stored_while_it_runs():
    disk, file = disk_with_log(512)
    file.mapping[0:5] = b"early"
    disk.on_call = lambda operation, _: store_late(operation)

    def store_late(operation: str) -> None:
        if operation == "sync":
            file.mapping[5:9] = b"late"

    file.sync()

    found = contents(disk, "/data/log")
    assert {content.rstrip(b"\0") for content in found if content} == {b"early", b"earlylate"}


def test_however_often_a_sector_changes_the_synced_and_the_newest_version_stay():
    disk, file = disk_with_log(512)
    disk.on_call = lambda operation, _: change_often() if operation == "sync" else None

    def change_often() -> None:
        for number in range(1, 2001):
            file.mapping[8:16] = number.to_bytes(8, "little")

    file.mapping[0:5] = b"first"
    file.sync()
    disk.on_call = None
    change_often()

    assert disk.crash(Oldest()).read("/data/log") == b"first".ljust(512, b"\0")
    assert disk.crash(Newest()).read("/data/log") == disk.read("/data/log")


def test_a_failed_sync_loses_the_bytes_although_the_next_one_succeeds():
    disk, file = disk_with_log(512)
    file.mapping[0:3] = b"new"
    disk.fail("sync", errno=errno.EIO)

    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()

    assert file.pread(3, 0) == b"new"
    assert disk.kill().read("/data/log")[:3] == b"new"
    assert contents(disk, "/data/log") == {bytes(512)}
    assert contents(disk.kill(), "/data/log") == {bytes(512)}


def test_a_sector_stored_again_after_a_failed_sync_becomes_durable():
    disk, file = disk_with_log(1024)
    file.mapping[0:3] = b"new"
    file.mapping[512:515] = b"new"
    disk.fail("sync", errno=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()

    file.mapping[3:4] = b"!"
    file.sync()

    assert contents(disk, "/data/log") == {b"new!".ljust(1024, b"\0")}


def test_the_size_of_an_unsynced_file_may_be_any_it_had():
    disk = SimDisk()
    file = disk.create("/file")
    file.write([b"abc"])
    file.write([b"def"])
    disk.sync_dir("/")

    found = contents(disk, "/file.tmp")

    assert found == {b"", b"abc", b"abcdef", bytes(3), bytes(6), b"abc" + bytes(3)}


def test_bytes_cut_off_by_a_lost_size_do_not_come_back():
    disk, file = disk_with_log(3)
    file.write(3, [b"lost"])

    cut = [after for after in disk.crash_states() if len(after.read("/data/log")) == 3]
    for after in cut:
        after.open_log("/data/log").write(9, [b"x"])

    assert len(cut) == 2
    assert {after.read("/data/log") for after in cut} == {bytes(9) + b"x"}


def test_kill_keeps_everything_and_loses_nothing_more_than_power_would():
    disk, file = disk_with_log(512)
    file.mapping[0:3] = b"one"
    lock = disk.lock("/data/LOCK", b"")

    after = disk.kill()

    assert lock is not None
    assert after.read("/data/log")[:3] == b"one"
    assert after.boot_id() == disk.boot_id()
    assert after.lock("/data/LOCK", b"") is not None
    assert contents(after, "/data/log") == contents(disk, "/data/log")


def test_a_crash_is_a_new_boot_and_frees_locks():
    disk = SimDisk()
    disk.lock("/LOCK", b"")

    after = disk.crash(Newest())

    assert after.boot_id() != disk.boot_id()
    assert after.lock("/LOCK", b"") is not None
    assert disk.lock("/LOCK", b"") is None


def test_a_remount_loses_what_a_power_loss_does_in_the_same_boot():
    disk, file = disk_with_log(512)
    file.mapping[0:3] = b"one"
    disk.lock("/data/LOCK", b"")

    lost, kept = disk.remount(Oldest()), disk.remount(Newest())

    assert lost.read("/data/log")[:3] == bytes(3)
    assert kept.read("/data/log")[:3] == b"one"
    assert lost.lock("/data/LOCK", b"") is not None
    assert lost.boot_id() == disk.boot_id() == kept.boot_id()


def test_a_page_cache_has_one_id_until_it_is_lost():
    disk = SimDisk()

    once, other_boot = disk.remount(Oldest()), disk.crash(Oldest())
    twice = once.remount(Oldest())

    ids = {each.page_cache_id("/") for each in (disk, once, twice, other_boot)}
    assert len(ids) == 4
    assert disk.kill().page_cache_id("/") == disk.page_cache_id("/")


def test_an_id_never_comes_twice_in_one_line_of_disks():
    disk = SimDisk()
    ids = []
    for _ in range(3):
        ids += [disk.random_id(), disk.random_id()]
        disk = disk.crash(Oldest()).kill()

    assert len(set(ids)) == 6
    assert SimDisk().random_id() == ids[0]
    assert SimDisk(seed=1).random_id() != ids[0]


def test_the_disk_that_crashed_and_its_crash_states_do_not_share_bytes():
    disk, file = disk_with_log(512)
    one, two = disk.crash(Newest()), disk.kill()

    file.mapping[0:3] = b"old"
    one.open_log("/data/log").mapping[0:3] = b"one"

    assert [each.read("/data/log")[:3] for each in (disk, one, two)] == [b"old", b"one", bytes(3)]


def test_crash_states_include_all_lost_and_all_kept_when_sampled():
    disk, file = disk_with_log(SIZE)
    file.write(0, [b"x" * SIZE])
    file.write(0, [b"y" * SIZE])

    found = [after.read("/data/log") for after in disk.crash_states(50, random.Random(1))]

    assert len(found) == 50
    assert found[0] == bytes(SIZE)
    assert found[1] == b"y" * SIZE
    assert len(set(found)) > 30


def test_the_same_seed_gives_the_same_crash_states():
    disk, file = disk_with_log(SIZE)
    file.write(0, [b"x" * SIZE])

    one, two = (
        [after.read("/data/log") for after in disk.crash_states(20, random.Random(7))]
        for _ in range(2)
    )

    assert one == two


def test_crash_states_are_those_of_the_moment_of_the_call():
    disk, file = disk_with_log(512)
    file.mapping[0:3] = b"one"
    states = disk.crash_states()

    file.mapping[0:3] = b"two"

    assert {after.read("/data/log")[:3] for after in states} == {bytes(3), b"one"}


def test_threads_may_store_sync_and_crash_at_the_same_time():
    disk, file = disk_with_log(SIZE)
    synced = [0] * 4
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for count in range(1, 51):
                at = number * 2048 + count * 8
                file.mapping[at : at + 8] = count.to_bytes(8, "little")
                file.sync()
                synced[number] = count
                promised = list(synced)
                check(disk.crash(Oldest()), promised)
        except BaseException as error:  # noqa: BLE001 - handed to the test thread
            failures.append(error)

    def check(after: SimDisk, promised: list[int]) -> None:
        data = after.read("/data/log")
        for number, count in enumerate(promised):
            at = number * 2048 + count * 8
            assert count == 0 or data[at : at + 8] == count.to_bytes(8, "little")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


stores = st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=1000), st.booleans())


@given(
    st.lists(st.lists(stores, max_size=4), max_size=4),
    st.lists(stores, max_size=4),
    st.sampled_from([512, 4096]),
    st.randoms(use_true_random=False),
)
def test_every_byte_after_a_crash_is_the_synced_one_or_a_later_one(
    rounds: list[list[tuple[int, bytes, bool]]],
    unsynced: list[tuple[int, bytes, bool]],
    sector: int,
    rng: random.Random,
):
    disk, file = disk_with_log(4096)
    model = bytearray(4096)
    for batch in rounds:
        for offset, data, mapped in batch:
            put(file, model, offset, data, mapped)
        file.sync()
    allowed = [{byte} for byte in model]
    for offset, data, mapped in unsynced:
        put(file, model, offset, data, mapped)
        for at in range(offset, offset + len(data)):
            allowed[at].add(model[at])

    states = [after.read("/data/log") for after in disk.crash_states(8, rng, sector=sector)]

    assert disk.read("/data/log") == bytes(model)
    for state in states:
        assert all(byte in fine for byte, fine in zip(state, allowed, strict=True))


def disk_with_log(size: int = SIZE) -> tuple[SimDisk, LogFile]:
    disk = SimDisk()
    disk.make_dirs("/data")
    disk.prepare("/data/log", size)
    return disk, disk.open_log("/data/log")


def contents(disk: SimDisk, path: str, sector: int = 512) -> set[bytes | None]:
    """What the file may hold after a power loss; None when its name may be gone."""
    return {
        after.read(path) if after.exists(path) else None
        for after in disk.crash_states(sector=sector)
    }


def put(file: LogFile, model: bytearray, offset: int, data: bytes, mapped: bool) -> None:
    if mapped:
        file.mapping[offset : offset + len(data)] = data
    else:
        file.write(offset, [data])
    model[offset : offset + len(data)] = data
