"""Promise: a change of a manifest fits or is refused, and making it twice is making it once."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from strandline.errors import Conflict, Invalid
from strandline.lake.manifest.manifest import Manifest, RemovedFile
from tests.unit.lake.histories import TOPIC_ID, lake_file

ONE, TWO, THREE = lake_file(1, 10), lake_file(11, 20), lake_file(21, 30)
AT = 1_000


def manifest(**changes: object) -> Manifest:
    start = {"number": 5, "topic_id": TOPIC_ID, "name": "orders", "epoch": 1, "created_us": 0}
    return Manifest(**(start | changes))  # type: ignore[arg-type]


def test_files_are_found_by_seq():
    three = manifest(files=(ONE, lake_file(15, 20), THREE))

    found = [three.file_at(seq) for seq in (0, 1, 10, 11, 14, 15, 30, 31)]

    assert found == [None, ONE, ONE, None, None, lake_file(15, 20), THREE, None]
    assert three.files_between(10, 15) == (ONE, lake_file(15, 20))
    assert three.files_between(11, 14) == ()
    assert three.files_between(0, 99) == three.files


def test_a_file_is_found_by_its_whole_name():
    one = manifest(files=(ONE,))

    assert one.find_file(ONE.name()) == ONE
    assert one.find_file(lake_file(1, 10, salt=1).name()) is None
    assert one.find_file("something else") is None


def test_totals_are_those_of_the_live_files():
    two = manifest(files=(ONE, TWO), floor=3)

    assert (two.last_seq, two.rows, two.size) == (20, 20, 20)
    assert manifest().last_seq == 0
    assert manifest(floor=8).last_seq == 7


def test_added_files_are_sorted_in():
    assert manifest().with_added([THREE, ONE]).with_added([TWO]).files == (ONE, TWO, THREE)


@pytest.mark.parametrize("other", [lake_file(10, 12), lake_file(1, 10, salt=1), lake_file(3, 4)])
def test_a_file_for_seqs_that_another_answers_for_is_refused(other):
    with pytest.raises(Conflict, match="overlaps"):
        manifest(files=(ONE,)).with_added([other])


def test_files_that_overlap_each_other_are_refused():
    with pytest.raises(Conflict, match="overlaps"):
        manifest().with_added([ONE, lake_file(10, 12)])


@pytest.mark.parametrize("empty", [lake_file(0, 5), lake_file(6, 5)])
def test_a_file_that_answers_for_no_seqs_is_refused(empty):
    with pytest.raises(Invalid):
        manifest().with_added([empty])


def test_a_file_below_the_floor_is_refused_and_one_across_it_is_not():
    floored = manifest(floor=11)

    with pytest.raises(Conflict, match="below the floor"):
        floored.with_added([ONE])
    assert floored.with_added([lake_file(5, 12)]).files == (lake_file(5, 12),)


def test_a_file_that_left_cannot_come_back():
    left = manifest(files=(ONE, TWO)).with_floor(11, at_us=AT)

    with pytest.raises(Conflict):
        left.with_added([ONE])
    with pytest.raises(Conflict, match="has left"):
        manifest(removed=left.removed).with_added([ONE])


def test_replaced_files_leave_and_are_remembered():
    replaced = manifest(files=(ONE, TWO, THREE)).with_replaced(
        [TWO.name(), ONE.name()], [lake_file(1, 20)], at_us=AT
    )

    assert replaced.files == (lake_file(1, 20), THREE)
    assert sorted(entry.name for entry in replaced.removed) == [ONE.name(), TWO.name()]
    assert {(entry.number, entry.at_us) for entry in replaced.removed} == {(6, AT)}


def test_a_file_may_be_replaced_by_several_and_by_itself():
    whole = lake_file(1, 20)
    halves = [lake_file(11, 20, salt=1), lake_file(1, 10, salt=1)]

    split = manifest(files=(whole, THREE)).with_replaced(
        [whole.name(), THREE.name()], [*halves, THREE], at_us=AT
    )

    assert split.files == (halves[1], halves[0], THREE)
    assert split.removed == (RemovedFile(whole.name(), 6, AT),)


@pytest.mark.parametrize(
    "new", [[lake_file(1, 19)], [lake_file(2, 20)], [], [lake_file(1, 9), lake_file(11, 20)]]
)
def test_new_files_answer_for_exactly_the_seqs_of_the_old(new):
    with pytest.raises(Invalid, match="same seqs"):
        manifest(files=(ONE, TWO)).with_replaced([ONE.name(), TWO.name()], new, at_us=AT)


def test_a_file_that_is_no_longer_live_cannot_be_replaced():
    with pytest.raises(Conflict, match="no longer live"):
        manifest(files=(ONE,)).with_replaced([ONE.name(), TWO.name()], [lake_file(1, 20)], at_us=AT)


def test_only_what_a_rewrite_purged_is_shown_again():
    hidden = manifest(files=(ONE,), deleted=BitMap64([3, 4, 5]))

    rewritten = hidden.with_replaced(
        [ONE.name()], [lake_file(1, 10, salt=1)], at_us=AT, purged=BitMap64([3, 4])
    )

    assert list(rewritten.deleted) == [5]
    assert list(hidden.deleted) == [3, 4, 5]


def test_a_floor_takes_the_files_that_lie_all_below_it():
    floored = manifest(files=(ONE, TWO, THREE), deleted=BitMap64([2, 14, 16])).with_floor(
        15, at_us=AT
    )

    assert floored.files == (TWO, THREE)
    assert floored.removed == (RemovedFile(ONE.name(), 6, AT),)
    assert list(floored.deleted) == [16]
    assert floored.with_floor(9, at_us=AT) is floored


def test_a_deleted_topic_has_no_files_and_takes_none():
    dropped = manifest(files=(ONE, TWO), deleted=BitMap64([1])).with_dropped(at_us=AT)

    assert (dropped.files, dropped.deleted, len(dropped.removed)) == ((), None, 2)
    with pytest.raises(Conflict, match="deleted"):
        dropped.with_added([THREE])


def test_only_objects_that_nobody_names_are_condemned():
    known = manifest(files=(ONE,), removed=(RemovedFile("a.parquet", 2, 1),))

    condemned = known.with_condemned([ONE.name(), "a.parquet", "b.parquet"], at_us=AT)

    assert condemned.removed == (*known.removed, RemovedFile("b.parquet", 6, AT))


CHANGES = {
    "added": lambda each: each.with_added([lake_file(31, 40), THREE]),
    "replaced": lambda each: each.with_replaced([ONE.name()], [lake_file(1, 10, salt=9)], at_us=AT),
    "floor": lambda each: each.with_floor(12, at_us=AT),
    "deleted": lambda each: each.with_deleted(BitMap64([5, 15, 500])),
    "epoch": lambda each: each.with_epoch(2),
    "dropped": lambda each: each.with_dropped(at_us=AT),
    "condemned": lambda each: each.with_condemned(["b.parquet"], at_us=AT),
    "forgotten": lambda each: each.without_removed(["a.parquet"]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_made_twice_is_made_once(change):
    start = manifest(files=(ONE, TWO, THREE), removed=(RemovedFile("a.parquet", 2, 1),))

    once = change(start)

    assert once != start
    assert change(once) is once
