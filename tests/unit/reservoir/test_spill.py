"""Promise: a spill gives back what it was given or says that it cannot, in bounded space."""

from __future__ import annotations

import errno
import random

import pytest

import strandline
from strandline.errors import Corrupt, Invalid, Locked, Unavailable
from strandline.reservoir.btree.spill import UNIT_BYTES, Spill
from strandline.testing.sim_disk import SimDisk

FOLDER = "/scratch/spill"


def small_spill(disk: SimDisk, files: int = 4) -> Spill:
    return Spill(FOLDER, bytes_max=files * 4 * UNIT_BYTES, file_bytes=4 * UNIT_BYTES, disk=disk)


def files_in(disk: SimDisk) -> list[str]:
    return [name for name in disk.list_dir(FOLDER) if name != "LOCK"]


@pytest.mark.parametrize("size", [0, 1, UNIT_BYTES - 1, UNIT_BYTES, UNIT_BYTES + 1, 4 * UNIT_BYTES])
def test_a_page_comes_back_as_it_was(size: int):
    spill = small_spill(SimDisk())
    page = random.Random(size).randbytes(size)

    assert spill.put(7, page)

    assert spill.get(7) == page
    assert spill.get(8) is None
    assert len(spill) == 1


def test_a_page_comes_back_from_a_real_disk(tmp_path):
    spill = Spill(str(tmp_path / "deep" / "spill"))
    pages = {n: random.Random(n).randbytes(n * 1000) for n in range(50)}

    assert all(spill.put(page_id, data) for page_id, data in pages.items())
    found = {page_id: spill.get(page_id) for page_id in pages}
    spill.close()

    assert found == pages
    assert [path.name for path in (tmp_path / "deep" / "spill").iterdir()] == ["LOCK"]


def test_the_last_of_two_pages_with_one_id_counts():
    spill = small_spill(SimDisk())

    spill.put(7, b"old" * 2000)
    spill.put(7, b"new")

    assert spill.get(7) == b"new"
    assert spill.stored_bytes == UNIT_BYTES


def test_files_never_have_more_than_the_bound_together():
    disk = SimDisk()
    spill = small_spill(disk, files=3)

    kept = [page_id for page_id in range(1, 40) if spill.put(page_id, b"x" * 5000)]

    assert len(kept) == 6
    assert len(files_in(disk)) == 3
    assert all(spill.get(page_id) == b"x" * 5000 for page_id in kept)
    assert not spill.put(99, b"x" * (4 * UNIT_BYTES + 1)), "a page is in one file"


def test_places_are_used_again_and_large_ones_are_cut():
    disk = SimDisk()
    spill = small_spill(disk, files=2)
    for page_id in range(1, 9):
        assert spill.put(page_id, bytes((page_id,)) * UNIT_BYTES)
    assert not spill.put(9, b"")

    spill.drop(3)
    reused = spill.put(10, b"ten")
    for page_id in (1, 2, 4, 10):
        spill.drop(page_id)
    again = [spill.put(page_id, b"again") for page_id in range(11, 15)]

    assert reused
    assert again == [True] * 4
    assert not spill.put(15, b"")
    assert [spill.get(page_id) for page_id in (5, 14)] == [b"\5" * UNIT_BYTES, b"again"]


def test_the_rest_of_a_place_that_was_cut_is_used():
    spill = small_spill(SimDisk(), files=1)
    spill.put(1, b"x" * 3 * UNIT_BYTES)
    spill.put(2, b"y")

    spill.drop(1)

    assert [spill.put(page_id, b"z") for page_id in range(3, 7)] == [True, True, True, False]


def test_the_place_of_a_page_that_could_not_be_written_is_used():
    disk = SimDisk()
    spill = small_spill(disk, files=1)
    spill.put(1, b"x")
    disk.fail("write", errno=errno.EIO)

    with pytest.raises(Unavailable):
        spill.put(2, b"y" * 3 * UNIT_BYTES)

    assert spill.put(2, b"y" * 3 * UNIT_BYTES)
    assert spill.get(1) == b"x"


