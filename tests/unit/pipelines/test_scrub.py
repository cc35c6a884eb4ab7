"""Promise: a scrub tells of all that is damaged and in use, and of nothing else."""

from __future__ import annotations

import pytest

from strandline.backup.backups import Backups
from strandline.pipelines import Embedded, compact, scrub
from tests.unit.lake.small_lake import fill, open_small
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of


def _swept(world: ColdWorld) -> None:
    for _ in range(3):
        world.clock.advance(200)
        world.store.relocate()


def test_a_file_that_is_merged_and_swept_meanwhile_is_no_finding():
    world = ColdWorld(grace_s=50.0, manifest_retention_s=50.0)
    topic = world.cold_topic(6)
    files = len(world.data_keys())
    acted = []

    def act(operation: str, key: str) -> None:
        if operation == "get_ranges" and "/data/" in key and not acted:
            acted.append(key)
            world.objects.on_call = None
            compact(world.objects, engine=Embedded(1), clock=world.clock)
            _swept(world)

    world.objects.on_call = act
    summary = scrub(world.objects, engine=Embedded(1), clock=world.clock)

    assert acted
    assert len(world.data_keys()) == 1
    assert (summary.files, summary.findings) == (files, [])
    assert seqs_of(topic) == list(range(1, 601))


def test_a_missing_file_is_found():
    world = ColdWorld()
    world.cold_topic(6)
    missing = world.data_keys()[2]
    world.objects.delete([missing])

    summary = scrub(world.objects, engine=Embedded(1), clock=world.clock)

    [found] = summary.findings
    assert found.path.endswith(missing)
    assert (found.reason, found.first_seq) == ("a lake file is missing", 201)


@pytest.mark.parametrize("pipeline", [scrub, compact])
def test_a_manifest_that_cannot_be_read_is_told_and_holds_up_no_other_topic(pipeline):
    world = ColdWorld()
    for name in ("bad", "good"):
        world.fill(world.store.topic(name), 4)
    world.store.relocate()
    key = "topics/0000000000000001/manifest/00000000000000000002.json"
    stored = bytearray(world.objects.get(key))
    stored[50] ^= 1
    world.objects.put(key, bytes(stored))

    summary = pipeline(world.objects, engine=Embedded(1), clock=world.clock)

    if pipeline is scrub:
        assert {(each.topic, each.kind) for each in summary.findings} == {("bad", "lake")}
        assert summary.files == 3
    else:
        assert [(each.topic, each.damaged) for each in summary.skipped] == [("bad", True)]
        assert summary.groups == 1


def test_a_backup_is_whole_though_files_are_merged_while_it_is_taken(tmp_path):
    with open_small(str(tmp_path / "data")) as store:
        fill(store, batches=6)
        merged = []

        def merge(what: str, done: int, total: int | None) -> None:
            del what, done, total
            if not merged:
                merged.append(compact(store))

        store.backup(str(tmp_path / "backups"), progress=merge)

    assert merged[0].groups == 1
    backups = Backups(str(tmp_path / "backups"))
    assert backups.verify().ok
    backups.restore(str(tmp_path / "restored"))
    with open_small(str(tmp_path / "restored")) as store:
        assert len(store.topic("orders").read(0, limit=1000).records) == 600
