"""Promise: rewriting files loses no page and gives space back; a file without a live page is
deleted unread; garbage stays for the versions that are kept."""

from __future__ import annotations

import random

import pytest

from strandline.reservoir import object_keys
from tests.unit.reservoir.small_reservoir import FULL, World, commit, pages_of

MANY = range(1, 201)


def sparse(world: World) -> tuple[object, dict[int, bytes]]:
    """A reservoir with many files of ten pages, of which one is alive."""
    reservoir = world.open()
    pages = {page_id: random.Random(page_id).randbytes(100) for page_id in MANY}
    commit(reservoir, pages)
    reservoir.checkpoint()
    gone = [page_id for page_id in MANY if page_id % 10]
    commit(reservoir, dict.fromkeys(gone))
    return reservoir, {n: data for n, data in pages.items() if n % 10 == 0}


def test_compaction_keeps_every_page_and_frees_files():
    world = World(snapshot_interval=3)
    reservoir, alive = sparse(world)
    files = len(world.data_keys())

    for _ in range(8):
        reservoir.checkpoint()
        assert pages_of(reservoir, MANY) == alive

    assert files >= 20
    assert len(world.data_keys()) <= 4
    assert pages_of(world.open(), MANY) == alive


def test_no_compaction_happens_when_it_is_turned_off():
    world = World(snapshot_interval=3, compact_share=0.0)
    reservoir, alive = sparse(world)
    before = world.data_keys()

    for _ in range(8):
        reservoir.checkpoint()

    assert world.data_keys() == before
    assert pages_of(world.open(), MANY) == alive


def test_bundles_are_rewritten_once_a_snapshot_covers_them():
    world = World(snapshot_interval=4, retained_versions=1)
    with world.open() as reservoir:
        for page_id in range(1, 30):
            commit(reservoir, {page_id: b"%d" % page_id})
            reservoir.checkpoint()

        assert reservoir.statistics().files <= 14
        assert len(world.versions()) <= 14
    assert pages_of(world.open()) == {page_id: b"%d" % page_id for page_id in range(1, 30)}


def test_a_file_without_a_live_page_is_deleted_unread():
    world = World(snapshot_interval=3)
    with world.open() as reservoir:
        commit(reservoir, {1: FULL, 2: b"two"})
        reservoir.checkpoint()
        key = object_keys.file_key(reservoir.place(1).file_id)
        commit(reservoir, {1: None})
        read = []
        world.objects.on_call = lambda operation, key: read.append((operation, key))

        for _ in range(6):
            reservoir.checkpoint()

    assert key not in world.objects.snapshot()
    assert [operation for operation, asked in read if key in asked] == ["delete"]


@pytest.mark.parametrize("retained_versions", [0, 1, 2, 5])
def test_garbage_is_kept_for_the_versions_that_can_be_recovered(retained_versions):
    world = World(snapshot_interval=3, retained_versions=retained_versions)
    with world.open() as reservoir:
        commit(reservoir, {1: FULL})
        last = reservoir.checkpoint()
        (key,) = world.data_keys()
        commit(reservoir, {1: None})
        while key in world.objects.snapshot():
            newest = reservoir.checkpoint()

    assert newest - retained_versions > last
    assert newest <= last + retained_versions + 3


def test_a_page_that_is_written_while_its_file_is_rewritten_stays_the_newer_one():
    world = World(snapshot_interval=3)
    reservoir, alive = sparse(world)
    newer = dict.fromkeys(list(alive)[::2], b"newer")
    commit(reservoir, newer)

    for _ in range(6):
        reservoir.checkpoint()

    assert pages_of(reservoir, MANY) == alive | newer
    assert pages_of(world.open(), MANY) == alive | newer


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_pages_are_rewritten_as_they_are_stored_now(compression):
    other = {"none": "zstd", "zstd": "none"}[compression]
    world = World(snapshot_interval=3, compression=compression)
    reservoir, alive = sparse(world)
    reservoir.close()
    with world.open(compression=other) as reservoir:
        before = {reservoir.place(page_id) for page_id in alive}
        commit(reservoir, dict.fromkeys(set(MANY) - alive.keys()))

        for _ in range(6):
            reservoir.checkpoint()

        assert len(before & {reservoir.place(page_id) for page_id in alive}) <= 2
        assert pages_of(reservoir, MANY) == alive
    assert pages_of(world.open(), MANY) == alive


def test_pages_of_both_kinds_live_beside_each_other():
    world = World()
    pages: dict[int, bytes] = {}
    for number, compression in enumerate(["none", "zstd", "none", "zstd", "zstd"]):
        with world.open(compression=compression) as reservoir:
            new = {number * 3 + 1: b"small" * 10, number * 3 + 2: FULL * 3, number * 3 + 3: b""}
            commit(reservoir, new)
            pages |= new
            assert pages_of(reservoir) == pages
            reservoir.checkpoint()

    assert pages_of(world.open()) == pages


def test_packed_pages_take_less_space_and_read_the_same():
    sizes = {}
    for compression in ("none", "zstd"):
        world = World(compression=compression)
        with world.open() as reservoir:
            session = reservoir.session()
            session.write(1, b"again and " * 300)
            assert session.read(1) == b"again and " * 300
            session.commit()
            assert reservoir.read(1) == b"again and " * 300
            reservoir.checkpoint()
        sizes[compression] = sum(len(each.data) for each in world.objects.snapshot().values())
        assert world.open().read(1) == b"again and " * 300

    assert sizes["zstd"] < sizes["none"] / 2


@pytest.mark.parametrize("seed", range(5))
def test_space_stays_in_proportion_to_what_is_alive(seed):
    drawn = random.Random(seed)
    world = World(snapshot_interval=3, retained_versions=1)
    model: dict[int, bytes] = {}
    with world.open() as reservoir:
        for _ in range(120):
            changes = {
                drawn.randrange(1, 50): drawn.randbytes(drawn.randrange(200)) for _ in "12345"
            }
            commit(reservoir, changes)
            model |= changes
            reservoir.checkpoint()

        assert pages_of(reservoir) == model
        assert reservoir.statistics().file_bytes < 40_000
        assert len(world.objects.snapshot()) < 40
    assert pages_of(world.open()) == model
