"""Promise: over a reservoir a map survives as it was checkpointed, and a checkpoint costs what has
changed."""

from __future__ import annotations

import pytest

from strandline.config.settings import ReservoirSettings
from strandline.errors import StrandlineError
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

LARGE = bytes(range(256)) * 20_000


def opened(objects: SimObjects, **options) -> Reservoir:
    settings = ReservoirSettings(file_bytes=100_000, retained_versions=10)
    return Reservoir(objects, settings=settings, disk=SimDisk(), start_jobs=False, **options)


def entries(count: int, size: int = 10) -> dict[bytes, bytes]:
    return {b"%06d" % n: b"v" * size for n in range(count)}


def test_a_map_is_as_it_was_checkpointed_after_any_opening():
    objects = SimObjects()
    with opened(objects) as reservoir:
        made = PagedMap(reservoir.session(), page_bytes=1024, ram_bytes=50_000)
        made.put_many(entries(3000).items())
        made.put(b"large", LARGE)
        version = made.checkpoint(reservoir, b"as of 7")
        made.put_many(entries(4000, 99).items())
        made.delete(b"large")
        made.save()

    with opened(objects) as reservoir:
        found = PagedMap(reservoir.session(), page_bytes=1024)
        found.check()

        assert reservoir.recovered.version == version
        assert reservoir.meta == b"as of 7"
        assert dict(found.range()) == {**entries(3000), b"large": LARGE}


def test_an_older_version_has_the_older_map():
    objects = SimObjects()
    versions = {}
    with opened(objects) as reservoir:
        made = PagedMap(reservoir.session(), page_bytes=512)
        for count in (10, 500, 200):
            for key in entries(600):
                made.delete(key)
            made.put_many(entries(count).items())
            versions[made.checkpoint(reservoir)] = count

    for version, count in versions.items():
        with opened(objects, at=version, readonly=True) as reservoir:
            found = PagedMap(reservoir.session(), page_bytes=512)
            found.check()

            assert dict(found.range()) == entries(count)


def test_a_checkpoint_uploads_what_has_changed():
    objects = SimObjects()
    with opened(objects) as reservoir:
        made = PagedMap(reservoir.session(), page_bytes=1024)
        made.put_many(entries(20_000).items())
        made.checkpoint(reservoir)
        first = objects.bytes_in.total()

        made.put(b"010000", b"changed")
        made.checkpoint(reservoir)

    assert first > 400_000
    assert objects.bytes_in.total() - first < 10_000


def test_a_committed_map_is_seen_by_another_session():
    with opened(SimObjects()) as reservoir:
        session = reservoir.session()
        made = PagedMap(session, space=4, page_bytes=512)
        made.put_many(entries(300).items())
        made.save()
        before = len(PagedMap(reservoir.session(), space=4))

        session.commit()

        assert before == 0
        assert dict(PagedMap(reservoir.session(), space=4).range()) == entries(300)


def test_a_rolled_back_session_has_the_map_as_it_was_committed():
    with opened(SimObjects()) as reservoir:
        session = reservoir.session()
        made = PagedMap(session, page_bytes=512, ram_bytes=5_000)
        made.put_many(entries(300).items())
        made.checkpoint(reservoir)
        made.put_many(entries(900, 50).items())

        session.rollback()
        found = PagedMap(session, page_bytes=512)

        found.check()
        assert dict(found.range()) == entries(300)


@pytest.mark.parametrize("spilling", [False, True])
def test_a_checkpoint_that_failed_at_any_request_can_be_repeated(spilling: bool):
    failures = 0
    for nth in range(1, 12):
        objects = SimObjects()
        with opened(objects) as reservoir:
            spill = Spill("/spill", disk=SimDisk()) if spilling else None
            session = reservoir.session()
            made = PagedMap(session, page_bytes=1024, ram_bytes=30_000, spill=spill)
            made.put_many(entries(2000).items())
            made.checkpoint(reservoir)
            for key in list(entries(2000))[::3]:
                made.delete(key)
            wanted = dict(made.range())
            objects.fail(nth=nth)

            try:
                made.checkpoint(reservoir)
            except StrandlineError:
                failures += 1
                objects.heal()
                made.checkpoint(reservoir)
            objects.heal()

        with opened(objects) as reservoir:
            found = PagedMap(reservoir.session(), page_bytes=1024)
            found.check()
            assert dict(found.range()) == wanted

    assert failures
