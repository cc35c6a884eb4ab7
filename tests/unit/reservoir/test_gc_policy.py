"""Promise: a file or a checkpoint is deleted when no version that can be recovered needs it, not
before; and what damage may need is deleted by nobody."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.reservoir import gc_policy, object_keys, reservoir_state
from strandline.reservoir.checkpoint_registry import FLAG_BUNDLE, FLAG_SNAPSHOT, RegistryRow
from strandline.reservoir.data_files.data_file_table import FileEntry, FileRef
from strandline.reservoir.reservoir_state import ReservoirState

DATA = object_keys.data_file_id(3, 0)
OTHER = object_keys.data_file_id(3, 1)


def at(
    version: int, *, snapshots: Iterable[int] = (1,), first: int = 1, term: int = 9
) -> ReservoirState:
    """A state of this version, with a registry from ``first`` on."""
    made = reservoir_state.empty_state(b"r" * 16)
    made.version, made.term = version, term
    made.rows = [
        RegistryRow(n, FLAG_SNAPSHOT * (n in snapshots) | FLAG_BUNDLE, 0, 0, 0)
        for n in range(first, version + 1)
    ]
    return made


def add(made: ReservoirState, file_id: int, *, dead: int = 0, added_at: int = 1) -> None:
    ref = FileRef(file_id, 100, 0)
    made.files.add(FileEntry(ref=ref, pages=2, dead_pages=dead, added_at=added_at))


def test_a_file_is_dead_when_nothing_in_it_is_alive():
    made = at(9)
    add(made, DATA, dead=2)
    add(made, OTHER, dead=1)

    assert gc_policy.dead_files(made, 10) == [DATA]


def test_a_file_of_this_checkpoint_is_not_left_behind():
    made = at(9)
    add(made, DATA, dead=2, added_at=10)

    assert gc_policy.dead_files(made, 10) == []
    assert gc_policy.dead_files(made, 11) == [DATA]


def test_a_dead_bundle_stays_until_a_snapshot_covers_it():
    made = at(9, snapshots=(1, 5))
    for version in (4, 5, 6):
        add(made, object_keys.bundle_id(version), dead=2, added_at=version)

    assert gc_policy.dead_files(made, 10) == [object_keys.bundle_id(4)]


def test_garbage_stays_for_the_versions_that_are_kept():
    made = at(10)
    for version in range(5, 11):
        made.files.garbage[object_keys.data_file_id(3, version)] = version

    doomed = [file_id & 0xFFFF for file_id in gc_policy.old_files(made, 2)]

    assert doomed == [5, 6, 7]
    assert len(gc_policy.old_files(made, 100)) == 0


def test_a_bundle_that_is_garbage_stays_as_long_as_its_checkpoint():
    made = at(10, first=4, snapshots=(4,))
    made.files.garbage = {
        object_keys.bundle_id(3): 5,
        object_keys.bundle_id(4): 5,
        object_keys.bundle_id(5): 6,
    }

    assert gc_policy.old_files(made, 2) == [object_keys.bundle_id(3)]


def test_garbage_from_before_the_damage_stays():
    made = at(10)
    made.kept_term = 3
    made.files.garbage = {DATA: 5, object_keys.data_file_id(4, 0): 5}

    assert gc_policy.old_files(made, 2) == [object_keys.data_file_id(4, 0)]


def test_a_checkpoint_that_left_the_registry_is_deleted_unless_it_holds_pages():
    made = at(10, first=6, snapshots=(6,))
    add(made, object_keys.bundle_id(2))
    made.files.garbage[object_keys.bundle_id(3)] = 9
    dropped = [RegistryRow(version, 0, 0, 0, 0) for version in (1, 2, 3, 4)]

    assert gc_policy.old_checkpoints(made, dropped) == [1, 4]


def test_a_checkpoint_from_before_the_damage_stays():
    made = at(10, first=6, snapshots=(6,))
    made.kept_term = 2

    assert gc_policy.old_checkpoints(made, [RegistryRow(n, 0, 0, 0, 0) for n in (1, 2, 3)]) == [3]


def test_objects_that_the_tables_do_not_know_are_left_over():
    made = at(10, first=6, snapshots=(6,), term=10)
    add(made, DATA)
    made.files.garbage[OTHER] = 9
    add(made, object_keys.bundle_id(2))
    unknown = object_keys.data_file_id(3, 2)

    found = gc_policy.leftover_objects(made, [1, 2, 5, 6, 9, 10, 11], [DATA, OTHER, unknown])

    assert found == ([1, 5], [unknown])


def test_what_a_writer_of_this_or_a_later_term_stores_is_not_left_over():
    made = at(10, term=10)
    ours, theirs = object_keys.data_file_id(10, 0), object_keys.data_file_id(11, 0)

    assert gc_policy.leftover_objects(made, [11, 12], [ours, theirs]) == ([], [])


def test_nothing_from_before_the_damage_is_left_over():
    made = at(10, first=6, snapshots=(6,), term=10)
    made.kept_term = 4
    files = [object_keys.data_file_id(4, 0), object_keys.data_file_id(5, 0)]

    assert gc_policy.leftover_objects(made, [3, 4, 5], files) == ([5], files[1:])
