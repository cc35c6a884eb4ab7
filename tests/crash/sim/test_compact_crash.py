"""Promise (O1 to O3): a compaction that fails or dies at any request loses nothing.

Every request to the object store fails once, before or after it happened, with refused credentials
or with damaged bytes; or the process dies there. At every moment every version that can be read has
all its files, the rows are the same before and after, and the next run ends the work.
"""

from __future__ import annotations

import pytest

from strandline.config.settings import LakeSettings
from strandline.errors import StrandlineError
from strandline.lake import external_reader, object_keys
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.gc import collect_garbage
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.pipelines import Embedded, compact
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import How, SimObjects
from tests.crash.sim.world import LONG
from tests.unit.lake.histories import ids
from tests.unit.log.topic.cold_world import ColdWorld

WAYS: list[How] = ["before", "after", "denied", "flipped", "truncated"]
SETTINGS = LakeSettings(file_bytes=1_800, zone_rows=40)


class _DiedError(Exception):
    """The process is no more."""


class _Lake:
    """A lake with small files, deleted rows and a floor, and what is in it."""

    def __init__(self) -> None:
        world = ColdWorld(dead_share=1.0)
        topic = world.cold_topic(8)
        topic.delete(match="odd")
        topic.delete(before=131)
        world.store.relocate()
        self.objects = world.objects
        self.store_id = bytes.fromhex(world.store.id)
        self.rows = rows_of(self.objects)
        world.store.close()


def rows_of(objects: SimObjects) -> list[tuple[int, bytes]]:
    """The live rows of the newest version, read by a stranger."""
    manifest = _newest(objects)
    found = []
    for file in manifest.files:
        key = object_keys.data_key(1, file.name())
        reader = LakeFileReader(
            lambda start, length, key=key: objects.get_range(key, start, length), file, 1, key
        )
        for place in range(len(reader.zones)):
            table = reader.rows(place)
            found += list(zip(table["seq"].to_pylist(), table["data"].to_pylist(), strict=True))
    gone = manifest.deleted or ()
    return [(seq, data) for seq, data in found if seq >= manifest.floor and seq not in gone]


def _compact(objects: SimObjects) -> int:
    summary = compact(objects, settings=SETTINGS, engine=Embedded(1), clock=SimClock())
    assert not summary.skipped
    return summary.groups


def _newest(objects: SimObjects) -> Manifest:
    manifest = external_reader.newest_of(objects, external_reader.owner_of(objects), 1)
    assert manifest is not None
    return manifest


def _files_in(objects: SimObjects) -> int:
    return len(_newest(objects).files)


def _missing(objects: SimObjects) -> list[str]:
    """Files that the newest version names and that are not there."""
    there = objects.snapshot()
    names = [object_keys.data_key(1, file.name()) for file in _newest(objects).files]
    return [name for name in names if name not in there]


LAKE = _Lake()


def _calls() -> int:
    objects = LAKE.objects.fork()
    before = objects.calls_total
    assert _compact(objects) > 1
    return objects.calls_total - before


CALLS = _calls()


def _end_the_work(objects: SimObjects, at: object) -> None:
    """After a failure: the rows are there, the next run merges the rest, nothing is left over."""
    assert _missing(objects) == [], at
    assert rows_of(objects) == LAKE.rows, at
    _compact(objects)
    assert rows_of(objects) == LAKE.rows, at
    assert _files_in(objects) == FILES, at
    assert _compact(objects) == 0, at


def _merged_files() -> int:
    objects = LAKE.objects.fork()
    _compact(objects)
    return _files_in(objects)


FILES = _merged_files()


def test_a_compaction_leaves_the_rows_as_they_are():
    objects = LAKE.objects.fork()

    _compact(objects)

    assert rows_of(objects) == LAKE.rows
    assert _files_in(LAKE.objects) > FILES


@pytest.mark.parametrize("how", WAYS)
def test_any_call_to_the_object_store_may_fail(how):
    failed = 0
    for at in range(1, CALLS + 1, 1 if LONG else 2):
        objects = LAKE.objects.fork()
        objects.fail_at(at, how)
        try:
            compact(objects, settings=SETTINGS, engine=Embedded(1), clock=SimClock())
        except StrandlineError:
            failed += 1
        objects.heal()
        _end_the_work(objects, (at, how))

    assert failed or how in ("after", "flipped", "truncated")


@pytest.mark.parametrize("how", ["flipped", "truncated"])
def test_an_answer_that_is_bad_once_damages_no_group(how):
    """A second answer is asked for, be it what is merged or what was uploaded."""
    for nth in range(1, 12):
        objects = LAKE.objects.fork()
        objects.fail("get_ranges", nth=nth, how=how, key_contains="/data/")

        summary = compact(objects, settings=SETTINGS, engine=Embedded(1), clock=SimClock())

        assert not summary.damaged, nth


def test_a_process_that_dies_at_any_call_leaves_a_lake_that_the_next_run_ends():
    for at in range(1, CALLS + 1, 1 if LONG else 2):
        objects = LAKE.objects.fork()
        start = objects.calls_total

        def die(_operation: str, _key: str, objects=objects, start=start, at=at) -> None:
            if objects.calls_total - start >= at:
                raise _DiedError

        objects.on_call = die
        with pytest.raises(_DiedError):
            compact(objects, settings=SETTINGS, engine=Embedded(1), clock=SimClock())
        objects.on_call = None
        _end_the_work(objects, at)


def test_what_a_dead_compaction_uploaded_is_swept_as_an_orphan():
    objects = LAKE.objects.fork()
    uploaded = [False]

    def die(operation: str, _key: str) -> None:
        if uploaded[0]:
            raise _DiedError
        uploaded[0] = operation == "put_file"

    objects.on_call = die
    with pytest.raises(_DiedError):
        compact(objects, settings=SETTINGS, engine=Embedded(1), clock=SimClock())
    objects.on_call = None
    before = len([key for key in objects.snapshot() if "/data/" in key])

    clock = SimClock()
    clock.advance(10 * 86_400)
    ledger = ManifestCommitter(objects, LAKE.store_id, 1, clock, ids())
    for _ in range(3):
        clock.advance(86_400)
        collect_garbage(
            ledger, now_us=clock.now_us(), manifest_retention_s=0, grace_s=0, orphans=True
        )

    assert len([key for key in objects.snapshot() if "/data/" in key]) == before - 1
    assert rows_of(objects) == LAKE.rows
