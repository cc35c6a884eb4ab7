"""Promise: a file is downloaded once, kept within the bound, found again after a restart; a local
disk that fails costs requests and nothing else."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Closed, Locked, NotFound, ObjectStoreUnreachable, Unavailable
from strandline.platform.disk import OsDisk
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.cache.downloads import RangeFile
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.reservoir.cached_files import FOLDER, PAGE_SIZE, World, damage, made, stored


def test_a_miss_downloads_the_whole_file_and_the_next_open_asks_nothing():
    world = World()
    file = world.stored(1)

    first = world.cache.open(file.ref).pread(file.ref.size, 0)
    second = world.cache.open(file.ref).pread(PAGE_SIZE, 3 * PAGE_SIZE)

    assert (first, second) == (file.data, file.content(3))
    assert world.gets == 1
    assert world.disk.read(file.path) == file.data


def test_bytes_behind_the_file_in_its_object_are_not_downloaded():
    world = World()
    file = world.stored(1 << 63 | 7)

    world.cache.open(file.ref)

    assert world.objects.bytes_out["get_ranges"] == file.ref.size


@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "add", "run", "evict", "forget"]), st.integers(1, 12)),
        max_size=60,
    ),
    st.integers(50, 4000),
)
def test_the_bound_is_never_exceeded(steps, bytes_max):
    world = World(files_max=bytes_max / PAGE_SIZE / 10)
    files = {n: world.stored(n, pages=n) for n in range(1, 13)}
    sizes = []

    def measure(operation: str, path: str) -> None:
        if operation in ("reserve", "rename", "write_direct"):
            names = world.disk.kill().list_dir(FOLDER)
            on_disk = [world.disk.kill().read(f"{FOLDER}/{name}") for name in names]
            sizes.append(sum(map(len, on_disk)) + (operation == "reserve") * file.ref.size)

    world.disk.on_call = measure
    for verb, number in steps:
        file = files[number]
        if verb == "open":
            assert world.cache.open(file.ref).pread(file.ref.size, 0) == file.data
        elif verb == "add":
            world.cache.add(file.ref, [file.data[:7], file.data[7:]])
        elif verb == "run":
            world.cache.run_once()
        elif verb == "evict":
            world.cache.evict(number)
        else:
            world.cache.forget([number])

    statistics = world.cache.statistics()
    assert max(sizes, default=0) <= bytes_max
    assert statistics.bytes == sum(files[n].ref.size for n in world.ids())
    assert statistics.files == len(world.ids())


def test_a_new_file_is_there_without_a_download():
    world = World()
    file = made(1)

    world.cache.add(file.ref, [file.data[:150], memoryview(file.data)[150:]])

    assert world.cache.open(file.ref).pread(file.ref.size, 0) == file.data
    assert world.gets == 0


def test_a_file_added_again_takes_the_place_of_the_old_one():
    world = World()
    old, new = made(1, pages=4), made(1, pages=6)
    world.cache.add(old.ref, [old.data])
    world.cache.open(old.ref)

    world.cache.add(new.ref, [new.data])

    assert world.cache.open(new.ref).pread(new.ref.size, 0) == new.data
    assert world.cache.statistics().bytes == new.ref.size


def test_a_new_file_larger_than_the_cache_costs_no_other_its_place():
    world = World(files_max=2)
    small, large = made(1), made(2, pages=21)
    world.cache.add(small.ref, [small.data])

    world.cache.add(large.ref, [large.data])

    assert world.ids() == [1]
    assert world.cache.statistics().failures == 0


def test_a_restart_keeps_the_files():
    world = World()
    files = [world.stored(n) for n in (1, 2, 3)]
    for file in files:
        world.cache.open(file.ref)

    cache = world.reopened(*files)

    assert [cache.open(file.ref).pread(1000, 0) for file in files] == [f.data for f in files]
    assert world.gets == 3


def test_opening_removes_what_no_checkpoint_lists_and_what_was_never_finished():
    world = World()
    kept, orphan, torn = (world.stored(n) for n in (1, 2, 3))
    for file in (kept, orphan):
        world.cache.open(file.ref)
    world.disk.reserve(f"{FOLDER}/{4:016x}.9.part", 50)
    world.disk.reserve(torn.path, torn.ref.size - 1)
    world.disk.reserve(f"{FOLDER}/of-somebody-else", 50)

    cache = world.reopened(kept, torn)

    assert world.ids() == [1]
    assert cache.statistics().bytes == kept.ref.size


def test_opening_reads_no_content():
    world = World()
    files = [world.stored(n) for n in (1, 2, 3)]
    for file in files:
        world.cache.open(file.ref)
    reads = world.disk.calls["pread"] + world.disk.calls["read"]

    world.reopened(*files)

    assert world.disk.calls["pread"] + world.disk.calls["read"] == reads
    assert world.gets == 3


def test_a_smaller_bound_gives_up_files_at_opening():
    world = World(files_max=4)
    files = [world.stored(n) for n in (1, 2, 3, 4)]
    for file in files:
        world.cache.open(file.ref)
    world.bytes_max = 2000

    cache = world.reopened(*files)

    assert cache.statistics().bytes == 2000
    assert len(world.ids()) == 2


def test_adopting_again_keeps_what_is_still_listed():
    world = World()
    first, second = world.stored(1), world.stored(2)
    for file in (first, second):
        world.cache.open(file.ref)

    world.cache.adopt([second.ref])

    assert world.ids() == [2]
    assert world.cache.statistics().bytes == second.ref.size


def test_a_second_process_is_told_what_to_do():
    world = World()

    with pytest.raises(Locked, match="close it there, or use another folder"):
        world.opened()

    world.cache.close()
    world.opened().close()


def test_a_folder_that_cannot_be_made_is_told_at_once():
    disk = SimDisk()
    disk.fail("make_dirs", errno=errno.EACCES)

    with pytest.raises(Unavailable, match="or open without a cache"):
        FileCache(FOLDER, disk, SimObjects(), bytes_max=1000)


def test_a_file_larger_than_the_cache_is_read_where_it_is():
    world = World(files_max=0.5)
    file = world.stored(1)

    data = world.cache.open(file.ref).pread(PAGE_SIZE, PAGE_SIZE)

    assert data == file.content(1)
    assert world.objects.bytes_out["get_ranges"] == PAGE_SIZE
    assert world.cache.statistics().bypassed == 1
    assert world.names() == []


def test_a_disk_that_refuses_every_write_costs_requests_and_nothing_else():
    for operation in ("reserve", "reserve.write", "write_direct", "rename"):
        world = World()
        file = world.stored(1)
        world.disk.fail(operation, errno=errno.EIO, once=False)

        data = world.cache.open(file.ref).pread(PAGE_SIZE, PAGE_SIZE)
        world.cache.add(made(2).ref, [made(2).data])

        assert data == file.content(1), operation
        statistics = world.cache.statistics()
        assert (statistics.bypassed, statistics.failures) == (1, 2), operation
        assert (statistics.bytes, world.names()) == (0, []), operation


def test_a_full_disk_is_met_before_the_download():
    world = World()
    file = world.stored(1)
    world.disk.capacity = file.ref.size - 1

    data = world.cache.open(file.ref).pread(PAGE_SIZE, PAGE_SIZE)

    assert data == file.content(1)
    assert world.objects.bytes_out["get_ranges"] == PAGE_SIZE


def test_a_disk_smaller_than_the_bound_is_the_bound():
    world = World(files_max=10)
    files = [world.stored(n) for n in range(1, 6)]
    world.disk.capacity = 3 * 1000

    for file in files:
        assert world.cache.open(file.ref).pread(1000, 0) == file.data

    assert len(world.ids()) == 3
    assert world.cache.statistics().bypassed == 0


def test_a_file_that_cannot_be_removed_still_counts():
    world = World(files_max=1)
    first, second = world.stored(1), world.stored(2)
    world.cache.open(first.ref)
    world.disk.fail("remove", errno=errno.EIO, once=False)

    data = world.cache.open(second.ref).pread(1000, 0)

    assert data == second.data
    assert world.ids() == [1]
    assert world.cache.statistics().bytes == 1000


def test_a_damaged_file_that_cannot_be_removed_is_not_used():
    world = World()
    file = world.stored(1)
    bad = world.cache.open(file.ref)
    damage(world.disk, file)
    world.disk.fail("remove", errno=errno.EIO, once=False)

    evicted = world.cache.evict(1, bad)

    assert evicted
    assert world.cache.open(file.ref).pread(1000, 0) == file.data
    assert world.cache.peek(1) is None


def test_when_no_file_can_be_opened_the_object_store_answers():
    world = World()
    file = world.stored(1)
    world.cache.open(file.ref)
    world.reopened(file)
    world.disk.fail("open_direct", errno=errno.EMFILE)

    bypassed = world.cache.open(file.ref)
    found = world.cache.open(file.ref)

    assert isinstance(bypassed, RangeFile)
    assert not isinstance(found, RangeFile)
    assert world.gets == 1


def test_a_file_that_somebody_removed_is_downloaded_again():
    world = World()
    file = world.stored(1)
    world.cache.open(file.ref)
    world.reopened(file)
    world.disk.remove(file.path)

    data = world.cache.open(file.ref).pread(1000, 0)

    assert (data, world.ids()) == (file.data, [1])
    statistics = world.cache.statistics()
    assert (statistics.bytes, statistics.bypassed) == (1000, 0)


def test_a_download_that_is_cut_short_is_asked_for_once_more():
    world = World()
    file = world.stored(1)
    world.objects.fail("get_ranges", how="truncated")

    data = world.cache.open(file.ref).pread(1000, 0)

    assert data == file.data
    assert (world.gets, world.ids()) == (2, [1])
    assert world.cache.statistics().failures == 1


def test_a_download_that_fails_its_checksum_is_kept_for_its_good_pages():
    world = World()
    file = world.stored(1)
    fault = world.objects.fail("get_ranges", how="flipped", once=False)

    world.cache.open(file.ref)
    world.cache.open(file.ref)

    assert (fault.fired, world.ids()) == (1, [1])
    assert world.cache.statistics().failures == 1
    assert world.cache.statistics().bypassed == 0


def test_an_object_that_ends_early_is_a_damaged_file():
    world = World()
    file = world.stored(1)
    world.objects.put(file.key, file.data[:-1])

    data = world.cache.open(file.ref).pread(PAGE_SIZE, 0)

    assert data == file.content(0)
    assert world.names() == []


def test_errors_of_the_object_store_pass_through_and_leave_nothing():
    world = World()
    file, gone = world.stored(1), made(2)
    world.objects.fail("get_ranges", how="before")

    with pytest.raises(ObjectStoreUnreachable):
        world.cache.open(file.ref)
    with pytest.raises(NotFound):
        world.cache.open(gone.ref)

    assert world.names() == []
    assert world.cache.open(file.ref).pread(1000, 0) == file.data


def test_forgotten_files_are_gone():
    world = World()
    files = [world.stored(n) for n in (1, 2, 3)]
    for file in files:
        world.cache.open(file.ref)

    world.cache.forget([1, 3, 99])

    assert world.ids() == [2]
    assert world.cache.statistics().evictions == 0


def test_a_peek_neither_downloads_nor_counts():
    world = World()
    here, elsewhere = world.stored(1), world.stored(2)
    world.cache.open(here.ref)
    world.reopened(here)

    found, none = world.cache.peek(1), world.cache.peek(2)

    assert found is not None
    assert (found.pread(1000, 0), none) == (here.data, None)
    statistics = world.cache.statistics()
    assert (statistics.hits, statistics.misses, world.gets) == (0, 0, 1)
    assert elsewhere.ref.file_id not in world.ids()


def test_statistics_tell_what_happened():
    world = World(files_max=2)
    files = [world.stored(n) for n in (1, 2, 3)]

    for file in (*files, files[2], files[2]):
        world.cache.open(file.ref)

    statistics = world.cache.statistics()
    assert (statistics.files, statistics.bytes, statistics.bytes_max) == (2, 2000, 2000)
    assert (statistics.hits, statistics.misses, statistics.evictions) == (2, 3, 1)
    assert (statistics.downloads, statistics.bytes_downloaded) == (3, 3000)
    assert (statistics.healed, statistics.bypassed, statistics.failures) == (0, 0, 0)


def test_a_power_loss_leaves_a_folder_that_opens_and_reads_right():
    world = World()
    files = [world.stored(n, pages=12) for n in (1, 2)]
    for file in files:
        world.cache.open(file.ref)

    for disk in world.disk.crash_states(limit=64, rng=random.Random(1)):
        cache = FileCache(FOLDER, disk, world.objects, bytes_max=4000)
        cache.adopt(file.ref for file in files)
        for file in files:
            found = cache.open(file.ref)
            if found.pread(file.ref.size, 0) != file.data:
                cache.evict(file.ref.file_id, found)
                found = cache.open(file.ref)
            assert found.pread(file.ref.size, 0) == file.data


def test_a_closed_cache_says_so_and_keeps_its_files():
    world = World()
    file = world.stored(1)
    world.cache.open(file.ref)

    world.cache.close()
    world.cache.close()

    for call in (
        lambda: world.cache.open(file.ref),
        lambda: world.cache.peek(1),
        lambda: world.cache.add(file.ref, [file.data]),
        lambda: world.cache.evict(1),
        lambda: world.cache.forget([1]),
        lambda: world.cache.adopt([]),
    ):
        with pytest.raises(Closed):
            call()
    assert not world.cache.run_once()
    assert world.ids() == [1]


def test_on_a_real_disk_the_same(data_dir: str):
    objects = SimObjects()
    files = [stored(objects, n) for n in (1, 2, 3)]
    for _ in range(2):
        cache = FileCache(data_dir, OsDisk(), objects, bytes_max=2000)
        cache.adopt(file.ref for file in files)
        held = cache.open(files[1].ref)
        for file in files:
            assert cache.open(file.ref).pread(1000, 0) == file.data
        cache.evict(2)

        assert held.pread(1000, 0) == files[1].data
        assert cache.statistics().bytes <= 2000
        with pytest.raises(Locked):
            FileCache(data_dir, OsDisk(), objects, bytes_max=2000)
        cache.close()
