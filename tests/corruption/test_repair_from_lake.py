"""Promise (C8): what is lost on the disk and kept in the lake is not lost.

Without a checkpoint the manifests tell topics, epochs, floors and deletes; damaged segments are
made anew from the lake's copy, or left to it.
"""

from __future__ import annotations

import pytest

from strandline.errors import Unavailable
from strandline.log.repair.repair import RepairReport, repair_store
from strandline.log.repair.verify import verify_store
from strandline.records import Record
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.corruption.lakes import copy_of, expected, lake_store, opened, settings
from tests.corruption.stores import ROOT, content_of, data_paths, flipped


def repaired(
    disk: SimDisk, objects: SimObjects, *, dry_run: bool = False, lake: bool = True
) -> RepairReport:
    return repair_store(
        disk,
        ROOT,
        settings(),
        dry_run=dry_run,
        clock=SimClock(),
        objects=objects,
        lake=lake,
    )


def without_checkpoints(disk: SimDisk) -> SimDisk:
    for path in (path for path in data_paths(disk) if "/meta/" in path):
        disk.durable_replace(path, b"not a checkpoint")
    return disk


def records_of(content: object) -> list[Record]:
    assert isinstance(content, tuple), content
    return [each for each in content[-1] if isinstance(each, Record)]


def test_without_a_checkpoint_the_lake_tells_what_there_is():
    disk, objects = copy_of(lake_store())
    with opened(*copy_of(lake_store())) as store:
        epochs = {name: store.topic(name).epoch for name in store.topics()}
    before = objects.snapshot()

    planned = repaired(without_checkpoints(disk), objects, dry_run=True)
    report = repaired(disk, objects)

    assert planned.lost == report.lost == []
    assert objects.snapshot() == before
    with opened(disk, objects) as store:
        found = content_of(store)
        assert {name: store.topic(name).epoch for name in store.topics()} == epochs
        assert store.topic("old").delete(before=26).earliest_seq == 26
        assert store.topic("old").statistics().payload_bytes == 0
    assert found.keys() == expected().keys()
    for name, content in expected().items():
        assert records_of(found[name]) == records_of(content)
        assert found[name][1:4] == content[1:4]


def test_a_store_made_from_its_lake_goes_on():
    disk, objects = copy_of(lake_store())
    repaired(without_checkpoints(disk), objects)

    with opened(disk, objects) as store:
        topic = store.topic("young")
        for number in range(16):
            topic.append(b"after %d" % number)
            if number % 8 == 7:
                store.checkpoint()
        store.relocate()
        assert topic._state.cold.last_seq > 8
        assert store.scrub().findings == []
    assert verify_store(disk, ROOT, settings(), objects=objects).ok


def test_without_checkpoint_and_lake_what_was_there_is_given_up_and_told():
    disk, objects = copy_of(lake_store())

    report = repaired(without_checkpoints(disk), objects, lake=False)

    assert {(lost.first_seq, lost.last_seq) for lost in report.lost} == {(1, 16), (1, 8)}


def test_a_lake_that_does_not_answer_makes_nobody_give_up_its_records():
    disk, objects = copy_of(lake_store())
    without_checkpoints(disk)
    objects.fail("list", nth=1, how="before", once=False)

    with pytest.raises(Unavailable):
        repaired(disk, objects)


def test_a_topic_that_was_deleted_does_not_come_back():
    disk, objects = copy_of(lake_store())
    with opened(disk, objects) as store:
        store.delete_topic("young")
        store.relocate()
        store.checkpoint()

    repaired(without_checkpoints(disk), objects)

    with opened(disk, objects) as store:
        assert store.topics() == ["old"]


@pytest.mark.parametrize("lake", [True, False], ids=["lake", "no lake"])
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_damaged_segments_that_the_lake_has_are_dropped_without_loss(how, lake):
    disk, objects = copy_of(lake_store(copy_hot=True))
    paths = [path for path in data_paths(disk) if "/segments/0" in path]
    for path in paths:
        if how == "missing":
            disk.remove(path)
        else:
            disk.durable_replace(path, flipped(disk.read(path), 100, 0))

    report = repaired(disk, objects, lake=lake)

    assert paths
    assert not report.healthy
    assert report.lost == []
    with opened(disk, objects, copy_hot=True) as store:
        assert content_of(store) == expected(copy_hot=True)
        for name in store.topics():
            topic = store.topic(name)
            topic.delete(before=topic.head_seq + 1)
            assert topic.statistics().payload_bytes == 0
    assert verify_store(disk, ROOT, settings(), objects=objects).ok
