"""Promise: memory stays within its bound, what it has no room for is not lost, and a failure of any
call leaves the map as it was before the operation, or as it was saved."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from strandline.errors import Corrupt, StrandlineError, Unavailable
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.spill import UNIT_BYTES, Spill
from strandline.testing.sim_disk import SimDisk
from tests.unit.reservoir.map_pages import MemoryPages

RAM = 20_000


def spill_on(disk: SimDisk, **options) -> Spill:
    return Spill("/scratch", disk=disk, **{"bytes_max": 1 << 22, "file_bytes": 1 << 16, **options})


def entries(count: int = 1000, size: int = 20) -> dict[bytes, bytes]:
    return {b"%06d" % n: b"%d" % n * (size // 4) for n in range(count)}


def small_map(pages: MemoryPages, spill: Spill | None = None, ram_bytes: int = RAM) -> PagedMap:
    return PagedMap(pages, page_bytes=512, ram_bytes=ram_bytes, spill=spill)


def put_in_any_order(made: PagedMap, wanted: dict[bytes, bytes]) -> None:
    for key in random.Random(1).sample(sorted(wanted), len(wanted)):
        made.put(key, wanted[key])


@pytest.mark.parametrize("spilling", [False, True])
def test_memory_stays_within_its_bound(spilling: bool):
    made = small_map(MemoryPages(), spill_on(SimDisk()) if spilling else None)
    most = 0

    for key, value in sorted(entries().items(), key=lambda pair: pair[0][::-1]):
        made.put(key, value)
        most = max(most, made.statistics().ram_bytes)
    for _ in made.range():
        most = max(most, made.statistics().ram_bytes)

    assert most < RAM + 10_000, "the bound, and what one operation adds"
    assert list(made.range()) == sorted(entries().items())
    made.check()


def test_with_a_spill_the_session_gets_nothing_before_the_save():
    pages = MemoryPages()
    made = small_map(pages, spill_on(SimDisk()))

    put_in_any_order(made, entries())
    before = pages.calls["write"]
    spilled = made.statistics().spilled_bytes
    made.save()

    assert before == 0
    assert spilled > 0
    assert made.statistics().spilled_bytes == 0
    assert made.statistics().unsaved_pages == 0
    assert dict(small_map(pages).range()) == entries()


def test_without_a_spill_pages_go_to_the_session():
    pages = MemoryPages()
    made = small_map(pages)

    put_in_any_order(made, entries())

    assert pages.calls["write"] > 0
    assert dict(made.range()) == entries()


def test_when_the_spill_is_full_pages_go_to_the_session():
    pages = MemoryPages()
    made = small_map(pages, spill_on(SimDisk(), bytes_max=UNIT_BYTES * 4, file_bytes=UNIT_BYTES))

    put_in_any_order(made, entries())
    spilled = made.statistics().spilled_bytes
    made.check()
    made.save()

    assert spilled == 4 * UNIT_BYTES
    assert dict(small_map(pages).range()) == entries()


def test_when_the_disk_of_the_spill_is_full_pages_go_to_the_session():
    pages, disk = MemoryPages(), SimDisk()
    made = small_map(pages, spill_on(disk))
    disk.fail("reserve", nth=1, errno=errno.ENOSPC, once=False)

    put_in_any_order(made, entries())

    assert pages.calls["write"] > 0
    assert made.statistics().spilled_bytes == 0
    assert dict(made.range()) == entries()


def test_a_page_that_the_spill_lost_is_noticed_and_the_save_before_stands():
    pages, disk = MemoryPages(), SimDisk()
    spill = spill_on(disk)
    made = small_map(pages, spill)
    put_in_any_order(made, entries())
    made.checkpoint(pages)
    put_in_any_order(made, entries(size=40))
    assert made.statistics().spilled_bytes
    for name in disk.list_dir("/scratch"):
        if name != "LOCK":
            file = disk.open_log(f"/scratch/{name}")
            file.write(0, [bytes(file.size())])

    with pytest.raises(Corrupt, match="lost"):
        made.checkpoint(pages)
    pages.crash()

    spill.close()
    found = small_map(pages)
    found.check()
    assert dict(found.range()) == entries()


def test_a_crash_leaves_the_map_as_it_was_checkpointed():
    pages = MemoryPages()
    made = small_map(pages)
    put_in_any_order(made, entries())
    version = made.checkpoint(pages, b"meta")

    put_in_any_order(made, entries(1500, 60))
    for key in list(entries())[::3]:
        made.delete(key)
    made.save()
    pages.commit()
    pages.crash()

    found = small_map(pages)
    found.check()
    assert (version, pages.metas) == (1, [b"meta"])
    assert dict(found.range()) == entries()


@pytest.mark.parametrize("operation", ["write", "delete"])
@pytest.mark.parametrize("spilling", [False, True])
def test_a_save_that_failed_can_be_repeated(operation: str, spilling: bool):
    for nth in range(1, 200):
        pages = MemoryPages()
        spill = spill_on(SimDisk()) if spilling else None
        made = small_map(pages, spill)
        put_in_any_order(made, entries(500))
        made.save()
        for n, key in enumerate(entries(500)):
            if n % 10:
                made.delete(key)
        wanted = dict(made.range())
        pages.fail(operation, nth)

        try:
            made.save()
        except Unavailable:
            made.check()
            made.save()
        else:
            assert nth > 3
            return

        found = small_map(pages)
        found.check()
        assert dict(found.range()) == wanted
        assert dict(made.range()) == wanted
    pytest.fail("a save has fewer calls than that")


def test_a_failed_commit_or_checkpoint_can_be_repeated():
    for operation in ("commit", "checkpoint"):
        pages = MemoryPages()
        made = small_map(pages)
        put_in_any_order(made, entries())
        pages.fail(operation, 1)

        with pytest.raises(Unavailable):
            made.checkpoint(pages)
        made.checkpoint(pages)
        pages.crash()

        assert dict(small_map(pages).range()) == entries()


def test_what_is_used_again_and_again_stays_in_memory():
    pages = MemoryPages()
    made = small_map(pages)
    put_in_any_order(made, entries())
    made.save()
    found = small_map(pages)
    found.get_many([b"000500"])
    found.get(b"000500")
    again: list[int] = []

    for key in sorted(entries(), key=lambda key: key[::-1]):  # each in another leaf than before
        found.get(key)
        before = pages.calls["read"]
        found.get(b"000500")
        again.append(pages.calls["read"] - before)

    assert pages.calls["read"] > 50
    assert sum(again) == 0


@pytest.mark.parametrize("put_short", [False, True])
def test_a_merge_that_cannot_read_its_neighbour_has_changed_nothing(put_short: bool):
    """Every key goes, or gets a short value, in a map that was just opened; reads fail."""
    pages = MemoryPages()
    made = PagedMap(pages, page_bytes=512)
    wanted = entries(150, 100)
    made.put_many(wanted.items())
    made.save()
    failures = 0

    for key in random.Random(7).sample(sorted(wanted), len(wanted)):
        for nth in range(1, 20):
            found = PagedMap(pages, page_bytes=512)
            found.get(key)  # the path is in memory: what is read now is read for a merge
            pages.fail("read", nth)
            try:
                if put_short:
                    found.put_many([(key, b"")])
                else:
                    found.delete(key)
                break
            except Unavailable:
                failures += 1
                assert dict(found.range()) == wanted
                found.check()
        pages.on_call = None
        wanted[key] = b""
        if not put_short:
            del wanted[key]
        assert dict(found.range()) == wanted
        found.save()

    assert failures > 10


def operations() -> list[Callable[[PagedMap], object]]:
    """Each needs pages that are not in memory, neighbours for a merge among them."""
    return [
        lambda made: made.put(b"000100!", b"new"),
        lambda made: made.put(b"000100", b"v" * 100),
        lambda made: made.put(b"000100", b""),
        lambda made: made.put(b"000100", b"v" * 5000),
        lambda made: made.delete(b"000100"),
        lambda made: made.delete(b"000199"),
        lambda made: made.get(b"000100"),
        lambda made: made.get_many([b"000100", b"000001"]),
        lambda made: list(made.range()),
        lambda made: list(made.range(reverse=True)),
        lambda made: made.check(),
    ]


@pytest.mark.parametrize("which", range(len(operations())))
@pytest.mark.parametrize("ram_bytes", [0, RAM])
@pytest.mark.parametrize("called", ["read", "write"])
def test_an_operation_that_fails_has_changed_nothing(which: int, ram_bytes: int, called: str):
    wanted = entries(200, 8)
    for nth in range(1, 100):
        pages = MemoryPages()
        made = PagedMap(pages, page_bytes=128, ram_bytes=ram_bytes)
        made.put_many(wanted.items())
        for key in list(wanted)[::3]:
            made.put(key, wanted[key])
        pages.fail(called, nth)

        try:
            operations()[which](made)
        except Unavailable:
            pages.on_call = None
            assert dict(made.range()) == wanted
            made.check()
        else:
            return
    assert which >= 8, "only what reads everything has that many calls"


def test_any_failing_call_of_the_spill_loses_nothing():
    for nth in range(1, 60):
        pages, disk = MemoryPages(), SimDisk()
        made = small_map(pages, spill_on(disk), ram_bytes=3000)
        wanted = {}
        disk.fail("*", nth=nth, errno=errno.EIO)

        for key, value in entries(300).items():
            try:
                made.put(key, value)
            except StrandlineError:
                made.put(key, value)
            wanted[key] = value

        assert dict(made.range()) == wanted
        made.check()
        made.save()
        assert dict(small_map(pages).range()) == wanted


def test_maps_of_two_spaces_share_a_spill():
    pages, spill = MemoryPages(), spill_on(SimDisk())
    one = PagedMap(pages, space=1, page_bytes=512, ram_bytes=RAM, spill=spill)
    other = PagedMap(pages, space=2, page_bytes=512, ram_bytes=RAM, spill=spill)
    put_in_any_order(one, entries())
    put_in_any_order(other, entries(900, 40))

    one.save()

    assert dict(other.range()) == entries(900, 40)
    other.check()
    one.check()
