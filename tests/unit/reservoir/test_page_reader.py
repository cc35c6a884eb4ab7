"""Promise: bytes that fail a page's checksum are never given; a bad copy heals, and a page that is
bad in the object store is an error that names file and page."""

from __future__ import annotations

import errno
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, NotFound, ObjectStoreUnreachable
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.local import FolderObjects
from strandline.reservoir import range_cache
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.cache.open_files import DESCRIPTORS_MAX
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.page_reader import PageReader
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.reservoir.cached_files import (
    FOLDER,
    PAGE_SIZE,
    World,
    damage,
    damage_object,
    flipped,
    made,
    stored,
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def reader(world: World) -> PageReader:
    return PageReader(world.objects, world.cache)


def test_pages_of_a_file_cost_one_download(world: World, reader: PageReader):
    file = world.stored(1)

    pages = [reader.read(*file.page(number)) for number in range(10)]

    assert b"".join(pages) == file.data
    assert world.gets == 1


def test_a_flipped_bit_in_a_cached_file_heals_with_one_download(world: World, reader: PageReader):
    for bit_of_page in range(10):
        file = world.stored(1 + bit_of_page)
        reader.read(*file.page(0))
        damage(world.disk, file, bit_of_page * PAGE_SIZE + bit_of_page)
        before, healed = world.gets, world.cache.statistics().healed
        bytes_before = world.objects.bytes_out["get_ranges"]

        pages = [reader.read(*file.page(number)) for _ in range(2) for number in range(10)]

        assert b"".join(pages) == 2 * file.data
        assert world.gets == before + 1
        assert world.objects.bytes_out["get_ranges"] == bytes_before + PAGE_SIZE
        assert world.cache.statistics().healed == healed + 1


def test_a_repaired_copy_is_good_for_the_next_process(world: World, reader: PageReader):
    file = world.stored(1)
    reader.read(*file.page(0))
    damage(world.disk, file, 3 * PAGE_SIZE)
    reader.read(*file.page(3))
    before = world.gets

    after = PageReader(world.objects, world.reopened(file))

    assert after.read_many([file.page(n) for n in range(10)]) == [
        file.content(n) for n in range(10)
    ]
    assert world.disk.read(file.path) == file.data
    assert world.gets == before


def test_a_copy_of_which_more_is_wrong_heals_with_one_download(world: World, reader: PageReader):
    file = world.stored(1)
    reader.read(*file.page(0))
    world.disk.remove(file.path)
    world.disk.reserve(file.path, file.ref.size)
    world.reopened(file)
    before = world.gets

    pages = [PageReader(world.objects, world.cache).read(*file.page(n)) for n in range(10)]

    assert b"".join(pages) == file.data
    assert world.gets == before + 2  # the first page, then all of it
    assert world.cache.statistics().downloads == 1


def test_a_block_that_cannot_be_read_is_no_reason_to_fail(world: World, reader: PageReader):
    file = world.stored(1)
    reader.read(*file.page(0))
    world.disk.fail("pread", errno=errno.EIO, once=False)

    pages = [reader.read(*file.page(number)) for number in range(10)]

    assert b"".join(pages) == file.data


def test_a_copy_that_cannot_be_repaired_is_given_up(world: World, reader: PageReader):
    file = world.stored(1)
    reader.read(*file.page(0))
    damage(world.disk, file, 3 * PAGE_SIZE)
    world.disk.fail("write_direct", errno=errno.EIO)

    page = reader.read(*file.page(3))

    assert page == file.content(3)
    assert world.ids() == []
    assert reader.read(*file.page(4)) == file.content(4)
    assert world.ids() == [1]


def test_a_local_disk_that_always_lies_cannot_make_a_read_wrong(world: World, reader: PageReader):
    file = world.stored(1)
    reader.read(*file.page(0))

    def lie(operation: str, path: str) -> None:
        if operation == "pread" and world.ids():
            world.disk.write_direct(file.path, 3 * PAGE_SIZE, [b"lie"])

    world.disk.on_call = lie
    pages = [reader.read(*file.page(3)) for _ in range(4)]

    assert pages == [file.content(3)] * 4


def test_a_page_that_is_bad_in_the_store_is_an_error_that_names_file_and_page(
    world: World, reader: PageReader
):
    file = world.stored(1)
    damage_object(world.objects, file, 3 * PAGE_SIZE + 5)

    with pytest.raises(Corrupt) as caught:
        reader.read(*file.page(3))

    assert "page 1003 fails its checksum" in str(caught.value)
    assert caught.value.path == f"{world.objects.name}/{file.key}"
    assert caught.value.offset == 3 * PAGE_SIZE


def test_one_bad_byte_in_the_store_costs_no_request_for_any_other_page(
    world: World, reader: PageReader
):
    file = world.stored(1, pages=30)
    damage_object(world.objects, file, 3 * PAGE_SIZE + 5)

    pages = [
        reader.read(*file.page(number)) for _ in range(2) for number in range(30) if number != 3
    ]

    assert pages == [file.content(number) for _ in range(2) for number in range(30) if number != 3]
    assert world.gets == 1
    for asked in (2, 3):
        with pytest.raises(Corrupt, match="page 1003 fails"):
            reader.read(*file.page(3))
        assert world.gets == asked
    assert world.ids() == [1]


def test_a_page_that_was_put_right_in_the_store_heals_the_copy(world: World, reader: PageReader):
    file = world.stored(1)
    damage_object(world.objects, file, 3 * PAGE_SIZE + 5)
    with pytest.raises(Corrupt):
        reader.read(*file.page(3))
    damage_object(world.objects, file, 3 * PAGE_SIZE + 5)  # flips it back
    before = world.gets

    pages = [reader.read(*file.page(3)) for _ in range(3)]

    assert pages == [file.content(3)] * 3
    assert world.gets == before + 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["copy", "object", "read", "all"]), st.integers(0, 999)),
        max_size=25,
    )
)
def test_no_damage_makes_a_page_wrong_or_costs_more_than_it_broke(steps):
    world = World()
    reader = PageReader(world.objects, world.cache)
    file = world.stored(1)
    reader.read(*file.page(0))
    bad_in_store: set[int] = set()
    allowed = 1
    for verb, offset in steps:
        number = offset // PAGE_SIZE
        if verb == "copy" and world.ids():
            damage(world.disk, file, offset)
            allowed += 2  # a page, and perhaps all
        elif verb == "object":
            damage_object(world.objects, file, offset)
            bad_in_store ^= {offset}
            allowed += 2
        for each in {"read": [number], "all": range(10)}.get(verb, []):
            try:
                assert reader.read(*file.page(each)) == file.content(each)
            except Corrupt:
                assert any(place // PAGE_SIZE == each for place in bad_in_store)
                allowed += 2

    assert world.gets <= allowed


def test_a_bit_that_flips_on_the_way_heals():
    for with_cache in (True, False):
        world = World()
        file = world.stored(1)
        world.objects.fail("get_ranges", how="flipped")

        page = PageReader(world.objects, world.cache if with_cache else None).read(*file.page(5))

        assert page == file.content(5)
        assert world.gets <= 2


def test_a_page_of_another_file_or_of_another_id_never_passes(world: World, reader: PageReader):
    file = world.stored(1)
    page_id, place, ref = file.page(2)

    with pytest.raises(Corrupt, match="page 1003 fails"):
        reader.read(page_id + 1, place, ref)


def test_an_object_that_ends_before_the_page_is_an_error_that_names_both(
    world: World, reader: PageReader
):
    file = world.stored(1)
    world.objects.put(file.key, file.data[:450])

    with pytest.raises(Corrupt, match=r"page 1004 fails.*/data/0{15}1 at byte 400"):
        reader.read(*file.page(4))

    assert reader.read(*file.page(3)) == file.content(3)


def test_a_file_that_is_gone_is_told_with_its_page():
    for with_cache in (True, False):
        world = World()
        reader = PageReader(world.objects, world.cache if with_cache else None)

        with pytest.raises(Corrupt, match="page 1004 cannot be read: a data file") as one:
            reader.read(*made(1).page(4))
        with pytest.raises(Corrupt, match="a data file is missing"):
            reader.read_many([made(1).page(4)])

        assert isinstance(one.value.__cause__, NotFound)


def test_a_cached_file_is_read_when_its_object_is_out_of_reach(world: World, reader: PageReader):
    file, elsewhere = world.stored(1), world.stored(2)
    reader.read(*file.page(0))
    world.objects.cut(random.Random(0))

    page = reader.read(*file.page(9))

    assert page == file.content(9)
    with pytest.raises(ObjectStoreUnreachable):
        reader.read(*elsewhere.page(0))


def test_many_pages_come_in_the_order_in_which_they_were_asked_for(
    world: World, reader: PageReader
):
    files = [world.stored(n) for n in (1, 2, 3)]
    wanted = [(file, number) for file in files for number in (7, 2, 5, 2)]
    random.Random(3).shuffle(wanted)

    pages = reader.read_many([file.page(number) for file, number in wanted])

    assert pages == [file.content(number) for file, number in wanted]
    assert world.gets == 3
    assert reader.read_many([]) == []


def test_many_pages_without_a_cache_cost_a_request_for_each_file(world: World):
    files = [world.stored(n) for n in (1, 2, 3)]

    pages = PageReader(world.objects).read_many([f.page(n) for n in range(10) for f in files])

    assert pages == [file.content(number) for number in range(10) for file in files]
    assert world.gets == 3


def test_many_bad_pages_of_a_copy_heal_with_one_download(world: World, reader: PageReader):
    file = world.stored(1)
    reader.read(*file.page(0))
    for number in (2, 4, 6):
        damage(world.disk, file, number * PAGE_SIZE)

    pages = reader.read_many([file.page(number) for number in range(10)])

    assert b"".join(pages) == file.data
    assert world.gets == 3  # the file, the first bad page, and the file again


def test_one_bad_page_among_many_is_named(world: World):
    file = world.stored(1)
    damage_object(world.objects, file, 3 * PAGE_SIZE)

    with pytest.raises(Corrupt, match="page 1003"):
        PageReader(world.objects).read_many([file.page(number) for number in range(10)])


def test_a_folder_of_this_machine_is_read_with_a_bounded_number_of_descriptors(data_dir: str):
    files = [made(n, pages=2) for n in range(1, 3 * DESCRIPTORS_MAX)]
    Path(data_dir, "data").mkdir(parents=True)
    for file in files:
        Path(data_dir, file.key).write_bytes(file.data)
    reader = PageReader(FolderObjects(data_dir, OsDisk()))

    def read_all(seed: int) -> bool:
        order = random.Random(seed).sample(files, len(files))
        return all(reader.read(*file.page(1)) == file.content(1) for file in order)

    with ThreadPoolExecutor(4) as pool:
        right = list(pool.map(read_all, range(8)))

    descriptors = [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]
    assert all(right)
    assert 0 < sum(f"{data_dir}/data/" in path for path in descriptors) <= DESCRIPTORS_MAX
    reader.close()


def test_damage_in_a_folder_of_this_machine_is_told_or_read_anew(data_dir: str):
    objects = FolderObjects(data_dir, OsDisk())
    file = stored(objects, 1)
    path = Path(data_dir, file.key)
    reader = PageReader(objects)
    reader.read(*file.page(0))
    path.rename(path.with_name("before"))
    path.with_name("before").write_bytes(flipped(file.data, 0))

    with pytest.raises(Corrupt, match="a data file is missing"):
        reader.read(*file.page(0))
    path.write_bytes(flipped(file.data, PAGE_SIZE))
    page = reader.read(*file.page(0))
    with pytest.raises(Corrupt, match="page 1001 fails"):
        reader.read(*file.page(1))
    path.unlink()
    stored(objects, 1)

    assert page == file.content(0)
    assert reader.read_many([file.page(1), file.page(0)]) == [file.content(1), file.content(0)]
    reader.close()


def test_a_power_loss_in_the_cache_costs_downloads_and_nothing_else(world: World):
    files = [world.stored(n, pages=30) for n in (1, 2)]
    reader = PageReader(
        world.objects, FileCache("/cache/b", world.disk, world.objects, bytes_max=9000)
    )
    for file in files:
        reader.read(*file.page(0))

    for disk in world.disk.crash_states(limit=64, rng=random.Random(1)):
        cache = FileCache("/cache/b", disk, world.objects, bytes_max=9000)
        cache.adopt(file.ref for file in files)
        after = PageReader(world.objects, cache)
        for file in files:
            pages = after.read_many([file.page(number) for number in range(30)])
            assert b"".join(pages) == file.data
        assert cache.statistics().downloads <= 2


def test_a_page_without_bytes_is_read():
    for objects in (SimObjects(), FolderObjects("/lake", SimDisk())):
        cache = FileCache(FOLDER, SimDisk(), objects, bytes_max=1000)
        file = stored(objects, 1)
        page_id, place, ref = file.page(4)
        empty = place._replace(
            size=0, checksum=data_file_codec.page_checksum(b"", page_id, ref.file_id)
        )

        for reader in (PageReader(objects), PageReader(objects, cache)):
            assert reader.read(page_id, empty, ref) == b""


def test_whoever_only_reads_fetches_stretches_and_not_pages(world: World):
    files = [world.stored(number) for number in (1, 2)]
    reader = PageReader(world.objects, whole=True)

    pages = [reader.read(*file.page(number)) for file in files for number in range(10)]

    assert b"".join(pages) == b"".join(file.data for file in files)
    assert world.gets == 2


def test_pages_across_stretches_come_whole(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(range_cache, "RANGE_BYTES", PAGE_SIZE - 7)
    monkeypatch.setattr(range_cache, "RANGES_MAX", 3)
    file = world.stored(1)
    reader = PageReader(world.objects, whole=True)

    forward = [reader.read(*file.page(number)) for number in range(10)]
    backward = [reader.read(*file.page(number)) for number in reversed(range(10))]

    assert b"".join(forward) == file.data
    assert backward == forward[::-1]


def test_a_stretch_that_came_damaged_is_fetched_again(world: World):
    file = world.stored(1)
    reader = PageReader(world.objects, whole=True)
    good = world.objects.snapshot()[file.key].data
    damage_object(world.objects, file, 5)
    with pytest.raises(Corrupt, match="page"):
        reader.read(*file.page(0))
    world.objects.delete([file.key])
    world.objects.create(file.key, good)

    assert reader.read(*file.page(0)) == file.content(0)
