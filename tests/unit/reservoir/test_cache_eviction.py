"""Promise: the least recently used file goes first, one that was used often stays longer, and a
cache that is nearly full makes room before anybody waits for it."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from strandline.reservoir.cache.eviction import WEIGHT_MAX, victims
from strandline.reservoir.cache.open_files import LocalFile, OpenFiles
from strandline.testing.sim_disk import SimDisk
from tests.unit.reservoir.cached_files import StoredFile, World, made


def opened(world: World, *file_ids: int) -> None:
    for file_id in file_ids:
        world.cache.open(world.stored(file_id).ref)


def added(world: World, file_ids: Iterable[int]) -> list[StoredFile]:
    files = [made(file_id) for file_id in file_ids]
    for file in files:
        world.cache.add(file.ref, [file.data])
    return files


def test_the_file_used_longest_ago_goes_first():
    world = World(files_max=3)
    opened(world, 1, 2, 3, 1, 2, 3, 2, 1)

    opened(world, 4)

    assert world.ids() == [1, 2, 4]


def test_of_files_used_equally_often_the_order_of_use_decides():
    world = World(files_max=3)
    added(world, [1, 2, 3])
    opened(world, 3, 2, 1)

    opened(world, 4)

    assert world.ids() == [1, 2, 4]


def test_a_file_that_was_used_often_outlives_newer_ones():
    world = World(files_max=3)
    opened(world, 1, 1, 1, 1, 2, 3)

    opened(world, 4)

    assert world.ids() == [1, 3, 4]


def test_a_file_that_was_downloaded_outlives_one_that_nobody_has_read():
    world = World(files_max=3)
    opened(world, 1)
    added(world, [2, 3])

    opened(world, 4)

    assert world.ids() == [1, 3, 4]


def test_no_file_lives_for_ever_without_being_used():
    world = World(files_max=2)
    opened(world, *[1] * 100)

    added(world, range(2, 2 + WEIGHT_MAX + 1))
    assert 1 in world.ids()
    added(world, [50, 51])

    assert 1 not in world.ids()


def test_only_uses_since_the_last_scan_add_weight():
    world = World(files_max=2)
    opened(world, 1, 1)

    for n in range(2, 30):
        added(world, [n])

    assert 1 not in world.ids()


def test_a_scan_goes_no_further_than_it_must():
    files = [LocalFile(n, "", 10, weight=2, used=n) for n in range(4)]
    files[1].weight = 0

    chosen = victims(files, 5)

    assert chosen == [files[1]]
    assert [file.weight for file in files] == [1, 0, 2, 2]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5), st.integers(0, 9)), max_size=20),
    st.integers(-5, 500),
)
def test_enough_is_given_up_and_never_a_file_more(rows, size):
    files = [
        LocalFile(n, "", file_size, weight=weight, used=n)
        for n, (file_size, weight, _) in enumerate(rows)
    ]
    for file, (_, _, uses) in zip(files, rows, strict=True):
        file.uses = uses

    chosen = victims(files, size)

    total = sum(file.size for file in chosen)
    assert total >= min(size, sum(file.size for file in files))
    assert not chosen or total - chosen[-1].size < size
    assert len(set(chosen)) == len(chosen)
    assert all(0 <= file.weight <= WEIGHT_MAX for file in files)


def test_a_cache_above_80_percent_gives_up_one_file_at_a_time():
    world = World(files_max=10)
    added(world, range(1, 11))

    turns = [world.cache.run_once() for _ in range(4)]

    assert turns == [True, True, False, False]
    assert world.ids() == list(range(3, 11))
    assert world.cache.statistics().evictions == 2


def test_evicting_by_name_spares_the_others():
    world = World()
    opened(world, 1, 2)

    answers = [world.cache.evict(1), world.cache.evict(1)]

    assert answers == [True, False]
    assert world.ids() == [2]


def test_a_peek_does_not_save_a_file():
    world = World(files_max=2)
    added(world, [1, 2])

    for _ in range(9):
        assert world.cache.peek(1) is not None
    added(world, [3])

    assert world.ids() == [2, 3]


def test_a_restart_forgets_how_often_a_file_was_used():
    world = World(files_max=2)
    opened(world, 1, *[1] * 9, 2)

    cache = world.reopened(made(1), made(2))
    for file in (made(1), made(2)):
        assert cache.peek(file.ref.file_id) is not None
    added(world, [3])

    assert world.ids() == [2, 3]


def test_descriptors_are_bounded_and_those_used_longest_ago_are_let_go():
    disk = SimDisk()
    disk.make_dirs("/d")
    files = [LocalFile(n, f"/d/{n}", 1, weight=0, used=0) for n in range(20)]
    for file in files:
        disk.reserve(file.path, 1)
    pool = OpenFiles(disk, files_max=8)

    held = [pool.open(file) for file in files]

    assert len(pool) <= 8
    assert files[-1].opened is held[-1]
    assert files[0].opened is None
    assert held[0].pread(1, 0) == b"\0"
