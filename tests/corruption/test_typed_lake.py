"""Promise (C1, C8): typed columns leave nothing in the lake unchecked, and a schema is not lost.

One bit of every few bytes of every manifest and file of a topic with a schema is flipped.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.log.repair.repair import repair_store
from strandline.log.repair.verify import verify_store
from strandline.schema import Schema
from strandline.testing.sim_clock import SimClock
from tests.corruption.lakes import (
    copy_of,
    keys_of,
    opened,
    put_in_place,
    settings,
    typed_store,
)
from tests.corruption.stores import ROOT, content_of, data_paths, flipped

NEWEST = Schema(2, {"n": "f64", "word": '["w0","w3"]'})


@pytest.mark.parametrize("step", [101, pytest.param(1, marks=pytest.mark.crash)])
@pytest.mark.parametrize("kind", ["/manifest/", "/data/"])
def test_any_flipped_bit_is_named_and_no_reader_sees_another_record(kind, step):
    disk, whole = typed_store()
    with opened(disk.kill(), whole.fork()) as store:
        expected = content_of(store)
    missed, wrong = [], []
    for key in (key for key in keys_of(whole) if kind in key):
        for offset in range(0, len(whole.get(key)), step):
            damaged = whole.fork()
            put_in_place(damaged, key, flipped(whole.get(key), offset, offset % 8))

            report = verify_store(disk.kill(), ROOT, settings(), objects=damaged)
            with opened(disk.kill(), damaged) as store:
                found = content_of(store)["typed"]

            if not any(key in problem.path for problem in report.problems):
                missed.append((key, offset))
            if found != expected["typed"] and not (
                isinstance(found, Corrupt) and key in str(found)
            ):
                wrong.append((key, offset))
    assert (missed, wrong) == ([], [])


def test_files_of_two_versions_verify():
    disk, objects = copy_of(typed_store())
    with opened(disk, objects) as store:
        manifest = ManifestHistory(objects, bytes.fromhex(store.id), 1).newest().manifest

    report = verify_store(disk, ROOT, settings(), objects=objects)

    assert {file.schema_version for file in manifest.files} == {1, 2}
    assert manifest.schema == NEWEST
    assert report.ok


def test_a_store_without_a_checkpoint_has_its_schema_from_the_lake():
    disk, objects = copy_of(typed_store())
    for path in data_paths(disk):
        if "/meta/" in path:
            disk.durable_replace(path, b"not a checkpoint")
        elif "/wal/" in path:
            disk.remove(path)

    repair_store(disk, ROOT, settings(), clock=SimClock(), objects=objects)

    with opened(disk, objects) as store:
        config = store.topic("typed").config
        assert Schema(config.schema_version, config.schema) == NEWEST
        store.topic("typed").alter(schema={"n": "i64"})
        store.relocate()
        manifest = ManifestHistory(objects, bytes.fromhex(store.id), 1).newest().manifest
    assert manifest.schema == Schema(3, {"n": "i64"})
