"""What may be deleted, and when. Pure.

A file without live pages is kept for as long as a version that can still be recovered may point
into it; so is a checkpoint that such a version is put together from. A bundle is both, and goes
when it is neither.

Objects that the tables do not know are left over from a writer that died, or was fenced, in the
middle. The next opening deletes them: unless it had to pass over a damaged version, to which they
may belong. Then nothing is deleted in that opening, and what existed before it (``kept_term``)
never, but by hand.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.reservoir import object_keys
from strandline.reservoir.checkpoint_registry import Row
from strandline.reservoir.compaction import is_movable
from strandline.reservoir.reservoir_state import State


def dead_files(state: State, version: int) -> list[int]:
    """Files that nothing alive is in, and that the checkpoint of this version may leave behind."""
    return [
        file_id
        for file_id, entry in state.files.live.items()
        if entry.is_dead and is_movable(entry, version, state.snapshot_version)
    ]


def unlisted_files(state: State, version: int) -> list[int]:
    """Files that nothing alive is in, and that the checkpoint of this version would be the first to
    list: no version needs them."""
    return [
        file_id
        for file_id, entry in state.files.live.items()
        if entry.is_dead and entry.added_at >= version
    ]


def old_files(state: State, keep_versions: int) -> list[int]:
    """Garbage that no version needs any more that can be recovered."""
    oldest = state.version - keep_versions
    first_row = state.rows[0].version
    return [
        file_id
        for file_id, deleted_at in state.files.garbage.items()
        if deleted_at < oldest
        and object_keys.origin_of(file_id) > state.kept_term
        and not (
            object_keys.is_bundle(file_id) and object_keys.bundle_version(file_id) >= first_row
        )
    ]


def old_checkpoints(state: State, dropped: Iterable[Row]) -> list[int]:
    """Versions that have left the registry and whose objects nobody needs."""
    return [
        row.version
        for row in dropped
        if row.version > state.kept_term and not _is_needed(state, row.version)
    ]


def left_overs(
    state: State, checkpoints: Iterable[int], data_files: Iterable[int]
) -> tuple[list[int], list[int]]:
    """Listed objects that the tables do not know: versions of checkpoints, and data files."""
    known = {row.version for row in state.rows}
    versions = [
        version
        for version in checkpoints
        if state.kept_term < version < state.version
        and version not in known
        and not _is_needed(state, version)
    ]
    files = [
        file_id
        for file_id in data_files
        if state.kept_term < object_keys.origin_of(file_id) < state.term
        and file_id not in state.files.live
        and file_id not in state.files.garbage
    ]
    return versions, files


def _is_needed(state: State, version: int) -> bool:
    """Whether the object of a version is kept for its pages, or for its name."""
    files, file_id = state.files, object_keys.bundle_id(version)
    return file_id in files.live or file_id in files.garbage or file_id in files.names
