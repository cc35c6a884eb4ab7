"""Promise: a version that is still kept can be recovered by its number, exactly; what came later
is then gone, and one that is too old says so."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid, NotFound
from tests.unit.reservoir.small_reservoir import FULL, World, commit, pages_of


@pytest.fixture
def world() -> World:
    return World(snapshot_interval=3, retained_versions=4)


def history(world: World, count: int = 8) -> dict[int, tuple[bytes, dict[int, bytes]]]:
    """Versions with their meta and pages: bundles and data files, writes and deletes."""
    found = {}
    with world.open() as reservoir:
        for number in range(count):
            commit(reservoir, {number % 4 + 1: b"%d" % number, 20 + number % 3: FULL})
            commit(reservoir, {(number + 2) % 4 + 1: None})
            version = reservoir.checkpoint(b"meta %d" % number)
            found[version] = reservoir.meta, pages_of(reservoir)
    return found


@pytest.mark.parametrize("back", range(5))
def test_a_version_that_is_kept_has_its_pages_and_its_meta(world, back):
    versions = history(world)
    version = max(versions) - back

    with world.open(at=version) as reservoir:
        assert (reservoir.meta, pages_of(reservoir)) == versions[version]
        assert reservoir.recovered.version == version
        assert reservoir.version == max(versions) + 1


@pytest.mark.parametrize("back", [1, 2])
def test_what_came_after_a_recovered_version_is_gone(world, back):
    versions = history(world)
    newest = max(versions)

    world.open(at=newest - back).close()

    assert not set(world.versions()) & set(range(newest - back + 1, newest + 1))
    with world.open() as reservoir:
        assert (reservoir.meta, pages_of(reservoir)) == versions[newest - back]
        assert reservoir.recovered.passed_over == ()


def test_writing_goes_on_from_a_recovered_version(world):
    versions = history(world)
    expected = dict(versions[max(versions) - 2][1])
    with world.open(at=max(versions) - 2) as reservoir:
        for number in range(10):
            commit(reservoir, {1: b"after %d" % number, 30 + number: FULL})
            expected |= {1: b"after %d" % number, 30 + number: FULL}
            reservoir.checkpoint()

    with world.open() as reservoir:
        assert pages_of(reservoir) == expected


def test_a_version_is_read_by_its_number_without_changing_anything(world):
    versions = history(world)
    before = world.objects.snapshot()

    with world.open(at=max(versions) - 1, readonly=True) as reservoir:
        assert (reservoir.meta, pages_of(reservoir)) == versions[max(versions) - 1]

    assert world.objects.snapshot() == before


@pytest.mark.parametrize("version", [0, 99, -1])
def test_a_version_that_never_was_says_so_and_changes_nothing(world, version):
    history(world)
    before = world.objects.snapshot()

    with pytest.raises(Invalid, match=f"no version {version}: the newest are"):
        world.open(at=version)

    assert world.objects.snapshot() == before


def test_a_version_that_is_too_old_says_so_and_changes_nothing(world):
    versions = history(world, 30)
    before = world.objects.snapshot()

    for version in range(1, max(versions) - 4 - 3):
        with pytest.raises((Invalid, NotFound), match=r"no version|retained_versions"):
            world.open(at=version)

    assert world.objects.snapshot() == before


def test_a_version_whose_files_are_deleted_says_how_to_keep_more():
    world = World(snapshot_interval=20, retained_versions=1)
    with world.open() as reservoir:
        commit(reservoir, {1: FULL})
        version = reservoir.checkpoint()
        commit(reservoir, {1: b"small"})
        for _ in range(4):
            reservoir.checkpoint()
    assert version in world.versions()

    with pytest.raises(NotFound, match="retained_versions"):
        world.open(at=version)


def test_a_version_whose_checkpoints_are_deleted_is_too_old_and_not_damaged(world):
    with world.open() as reservoir:
        reservoir.checkpoint()
        commit(reservoir, {1: b"stays"})
        version = reservoir.checkpoint()
        for _ in range(15):
            commit(reservoir, {2: FULL})
            reservoir.checkpoint()
    assert version in world.versions()

    with pytest.raises(NotFound, match="retained_versions"):
        world.open(at=version)


def test_a_version_can_be_recovered_although_the_listing_is_late(world):
    versions = history(world, 3)
    newest = max(versions)
    world.objects.lagging_list = 1

    with world.open(at=newest - 1) as reservoir:
        assert pages_of(reservoir) == versions[newest - 1][1]