def test_any_order_of_puts_and_drops_keeps_every_page():
    chance = random.Random(5)
    spill = small_spill(SimDisk(), files=8)
    kept: dict[int, bytes] = {}

    for _ in range(3000):
        page_id = chance.randrange(30)
        if chance.random() < 0.6:
            data = chance.randbytes(chance.randrange(4 * UNIT_BYTES))
            kept.pop(page_id, None)
            if spill.put(page_id, data):
                kept[page_id] = data
        else:
            spill.drop(page_id)
            kept.pop(page_id, None)
        other = chance.randrange(30)
        assert spill.get(other) == kept.get(other)

    units = sum(max(1, -(-len(data) // UNIT_BYTES)) for data in kept.values())
    assert spill.stored_bytes == units * UNIT_BYTES


def test_when_the_last_page_has_gone_the_files_go():
    disk = SimDisk()
    spill = small_spill(disk)
    for page_id in range(1, 9):
        spill.put(page_id, b"x" * UNIT_BYTES)
    assert len(files_in(disk)) == 2

    for page_id in range(1, 9):
        spill.drop(page_id)

    assert files_in(disk) == []
    assert spill.stored_bytes == 0
    assert spill.put(1, b"again")
    assert spill.get(1) == b"again"


def test_nothing_is_trusted_after_a_restart():
    disk = SimDisk()
    small_spill(disk).put(7, b"page")

    after = disk.kill()
    spill = small_spill(after)

    assert files_in(after) == []
    assert spill.get(7) is None


def test_a_folder_has_one_spill_at_a_time():
    disk = SimDisk()
    first = small_spill(disk)

    with pytest.raises(Locked):
        small_spill(disk)
    first.close()

    assert small_spill(disk).put(1, b"page")


def test_any_changed_byte_is_noticed():
    disk = SimDisk()
    spill = small_spill(disk)
    page = bytes(range(200))
    spill.put(7, page)
    file = disk.open_log(f"{FOLDER}/{files_in(disk)[0]}")

    for offset in range(len(page)):
        file.write(offset, [bytes((page[offset] ^ 1,))])
        with pytest.raises(Corrupt) as caught:
            spill.get(7)
        assert caught.value.path == file.path
        file.write(offset, [page[offset : offset + 1]])

    assert spill.get(7) == page


def test_a_page_in_the_place_of_another_is_noticed():
    disk = SimDisk()
    spill = small_spill(disk)
    spill.put(7, b"seven")
    spill.put(8, b"eight")
    file = disk.open_log(f"{FOLDER}/{files_in(disk)[0]}")

    file.write(0, [file.pread(5, UNIT_BYTES)])

    with pytest.raises(Corrupt):
        spill.get(7)


@pytest.mark.parametrize("operation", ["reserve", "reserve.write", "write"])
def test_a_full_disk_is_no_failure(operation: str):
    disk = SimDisk()
    spill = small_spill(disk)
    disk.fail(operation, errno=errno.ENOSPC)

    full = spill.put(7, b"page")
    later = spill.put(7, b"page")

    assert not full
    assert later
    assert spill.get(7) == b"page"


@pytest.mark.parametrize("operation", ["reserve", "open_log", "write", "pread"])
def test_a_failing_disk_is_told_and_can_be_tried_again(operation: str):
    disk = SimDisk()
    spill = small_spill(disk)
    disk.fail(operation, errno=errno.EIO)

    with pytest.raises(Unavailable):
        _ = spill.put(7, b"page") and spill.get(7)

    assert spill.put(7, b"page")
    assert spill.get(7) == b"page"


@pytest.mark.parametrize(("bytes_max", "file_bytes"), [(100, 4096), (8192, 5000), (8192, 0)])
def test_sizes_that_cannot_be_are_refused(bytes_max: int, file_bytes: int):
    with pytest.raises(Invalid):
        Spill(FOLDER, bytes_max=bytes_max, file_bytes=file_bytes, disk=SimDisk())


def test_the_exported_spill_is_this_one_and_ends_with_its_block(tmp_path):
    folder = str(tmp_path / "scratch")

    with strandline.Spill(folder) as spill:
        assert spill.put(1, b"page")
        assert spill.get(1) == b"page"
        with pytest.raises(Locked):
            strandline.Spill(folder)

    with Spill(folder) as again:
        assert again.get(1) is None
    assert strandline.Spill is Spill
