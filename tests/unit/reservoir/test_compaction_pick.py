"""Promise: files with little left are rewritten when that fills new files, or when they are many,
or half a file; and none that a checkpoint still needs."""

from __future__ import annotations

import pytest

from strandline.reservoir import compaction, object_keys
from strandline.reservoir.compaction import LEFT_OVER_MAX
from strandline.reservoir.data_files.data_file_table import INDEX_BYTES, FileEntry, FileRef

FULL = 1000
SHARE = 0.33


def entry(live: int, *, file_id: int = 1, size: int = FULL, added_at: int = 1) -> FileEntry:
    ref = FileRef(file_id, size, 0)
    dead_bytes = size - live - INDEX_BYTES
    return FileEntry(ref=ref, pages=9, dead_bytes=dead_bytes, dead_pages=1, added_at=added_at)


def picked(*live: int, waiting: int = 0, share: float = SHARE) -> list[int]:
    """Live bytes of the files that are chosen."""
    entries = [entry(size) for size in live]
    chosen = compaction.choose_files(entries, file_bytes=FULL, share=share, waiting_bytes=waiting)
    return [each.live_bytes for each in chosen]


@pytest.mark.parametrize(("live", "is_small"), [(329, True), (330, False), (331, False)])
def test_a_file_is_worth_a_look_below_the_share(live, is_small):
    assert picked(live, waiting=900) == [live] * is_small


def test_a_share_of_nothing_rewrites_nothing():
    assert picked(*[0, 1, 2] * 10, waiting=999, share=0) == []


def test_files_are_gathered_until_they_fill_a_new_one():
    assert picked(300, 300, 300, 100) == [300, 300, 300, 100]


def test_larger_files_between_them_are_left_alone():
    assert picked(300, 900, 300, 330, 300, 100) == [300, 300, 300, 100]


def test_a_group_is_whole_at_exactly_a_full_file():
    assert picked(300, 300, 300, 100, 10) == [300, 300, 300, 100]
    assert picked(300, 300, 300, 99) == [300, 300, 300, 99]


def test_pages_that_wait_count_for_the_first_group_only():
    assert picked(300, 50, waiting=700) == [300]
    assert picked(300, 300, 300, waiting=700) == [300, 300, 300]


@pytest.mark.parametrize(("waiting", "chosen"), [(389, []), (390, [10, 100]), (400, [10, 100])])
def test_what_is_left_is_rewritten_from_half_a_file_on(waiting, chosen):
    assert picked(10, 100, waiting=waiting) == chosen


def test_one_file_is_rewritten_with_half_a_file_when_no_group_was_formed():
    assert picked(300, waiting=200) == [300]
    assert picked(300, waiting=199) == []


def test_one_file_left_behind_a_group_stays_although_it_is_half_a_file():
    assert picked(300, 700, 500, share=0.8) == [300, 700]
    assert picked(300, 700, 300, 200, share=0.8) == [300, 700, 300, 200]


def test_many_files_are_rewritten_however_small():
    assert picked(*[1] * LEFT_OVER_MAX) == []
    assert picked(*[1] * (LEFT_OVER_MAX + 1)) == [1] * (LEFT_OVER_MAX + 1)


def test_nothing_is_picked_from_nothing():
    assert picked(waiting=999) == []


@pytest.mark.parametrize(
    ("file_id", "added_at", "is_movable"),
    [
        (object_keys.data_file_id(1, 0), 9, True),
        (object_keys.data_file_id(1, 0), 10, False),
        (object_keys.data_file_id(1, 0), 11, False),
        (object_keys.bundle_id(4), 4, True),
        (object_keys.bundle_id(5), 5, False),
        (object_keys.bundle_id(6), 6, False),
    ],
)
def test_files_of_this_checkpoint_and_bundles_without_a_later_snapshot_stay(
    file_id, added_at, is_movable
):
    each = entry(1, file_id=file_id, added_at=added_at)

    assert compaction.is_movable(each, version=10, snapshot_version=5) == is_movable
