"""Promise: the table of files knows how much of each is dead, and gives a checkpoint what
changed."""

from __future__ import annotations

import numpy as np

from strandline.reservoir.data_files.data_file_table import (
    INDEX_BYTES,
    FileEntry,
    FileRef,
    FileTable,
)


def entry(file_id: int, pages: int = 3, size: int = 300) -> FileEntry:
    return FileEntry(ref=FileRef(file_id, size, file_id * 11, 2), pages=pages, added_at=5)


def table(*file_ids: int) -> FileTable:
    made = FileTable()
    for file_id in file_ids:
        made.add(entry(file_id))
    return made


def kill(files: FileTable, *dead: tuple[int, int]) -> None:
    """Pages of (file, size) are dead."""
    ids = np.array([file_id for file_id, _ in dead], dtype="<u8")
    files.count_dead(ids, np.array([size for _, size in dead], dtype="<u4"))


def test_dead_pages_are_counted_for_their_files():
    files = table(1, 2, 1 << 63 | 7)

    kill(files, (1, 10), (2, 5), (1, 20), (1 << 63 | 7, 1))

    found = {n: (each.dead_pages, each.dead_bytes) for n, each in files.live.items()}
    assert found == {1: (2, 30), 2: (1, 5), 1 << 63 | 7: (1, 1)}
    assert files.live[1].live_bytes == 270 - 2 * INDEX_BYTES


def test_pages_that_were_nowhere_kill_nothing():
    files = table(1)

    kill(files, (0, 0), (0, 0))
    kill(files)

    assert (files.live[1].dead_pages, files.live[1].dead_bytes) == (0, 0)


def test_a_file_is_dead_with_its_last_page():
    files = table(1)

    kill(files, (1, 1), (1, 1))
    assert not files.live[1].is_dead
    kill(files, (1, 0))

    assert files.live[1].is_dead


def test_a_buried_file_is_garbage_since_that_version():
    files = table(1, 2)

    files.move_to_garbage([1], 9)

    assert set(files.live) == {2}
    assert files.garbage == {1: 9}
    assert files.rows(changed_only=True)["file_id"].tolist() == [2]
    assert files.garbage_rows(changed_only=True).tolist() == [(1, 9)]


def test_a_checkpoint_gets_what_changed_since_the_last_and_a_snapshot_everything():
    files = table(3, 1, 2, 4)
    files.move_to_garbage([4], 6)
    files.checkpointed()

    kill(files, (2, 7))
    files.move_to_garbage([1], 7)

    assert files.rows(changed_only=True)["file_id"].tolist() == [2]
    assert files.garbage_rows(changed_only=True).tolist() == [(1, 7)]
    assert files.rows(changed_only=False)["file_id"].tolist() == [2, 3]
    assert files.garbage_rows(changed_only=False).tolist() == [(1, 7), (4, 6)]


def test_nothing_has_changed_right_after_a_checkpoint():
    files = table(1, 2)
    files.move_to_garbage([2], 6)

    files.checkpointed()

    assert len(files.rows(changed_only=True)) == 0
    assert len(files.garbage_rows(changed_only=True)) == 0


def test_a_deleted_object_is_forgotten():
    files = table(1, 2)
    files.move_to_garbage([1, 2], 6)

    files.forget([1, 77])

    assert files.garbage == {2: 6}
    assert files.garbage_rows(changed_only=True).tolist() == [(2, 6)]


def test_increments_on_top_of_a_snapshot_give_the_same_table():
    files = table(1, 2, 3)
    copy = FileTable()
    copy.apply(files.rows(changed_only=False), files.garbage_rows(changed_only=False))
    files.checkpointed()
    files.add(entry(4, pages=1))
    kill(files, (1, 10), (2, 20), (2, 20), (2, 20))
    files.move_to_garbage([2], 8)

    copy.apply(files.rows(changed_only=True), files.garbage_rows(changed_only=True))

    assert copy.live == files.live
    assert copy.garbage == files.garbage


def test_a_row_has_every_field():
    files = table(7)
    kill(files, (7, 9))

    assert files.rows(changed_only=True).tolist() == [(7, 3, 1, 300, 9, 5, 77, 2)]
